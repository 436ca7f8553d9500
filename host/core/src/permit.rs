//! Permits: proof that a call is allowed, because this token may do this on this path, because the
//! path needs no token, because the component authenticates callers of plain HTTP itself, or
//! because due work was claimed.
//!
//! This file prevents an unchecked call. A mount's component is reached only with a permit, and
//! only the functions below create permits.
//!
//! Example. The pipeline asks `Permit::ask` about `GET /v1/database/creds/app` with the `Acl` of
//! the caller's token, the path `database/creds/app` and the operation `read`. A policy with
//! `path "database/creds/*" { capabilities = ["read"] }` yields a `Permit`, which carries the
//! granted capabilities for the component and the names of the granting policies for the audit
//! line. A call needs the engine, the grants and the instances of its mount, and only
//! `Mounts::open` hands out all three, in exchange for a permit: code without the check does not
//! compile. Without such a policy, `Permit::ask` returns 403, "permission denied: this token may
//! not read database/creds/app". The component is not entered, the unit of work is dropped, and the
//! audit log records the refusal. Due work has no token: the revocation of the same lease gets a
//! permit from its `Claim` (`Permit::for_due_work`).

use bulkhead_access::background::Claim;
use bulkhead_access::policies::acl::{AccessRequest, AccessVerdict, Acl, GrantedAccess};
use bulkhead_access::policies::capability;
use bulkhead_wire::description::{RawAccess, Route};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// Proof that an action is allowed. `Mounts::open`, the only way to a component, takes a permit.
pub struct Permit {
    granted: GrantedAccess,
}

impl Permit {
    /// Checks the request against the token's policies.
    ///
    /// # Errors
    /// 403, worded so that the caller does not learn which objects exist on the path.
    pub fn ask(acl: &Acl, question: &AccessRequest<'_>) -> Result<Self, Failure> {
        Self::of(acl.check(question))
    }

    /// Checks the request against the token's policies without parameter restrictions. For a
    /// request that is refused for another reason, which only an authorised caller may learn.
    ///
    /// # Errors
    /// 403, as [`Permit::ask`].
    pub fn ask_apart_from_parameters(
        acl: &Acl,
        question: &AccessRequest<'_>,
    ) -> Result<Self, Failure> {
        Self::of(acl.check_apart_from_parameters(question))
    }

    fn of(verdict: AccessVerdict) -> Result<Self, Failure> {
        match verdict {
            AccessVerdict::Granted(granted) => Ok(Self { granted }),
            // The sentence names path and parameters, never a value.
            AccessVerdict::Denied(why) => Err(Failure::denied(why).recordable()),
        }
    }

    /// Permits a request to a row that needs no token and no policy: a login or a public row.
    ///
    /// # Errors
    /// 403 for any other row.
    pub fn without_token(route: &Route) -> Result<Self, Failure> {
        match route.needs_no_token() {
            true => Ok(Self { granted: GrantedAccess::default() }),
            false => Err(Failure::denied("this path needs a token")),
        }
    }

    /// Permits plain HTTP for callers that the component authenticates itself, as its description
    /// declares.
    pub fn for_raw(_access: &RawAccess) -> Self {
        Self { granted: GrantedAccess::default() }
    }

    /// Permits ending or renewing a lease, and timers: the holder of the claim acts for the host.
    pub(crate) fn for_due_work(_claim: &Claim) -> Self {
        Self { granted: GrantedAccess::default() }
    }

    /// Returns the capabilities that the token's policies grant on the path.
    pub fn capabilities(&self) -> &[String] {
        &self.granted.capabilities
    }

    /// Returns whether the token's policies grant `sudo` on the path.
    pub fn has_sudo(&self) -> bool {
        capability::include_sudo(self.capabilities())
    }

    /// Returns the names of the granting policies for the audit line; empty if no token was used.
    pub fn granting_policies(&self) -> &Arc<[Arc<str>]> {
        &self.granted.policies
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use bulkhead_access::policies::parse::Policy;
    use bulkhead_wire::description::Operation;
    use bulkhead_wire::failure::FailureKind;
    use serde_json::Map;

    #[test]
    fn permit_names_capabilities_and_granting_policies() {
        let read = Policy::parse("readers", r#"path "x" { capabilities = ["read"] }"#).unwrap();
        let both =
            Policy::parse("both", r#"path "x" { capabilities = ["read", "update"] }"#).unwrap();
        let acl = Acl::new([&read, &both]);
        let ask = |operation| {
            let question = AccessRequest {
                path: "x",
                operation,
                sudo: false,
                wrap_ttl: None,
                fields: &Map::new(),
                schema: &[],
            };
            Permit::ask(&acl, &question)
        };
        let permit = ask(Operation::Update).unwrap();
        assert_eq!(permit.capabilities(), ["read", "update"]);
        assert_eq!(permit.granting_policies()[..], [Arc::from("both")]);
        assert_eq!(
            ask(Operation::Read).unwrap().granting_policies()[..],
            [Arc::from("readers"), Arc::from("both")]
        );
        let refused = ask(Operation::Delete).err().unwrap();
        assert_eq!(refused.kind, FailureKind::PermissionDenied);
        assert_eq!(refused.message, "permission denied: this token may not delete x");
    }
}
