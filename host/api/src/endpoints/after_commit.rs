//! Effects of an endpoint beside the unit of work, applied after the commit: the state in memory
//! follows the store before the caller gets the answer.

use bulkhead_access::tokens::TokenType;
use bulkhead_audit::AuditChange;
use bulkhead_core::Core;
use bulkhead_core::catalog;
use bulkhead_core::lifecycle;
use bulkhead_core::mounts;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// An effect after the commit.
pub(crate) enum AfterCommit {
    Nothing,
    /// Forgets parsed policies.
    ForgetPolicies,
    /// Reads the quotas again.
    LoadQuotas,
    /// Counts a created token.
    CountToken(TokenType),
    /// Counts the renewal of a token.
    CountTokenRenewal,
    /// Ends the descendants of the token with this key.
    SpreadTokenEnd(String),
    /// Removes the members of groups that were deleted or lost their alias.
    LetMembersLeave,
    /// Seals the service after the answer.
    Seal,
    Mounts(mounts::MountChange),
    Audit(AuditChange),
    Catalog(catalog::CatalogChange),
}

impl AfterCommit {
    /// Returns true if the effect is also applied after a failed commit. A failed commit may still
    /// be stored, so parsed policies must be forgotten and quotas read again.
    pub(crate) fn is_due_in_doubt(&self) -> bool {
        matches!(self, Self::ForgetPolicies | Self::LoadQuotas)
    }

    /// Applies the effect.
    ///
    /// # Errors
    /// The failure that the caller gets instead of the answer. The change is stored nevertheless.
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
            Self::CountToken(kind) => {
                core.tokens.counts.of(kind).note_created();
                Ok(())
            }
            Self::CountTokenRenewal => {
                core.tokens.counts.of(TokenType::Service).note_renewed();
                Ok(())
            }
            Self::SpreadTokenEnd(key) => core.tokens.spread_end(&key).await,
            Self::Seal => {
                core.ask_to_seal();
                Ok(())
            }
            Self::Mounts(change) => lifecycle::apply_mount_change(core, change).await,
            Self::Audit(change) => lifecycle::apply_audit_change(core, change).await,
            Self::Catalog(change) => lifecycle::apply_catalog_change(core, change).await,
        }
    }
}
