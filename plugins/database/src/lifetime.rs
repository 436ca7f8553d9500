//! Lifetime of a user: the limits of role and mount, and a grace period of the database.

use crate::roles::Role;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::wire::duration::show;
use bulkhead_sdk::wire::ttl::{TtlBounds, grant};
use bulkhead_sdk::{Failure, Mount};

/// Grace period in milliseconds, by which the database's expiry follows the end of the lease. The
/// database must not expire the user before the lease ends.
const EXPIRY_GRACE_MS: u64 = 5_000;

/// The granted lifetime of a lease.
#[derive(Debug)]
pub(crate) struct LeaseLifetime {
    /// Seconds from now.
    pub(crate) ttl: u64,
    /// The time at which the database itself stops accepting the credential.
    pub(crate) expires: StoreTime,
    pub(crate) warnings: Vec<String>,
}

impl LeaseLifetime {
    /// Returns the lifetime of a lease that starts now.
    pub(crate) fn of_new(role: &Role, mount: &Mount, now: StoreTime) -> Result<Self, Failure> {
        Self::within_bounds(
            role,
            mount,
            0,
            LeaseTimes { issued: now / 1_000, seconds: now / 1_000, now },
        )
    }

    /// Returns the lifetime of a lease that was issued at `issued` and is renewed for `increment`
    /// seconds.
    pub(crate) fn of_renewal(
        role: &Role,
        mount: &Mount,
        increment: u64,
        issued: StoreTime,
        now: StoreTime,
    ) -> Result<Self, Failure> {
        // The age is rounded up. Otherwise renewals in the last second of a lease would never end.
        Self::within_bounds(
            role,
            mount,
            increment,
            LeaseTimes { issued: issued / 1_000, seconds: now.div_ceil(1_000), now },
        )
    }

    fn within_bounds(
        role: &Role,
        mount: &Mount,
        increment: u64,
        age: LeaseTimes,
    ) -> Result<Self, Failure> {
        let bounds = TtlBounds {
            role_ttl: role.default_ttl,
            role_max: role.max_ttl,
            mount_default: mount.default_ttl,
            mount_max: mount.max_ttl,
            ..TtlBounds::default()
        };
        let granted = grant(&bounds, increment, age.issued, age.seconds)?;
        // The minimum is 1 second, even for a token about to expire: 0 would mean the mount's
        // default.
        let ttl = granted.ttl.min(mount.longest_lease.max(1));
        let warning = if ttl < granted.ttl {
            let (ttl, granted) = (show(ttl), show(granted.ttl));
            Some(format!("the lease ends with the requesting token: {ttl} instead of {granted}"))
        } else {
            granted.warning
        };
        Ok(Self {
            ttl,
            expires: age
                .now
                .saturating_add(ttl.saturating_mul(1_000))
                .saturating_add(EXPIRY_GRACE_MS),
            warnings: warning.into_iter().collect(),
        })
    }
}

/// The times of a lease: seconds for the limits, milliseconds for the database.
struct LeaseTimes {
    issued: u64,
    seconds: u64,
    now: StoreTime,
}

#[cfg(test)]
mod tests {
    use super::LeaseLifetime;
    use crate::roles::Role;
    use bulkhead_sdk::Mount;

    const NOW: u64 = 1_000_000_000_000;

    fn role(default_ttl: u64, max_ttl: u64) -> Role {
        Role { default_ttl, max_ttl, ..Role::default() }
    }

    fn mount() -> Mount {
        Mount { default_ttl: 3_600, max_ttl: 7_200, longest_lease: 7_200, ..Mount::default() }
    }

    #[test]
    fn database_expiry_is_five_seconds_after_lease() {
        let lifetime = LeaseLifetime::of_new(&role(60, 0), &mount(), NOW).unwrap();
        assert_eq!((lifetime.ttl, lifetime.expires), (60, NOW + 65_000));
        assert!(lifetime.warnings.is_empty());
    }

    #[test]
    fn a_role_without_a_lifetime_takes_the_mounts() {
        assert_eq!(LeaseLifetime::of_new(&role(0, 0), &mount(), NOW).unwrap().ttl, 3_600);
    }

    #[test]
    fn the_mounts_maximum_caps_the_roles() {
        let lifetime = LeaseLifetime::of_new(&role(90_000, 100_000), &mount(), NOW).unwrap();
        assert_eq!(lifetime.ttl, 7_200);
        assert_eq!(lifetime.warnings.len(), 1);
    }

    #[test]
    fn lease_never_outlives_requesting_token() {
        let short = Mount { longest_lease: 30, ..mount() };
        let lifetime = LeaseLifetime::of_new(&role(60, 0), &short, NOW).unwrap();
        assert_eq!(lifetime.ttl, 30);
        assert!(
            lifetime.warnings.iter().any(|warning| warning.contains("token")),
            "{:?}",
            lifetime.warnings
        );
        let ending = Mount { longest_lease: 0, ..mount() };
        assert_eq!(LeaseLifetime::of_new(&role(60, 0), &ending, NOW).unwrap().ttl, 1);
    }

    #[test]
    fn renewal_half_second_before_end_is_refused() {
        let issued = NOW + 300;
        let end = issued + 100_000;
        let renewed =
            LeaseLifetime::of_renewal(&role(60, 100), &mount(), 60, issued, end - 2_500).unwrap();
        assert!(renewed.ttl * 1_000 <= 2_500, "{renewed:?}");
        assert!(
            LeaseLifetime::of_renewal(&role(60, 100), &mount(), 60, issued, end - 500).is_err()
        );
        assert!(LeaseLifetime::of_renewal(&role(60, 100), &mount(), 60, issued, end + 1).is_err());
    }
}
