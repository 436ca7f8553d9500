//! How long a lease and its token live: the role's, the mount's and the cluster's limits.

use crate::roles::Role;
use crate::token::SHORTEST;
use bulkhead_sdk::wire::duration::show;
use bulkhead_sdk::wire::ttl::{Bounds, grant};
use bulkhead_sdk::{Call, Failure, Mount};

/// What a lease was granted, before the cluster has had its say.
#[derive(Clone, Debug)]
pub(crate) struct Lifetime {
    /// Seconds from now.
    pub(crate) ttl: u64,
    pub(crate) warnings: Vec<String>,
}

impl Lifetime {
    /// The lifetime of a lease that `call` asks for by `role`.
    pub(crate) fn of(role: &Role, call: &Call) -> Result<Self, Failure> {
        let mount: &Mount = &call.mount;
        let bounds = Bounds {
            role_ttl: role.token_default_ttl,
            role_max: role.token_max_ttl,
            mount_default: mount.default_ttl,
            mount_max: mount.max_ttl,
            ..Bounds::default()
        };
        let granted = grant(&bounds, call.seconds("ttl"), 0, 0)?;
        // A call whose token is at its very end still gets a second, because 0 would mean the
        // mount's default.
        let granted =
            granted.at_most(mount.longest_lease.max(1), "what the caller's token has left");
        Ok(Self { ttl: granted.ttl, warnings: granted.warning.into_iter().collect() })
    }

    /// Seconds that the cluster is asked for: never less than it gives (decision E3).
    pub(crate) fn asked(&self) -> u64 {
        self.ttl.clamp(SHORTEST, u64::from(u32::MAX))
    }

    /// The lease of a token that lives for `token` seconds: never longer than it, and with a word
    /// about one that lives longer.
    pub(crate) fn of_token(mut self, token: u64, ends_with_lease: bool) -> Self {
        let (told, lease) = (show(token), show(self.ttl));
        if token < self.ttl {
            self.warnings.push(format!(
                "the cluster made a token of {told}, which is less than {lease}; the lease is \
                 capped accordingly"
            ));
            self.ttl = token.max(1);
        } else if token > self.ttl && ends_with_lease {
            self.warnings.push(format!(
                "the cluster made a token of {told}, which is longer than the lease of {lease}; it \
                 ends with the lease, because its service account does"
            ));
        } else if token > self.ttl {
            self.warnings.push(format!(
                "the cluster made a token of {told}, which is longer than the lease of {lease}, \
                 and it lives on after the lease: a token of a service account that exists cannot \
                 be revoked"
            ));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(ttl: u64) -> Lifetime {
        Lifetime { ttl, warnings: Vec::new() }
    }

    #[test]
    fn the_cluster_is_asked_for_no_less_than_it_gives() {
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
    fn a_token_that_outlives_its_lease_is_told_by_what_becomes_of_it() {
        let bound = lease(60).of_token(600, true);
        assert!(bound.ttl == 60 && bound.warnings[0].contains("ends with the lease"));
        let existing = lease(60).of_token(31_536_000, false);
        assert!(existing.ttl == 60 && existing.warnings[0].contains("cannot be revoked"));
    }
}
