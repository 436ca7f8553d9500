//! Permits: proof that this token may do this on this path, that the path asks for no token, or
//! that due work was claimed.
//!
//! The attack this file stops: an unchecked call. A mount's component is had only in exchange for a
//! permit, and only the functions below make one.

use crate::background::Claim;
use crate::policies::acl::{Acl, Granted, Question, Verdict};
use bulkhead_wire::description::{RawAccess, Route};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// What was permitted. There is no other way to a component than `Mounts::open`, which takes one.
pub(crate) struct Permit {
    granted: Granted,
}

impl Permit {
    /// Holds the request against the token's policies.
    ///
    /// # Errors
    /// 403, worded so that the caller does not learn what exists on the path.
    pub(crate) fn ask(acl: &Acl, question: &Question<'_>) -> Result<Self, Failure> {
        Self::of(acl.check(question))
    }

    /// Holds the request against the token's policies apart from what they say of parameters: of a
    /// request that is refused for another reason, which only such a caller may learn.
    ///
    /// # Errors
    /// 403, as [`Permit::ask`].
    pub(crate) fn ask_apart_from_parameters(
        acl: &Acl,
        question: &Question<'_>,
    ) -> Result<Self, Failure> {
        Self::of(acl.check_apart_from_parameters(question))
    }

    fn of(verdict: Verdict) -> Result<Self, Failure> {
        match verdict {
            Verdict::Granted(granted) => Ok(Self { granted }),
            // It names path and parameters, and never a value.
            Verdict::Denied(why) => Err(Failure::denied(why).recordable()),
        }
    }

    /// For a row that asks for no token, and so for no policy: a login, or one that is public.
    ///
    /// # Errors
    /// 403 for any other row.
    pub(crate) fn without_token(route: &Route) -> Result<Self, Failure> {
        match route.asks_for_no_token() {
            true => Ok(Self { granted: Granted::default() }),
            false => Err(Failure::denied("this path needs a token")),
        }
    }

    /// For plain HTTP, to callers whom the component authenticates itself: it says in its
    /// description that it does.
    pub(crate) fn for_raw(_access: &RawAccess) -> Self {
        Self { granted: Granted::default() }
    }

    /// For the end or renewal of a lease, and for timers: the holder of the claim acts for the
    /// host.
    pub(crate) fn for_due_work(_claim: &Claim) -> Self {
        Self { granted: Granted::default() }
    }

    /// Capabilities that the token's policies grant on the path.
    pub(crate) fn capabilities(&self) -> &[String] {
        &self.granted.capabilities
    }

    /// Names of the policies that grant it, for the audit line; none for due work, which no token
    /// asked for.
    pub(crate) fn granting(&self) -> &Arc<[Arc<str>]> {
        &self.granted.policies
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::policies::parse::Policy;
    use bulkhead_wire::description::Operation;
    use bulkhead_wire::failure::Kind;
    use serde_json::Map;

    #[test]
    fn a_permit_says_what_was_granted_and_by_which_policies() {
        let read = Policy::parse("readers", r#"path "x" { capabilities = ["read"] }"#).unwrap();
        let both =
            Policy::parse("both", r#"path "x" { capabilities = ["read", "update"] }"#).unwrap();
        let acl = Acl::new([&read, &both]);
        let ask = |operation| {
            let question =
                Question { path: "x", operation, sudo: false, fields: &Map::new(), schema: &[] };
            Permit::ask(&acl, &question)
        };
        let permit = ask(Operation::Update).unwrap();
        assert_eq!(permit.capabilities(), ["read", "update"]);
        assert_eq!(permit.granting()[..], [Arc::from("both")]);
        assert_eq!(
            ask(Operation::Read).unwrap().granting()[..],
            [Arc::from("readers"), Arc::from("both")]
        );
        let refused = ask(Operation::Delete).err().unwrap();
        assert_eq!(refused.kind, Kind::PermissionDenied);
        assert_eq!(refused.message, "permission denied: this token may not delete x");
    }
}
