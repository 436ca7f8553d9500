//! How long a lease may live: the arithmetic of `spec/core.md` §2.5, without periods.
//!
//! The attack it stops: a lease that outlives its maximum by being renewed again and again.

use crate::duration::show;
use crate::failure::Failure;

/// What limits a lease, in seconds; 0 says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The role's `default_ttl` or `ttl`.
    pub role_ttl: u64,
    /// The role's `max_ttl`.
    pub role_max: u64,
    /// The mount's default, or the system's where the mount has none.
    pub mount_default: u64,
    /// The mount's maximum, or the system's where the mount has none.
    pub mount_max: u64,
}

/// What was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Seconds from now; never 0.
    pub ttl: u64,
    /// Says that less was granted than was due, and why.
    pub warning: Option<String>,
}

impl Bounds {
    /// The smaller of the two maxima and whose it is; `None` when neither is set.
    fn cap(&self) -> Option<(u64, &'static str)> {
        let caps = [(self.role_max, "the role's max_ttl"), (self.mount_max, "the mount's maximum")];
        caps.into_iter().filter(|(max, _)| *max > 0).min_by_key(|(max, _)| *max)
    }
}

/// The ttl of a lease that is issued or renewed at `now`. `increment` is what the caller asked for, 0 for nothing;
/// it counts from `now`, while the maximum counts from `issued`. All in seconds.
///
/// # Errors
/// 400 when the maximum is used up; 500 when nothing says how long a lease lives.
pub fn grant(bounds: &Bounds, increment: u64, issued: u64, now: u64) -> Result<Granted, Failure> {
    let wanted = [increment, bounds.role_ttl, bounds.mount_default].into_iter().find(|ttl| *ttl > 0);
    let Some((max, whose)) = bounds.cap() else {
        return wanted.map(|ttl| Granted { ttl, warning: None }).ok_or_else(|| {
            Failure::internal("neither the role nor the mount says how long a lease lives; tune the mount's ttl")
        });
    };
    let left = issued.saturating_add(max).saturating_sub(now).min(max);
    if left == 0 {
        return Err(Failure::invalid(format!(
            "past the max TTL: {whose} of {} is used up; ask for a new lease",
            show(max)
        )));
    }
    match wanted {
        Some(wanted) if wanted > left => Ok(Granted { ttl: left, warning: Some(lowered(wanted, left, max, whose)) }),
        wanted => Ok(Granted { ttl: wanted.unwrap_or(left), warning: None }),
    }
}

fn lowered(wanted: u64, left: u64, max: u64, whose: &str) -> String {
    let (wanted, granted, cap) = (show(wanted), show(left), show(max));
    if left == max {
        format!("ttl {wanted} is longer than {whose} of {cap}; {granted} were granted")
    } else {
        format!("ttl {wanted} is longer than what is left of {whose} of {cap}; {granted} were granted")
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]
mod tests {
    use super::*;
    use crate::failure::Kind;

    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;
    const BOUNDS: Bounds = Bounds { role_ttl: HOUR, role_max: DAY, mount_default: 2 * HOUR, mount_max: 32 * DAY };

    fn ttl(bounds: Bounds, increment: u64, issued: u64, now: u64) -> u64 {
        grant(&bounds, increment, issued, now).unwrap().ttl
    }

    #[test]
    fn the_callers_wish_comes_before_the_role_and_the_role_before_the_mount() {
        assert_eq!(ttl(BOUNDS, 60, 1000, 1000), 60);
        assert_eq!(ttl(BOUNDS, 0, 1000, 1000), HOUR);
        assert_eq!(ttl(Bounds { role_ttl: 0, ..BOUNDS }, 0, 1000, 1000), 2 * HOUR);
    }

    #[test]
    fn an_increment_counts_from_now_and_may_shorten() {
        assert_eq!(ttl(BOUNDS, 60, 1000, 1000 + HOUR / 2), 60);
    }

    #[test]
    fn the_smaller_maximum_caps_and_is_named() {
        let granted = grant(&BOUNDS, 90 * DAY, 1000, 1000).unwrap();
        assert_eq!(granted.ttl, DAY);
        assert_eq!(granted.warning.unwrap(), "ttl 90d is longer than the role's max_ttl of 1d; 1d were granted");
        let granted = grant(&Bounds { role_max: 0, ..BOUNDS }, 90 * DAY, 1000, 1000).unwrap();
        assert_eq!(granted.ttl, 32 * DAY);
        assert!(granted.warning.unwrap().contains("the mount's maximum of 32d"));
        assert_eq!(grant(&BOUNDS, DAY, 1000, 1000).unwrap(), Granted { ttl: DAY, warning: None });
    }

    #[test]
    fn a_renewal_cannot_pass_the_maximum_that_counts_from_the_issue() {
        let granted = grant(&BOUNDS, HOUR, 1000, 1000 + DAY - 60).unwrap();
        assert_eq!(granted.ttl, 60);
        let warning = granted.warning.unwrap();
        assert!(warning.contains("what is left of the role's max_ttl of 1d; 1m were granted"), "{warning}");
        assert_eq!(ttl(BOUNDS, HOUR, 1000, 1000 + DAY - 1), 1);
    }

    #[test]
    fn a_used_up_maximum_is_refused_never_granted_as_zero() {
        for now in [1000 + DAY, 1001 + DAY, u64::MAX] {
            let failure = grant(&BOUNDS, HOUR, 1000, now).unwrap_err();
            assert_eq!(failure.kind, Kind::InvalidRequest);
            assert!(failure.message.contains("past the max TTL"), "{}", failure.message);
        }
    }

    #[test]
    fn without_any_maximum_the_wish_stands_and_without_anything_it_is_our_fault() {
        let silent = Bounds { role_ttl: 0, role_max: 0, mount_default: 0, mount_max: 0 };
        assert_eq!(ttl(silent, u64::MAX, 0, u64::MAX), u64::MAX);
        assert_eq!(grant(&silent, 0, 0, 0).unwrap_err().kind, Kind::Internal);
        assert_eq!(ttl(Bounds { mount_max: DAY, ..silent }, 0, 0, 0), DAY);
    }

    #[test]
    fn extreme_numbers_neither_overflow_nor_lengthen() {
        let endless = Bounds { role_max: u64::MAX, mount_max: u64::MAX, ..BOUNDS };
        assert_eq!(ttl(endless, u64::MAX, u64::MAX - 10, u64::MAX - 5), 5);
        assert_eq!(ttl(BOUNDS, 90 * DAY, 1_000_000, 10), DAY, "a clock that went back gives no more than the maximum");
    }
}
