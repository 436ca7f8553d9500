//! Lifetime of a lease and its token, limited by role, mount and cluster.

use crate::roles::Role;
use crate::token::SHORTEST;
use bulkhead_sdk::wire::duration::show;
use bulkhead_sdk::wire::ttl::{TtlBounds, grant};
use bulkhead_sdk::{Call, Failure, Mount};

/// The lifetime granted to a lease, before the cluster's limit is known.
#[derive(Clone, Debug)]
pub(crate) struct LeaseLifetime {
    /// Seconds from now.
    pub(crate) ttl: u64,
    pub(crate) warnings: Vec<String>,
}

impl LeaseLifetime {
    /// Returns the lifetime of a lease requested by `call` for `role`.
    pub(crate) fn of(role: &Role, call: &Call) -> Result<Self, Failure> {
        let mount: &Mount = &call.mount;
        let bounds = TtlBounds {
            role_ttl: role.token_default_ttl,
            role_max: role.token_max_ttl,
            mount_default: mount.default_ttl,
            mount_max: mount.max_ttl,
            ..TtlBounds::default()
        };
        let granted = grant(&bounds, call.seconds("ttl"), 0, 0)?;
        // A caller's token at its very end still gets 1 second, because 0 would mean the mount's
        // default.
        let granted = granted
            .at_most(mount.longest_lease.max(1), "the remaining lifetime of the caller's token");
        Ok(Self { ttl: granted.ttl, warnings: granted.warning.into_iter().collect() })
    }

    /// Returns the seconds to request from the cluster, at least the cluster's minimum (decision
    /// E3).
    pub(crate) fn asked(&self) -> u64 {
        self.ttl.clamp(SHORTEST, u64::from(u32::MAX))
    }

    /// Returns the lifetime for a token of `token` seconds: never longer than the token. Adds a
    /// warning if the token lives shorter or longer than the lease.
    pub(crate) fn of_token(mut self, token: u64, ends_with_lease: bool) -> Self {
        let (token_ttl, lease) = (show(token), show(self.ttl));
        if token < self.ttl {
            self.warnings.push(format!(
                "the cluster made a token of {token_ttl}, which is less than {lease}; the lease is \
                 capped accordingly"
            ));
            self.ttl = token.max(1);
        } else if token > self.ttl && ends_with_lease {
            self.warnings.push(format!(
                "the cluster made a token of {token_ttl}, which is longer than the lease of \
                 {lease}; the token ends with the lease, because the service account does"
            ));
        } else if token > self.ttl {
            self.warnings.push(format!(
                "the cluster made a token of {token_ttl}, which is longer than the lease of \
                 {lease}, and the token outlives the lease: a token of an existing service account \
                 cannot be revoked"
            ));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(ttl: u64) -> LeaseLifetime {
        LeaseLifetime { ttl, warnings: Vec::new() }
    }

    #[test]
    fn cluster_is_asked_for_at_least_its_minimum() {
        assert_eq!(lease(60).asked(), 600);
        assert_eq!(lease(601).asked(), 601);
        assert_eq!(lease(u64::MAX).asked(), u64::from(u32::MAX));
    }

    #[test]
    fn a_lease_never_outlives_its_token() {
        let capped = lease(7_200).of_token(3_600, true);
        assert_eq!((capped.ttl, capped.warnings.len()), (3_600, 1));
        assert_eq!(lease(60).of_token(0, true).ttl, 1);
        assert!(lease(60).of_token(60, false).warnings.is_empty());
    }

    #[test]
    fn warning_for_token_outliving_lease_depends_on_revocability() {
        let bound = lease(60).of_token(600, true);
        assert!(bound.ttl == 60 && bound.warnings[0].contains("ends with the lease"));
        let existing = lease(60).of_token(31_536_000, false);
        assert!(existing.ttl == 60 && existing.warnings[0].contains("cannot be revoked"));
    }
}
