//! What an endpoint changes besides its unit of work, once that is committed: what the server
//! holds in memory follows what is stored, before the caller is told of it.

use crate::audit::AuditChange;
use crate::catalog;
use crate::core::Core;
use crate::lifecycle;
use crate::mounts;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// What is to happen.
pub(crate) enum AfterCommit {
    Nothing,
    /// Parsed policies are forgotten.
    ForgetPolicies,
    /// Quotas are read again.
    LoadQuotas,
    /// The token of that key is ending, and its descendants with it.
    SpreadTokenEnd(String),
    /// Groups were deleted, or lost the alias by which they got their entities.
    LetMembersLeave,
    /// The service is sealed once the request is answered.
    Seal,
    Mounts(mounts::Change),
    Audit(AuditChange),
    Catalog(catalog::Change),
}

impl AfterCommit {
    /// Whether it happens also after a commit that failed. Such a commit may still be stored, so
    /// policies that were parsed before it are forgotten in any case, and quotas read.
    pub(crate) fn is_due_in_doubt(&self) -> bool {
        matches!(self, Self::ForgetPolicies | Self::LoadQuotas)
    }

    /// Lets it happen.
    ///
    /// # Errors
    /// What the caller is told instead of the answer. The change is stored all the same.
    pub(crate) async fn apply(self, core: &Arc<Core>) -> Result<(), Failure> {
        match self {
            Self::Nothing => Ok(()),
            Self::LetMembersLeave => {
                lifecycle::let_members_leave(core);
                Ok(())
            }
            Self::ForgetPolicies => {
                core.policies.forget_parsed();
                Ok(())
            }
            Self::LoadQuotas => core.quotas.load(&core.store).await,
            Self::SpreadTokenEnd(key) => core.tokens.spread_end(&key).await,
            Self::Seal => {
                core.ask_to_seal();
                Ok(())
            }
            Self::Mounts(change) => lifecycle::apply_mount_change(core, change).await,
            Self::Audit(change) => {
                core.audit.change(change);
                Ok(())
            }
            Self::Catalog(change) => lifecycle::apply_catalog_change(core, change).await,
        }
    }
}
