//! Permits: proof that this token may do this on this path, or that due work was claimed.
//!
//! The attack this file stops: an unchecked call. A mount's component is had only in exchange for a
//! permit, and only the two functions below make one.

use crate::claims::Claim;
use crate::policies::acl::{Acl, Question, Verdict};
use bulkhead_wire::failure::Failure;

/// What was permitted. There is no other way to a component than `Mounts::open`, which takes one.
pub(crate) struct Permit {
    capabilities: Vec<String>,
}

impl Permit {
    /// Holds the request against the token's policies.
    ///
    /// # Errors
    /// 403, worded so that nobody learns what exists on the path.
    pub(crate) fn ask(acl: &Acl, question: &Question<'_>) -> Result<Self, Failure> {
        match acl.check(question) {
            Verdict::Granted { capabilities } => Ok(Self { capabilities }),
            Verdict::Denied(why) => Err(Failure::denied(why)),
        }
    }

    /// For the end or renewal of a lease, and for timers: whoever holds the claim acts for the host.
    pub(crate) fn for_due_work(_claim: &Claim) -> Self {
        Self { capabilities: Vec::new() }
    }

    /// Capabilities that the token's policies grant on the path.
    pub(crate) fn capabilities(&self) -> &[String] {
        &self.capabilities
    }
}
