//! Lifetime of a lease or token: the arithmetic of decision H6.
//!
//! The attack this file prevents: a lease that outlives its maximum through repeated renewals.

use crate::duration::show;
use crate::failure::Failure;

/// The limits of a lease or token, in seconds; 0 means not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TtlBounds {
    /// The role's `default_ttl` or `ttl`.
    pub role_ttl: u64,
    /// The role's `max_ttl`.
    pub role_max: u64,
    /// The `explicit_max_ttl` of a token: the only maximum that also ends a periodic token.
    pub explicit_max: u64,
    /// The period of a token. Each renewal grants the period again; only `explicit_max` limits the
    /// sum.
    pub period: u64,
    /// The mount's default, or the system's default if the mount has none.
    pub mount_default: u64,
    /// The mount's maximum, or the system's maximum if the mount has none.
    pub mount_max: u64,
}

/// A granted lifetime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedTtl {
    /// Seconds from now; never 0.
    pub ttl: u64,
    /// States that less was granted than wanted, and why.
    pub warning: Option<String>,
}

impl GrantedTtl {
    /// Caps the lifetime at `most` seconds, with a warning if that shortens it. `source` names the
    /// cap.
    #[must_use]
    pub fn at_most(self, most: u64, source: &'static str) -> Self {
        if self.ttl <= most { self } else { limit_ttl(self.ttl, most, (most, source)) }
    }
}

/// A maximum in seconds, and the name of its source.
type NamedMaximum = (u64, &'static str);

impl TtlBounds {
    /// Returns the lifetime before any maximum: the period of a periodic token, else the first
    /// value set.
    fn requested_ttl(&self, increment: u64) -> Option<u64> {
        if self.period > 0 {
            return Some(self.period);
        }
        [increment, self.role_ttl, self.mount_default].into_iter().find(|ttl| *ttl > 0)
    }

    /// Returns the smallest maximum over all renewals, or `None` if no such maximum is set.
    fn smallest_maximum(&self) -> Option<NamedMaximum> {
        let explicit = (self.explicit_max, "the token's explicit_max_ttl");
        let others =
            [(self.role_max, "the role's max_ttl"), (self.mount_max, "the mount's maximum")];
        let others = others.into_iter().filter(|_| self.period == 0);
        [explicit].into_iter().chain(others).filter(|(max, _)| *max > 0).min_by_key(|(max, _)| *max)
    }

    /// Returns the maximum for every single grant of a periodic token.
    fn each(&self) -> Option<NamedMaximum> {
        (self.period > 0 && self.mount_max > 0).then_some((self.mount_max, "the mount's maximum"))
    }
}

/// Returns the lifetime of a lease or token issued or renewed at `now`. All times are in seconds.
///
/// `increment` is the lifetime requested by the caller, 0 for none. The increment counts from
/// `now`, the maximum from `issued`. A periodic token always gets its period, even if the caller
/// asks for another lifetime.
///
/// # Errors
/// 400 if the maximum is used up; 500 if no limit defines a lifetime.
pub fn grant(
    bounds: &TtlBounds,
    increment: u64,
    issued: u64,
    now: u64,
) -> Result<GrantedTtl, Failure> {
    let mut granted = bounds.requested_ttl(increment).map(|ttl| GrantedTtl { ttl, warning: None });
    if let (Some(wanted), Some((max, source))) = (&granted, bounds.each()) {
        granted = Some(limit_ttl(wanted.ttl, max, (max, source)));
    }
    let Some((max, source)) = bounds.smallest_maximum() else {
        return granted.ok_or_else(|| {
            Failure::internal(
                "neither the role nor the mount says how long a lease lives; tune the mount's ttl",
            )
        });
    };
    let left = issued.saturating_add(max).saturating_sub(now).min(max);
    if left == 0 {
        return Err(Failure::invalid(format!(
            "past the max TTL: {source} of {} is used up; ask for a new lease",
            show(max)
        )));
    }
    match granted {
        Some(granted) if granted.ttl <= left => Ok(granted),
        Some(granted) => Ok(limit_ttl(granted.ttl, left, (max, source))),
        None => Ok(GrantedTtl { ttl: left, warning: None }),
    }
}

/// Returns `wanted`, or the rest of a maximum with a warning.
fn limit_ttl(wanted: u64, left: u64, (max, source): NamedMaximum) -> GrantedTtl {
    if wanted <= left {
        return GrantedTtl { ttl: wanted, warning: None };
    }
    GrantedTtl { ttl: left, warning: Some(explain_lowering(wanted, left, max, source)) }
}

fn explain_lowering(wanted: u64, left: u64, max: u64, source: &str) -> String {
    let (wanted, granted, cap) = (show(wanted), show(left), show(max));
    if left == max {
        format!("ttl {wanted} is longer than {source} of {cap}; {granted} were granted")
    } else {
        format!("ttl {wanted} is longer than the rest of {source} of {cap}; {granted} were granted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;

    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;
    const BOUNDS: TtlBounds = TtlBounds {
        role_ttl: HOUR,
        role_max: DAY,
        explicit_max: 0,
        period: 0,
        mount_default: 2 * HOUR,
        mount_max: 32 * DAY,
    };

    fn ttl(bounds: TtlBounds, increment: u64, issued: u64, now: u64) -> u64 {
        grant(&bounds, increment, issued, now).unwrap().ttl
    }

    #[test]
    fn caller_ttl_precedes_role_and_role_precedes_mount() {
        assert_eq!(ttl(BOUNDS, 60, 1000, 1000), 60);
        assert_eq!(ttl(BOUNDS, 0, 1000, 1000), HOUR);
        assert_eq!(ttl(TtlBounds { role_ttl: 0, ..BOUNDS }, 0, 1000, 1000), 2 * HOUR);
    }

    #[test]
    fn an_increment_counts_from_now_and_may_shorten() {
        assert_eq!(ttl(BOUNDS, 60, 1000, 1000 + HOUR / 2), 60);
    }

    #[test]
    fn the_smaller_maximum_caps_and_is_named() {
        let granted = grant(&BOUNDS, 90 * DAY, 1000, 1000).unwrap();
        assert_eq!(granted.ttl, DAY);
        assert_eq!(
            granted.warning.unwrap(),
            "ttl 90d is longer than the role's max_ttl of 1d; 1d were granted"
        );
        let granted = grant(&TtlBounds { role_max: 0, ..BOUNDS }, 90 * DAY, 1000, 1000).unwrap();
        assert_eq!(granted.ttl, 32 * DAY);
        assert!(granted.warning.unwrap().contains("the mount's maximum of 32d"));
        assert_eq!(
            grant(&BOUNDS, DAY, 1000, 1000).unwrap(),
            GrantedTtl { ttl: DAY, warning: None }
        );
    }

    #[test]
    fn renewal_cannot_pass_maximum_counted_from_issue() {
        let granted = grant(&BOUNDS, HOUR, 1000, 1000 + DAY - 60).unwrap();
        assert_eq!(granted.ttl, 60);
        let warning = granted.warning.unwrap();
        assert!(
            warning.contains("the rest of the role's max_ttl of 1d; 1m were granted"),
            "{warning}"
        );
        assert_eq!(ttl(BOUNDS, HOUR, 1000, 1000 + DAY - 1), 1);
    }

    #[test]
    fn used_up_maximum_is_refused_never_zero() {
        for now in [1000 + DAY, 1001 + DAY, u64::MAX] {
            let failure = grant(&BOUNDS, HOUR, 1000, now).unwrap_err();
            assert_eq!(failure.kind, FailureKind::InvalidRequest);
            assert!(failure.message.contains("past the max TTL"), "{}", failure.message);
        }
    }

    #[test]
    fn unbounded_request_stands_and_missing_ttl_is_internal() {
        let silent = TtlBounds::default();
        assert_eq!(ttl(silent, u64::MAX, 0, u64::MAX), u64::MAX);
        assert_eq!(grant(&silent, 0, 0, 0).unwrap_err().kind, FailureKind::Internal);
        assert_eq!(ttl(TtlBounds { mount_max: DAY, ..silent }, 0, 0, 0), DAY);
    }

    #[test]
    fn explicit_maximum_counts_like_others_and_is_named() {
        let granted =
            grant(&TtlBounds { explicit_max: 2 * HOUR, ..BOUNDS }, DAY, 1000, 1000 + HOUR).unwrap();
        assert_eq!(granted.ttl, HOUR);
        let warning = granted.warning.unwrap();
        assert!(warning.contains("the rest of the token's explicit_max_ttl of 2h"), "{warning}");
        assert_eq!(
            ttl(TtlBounds { explicit_max: 64 * DAY, role_max: 0, ..BOUNDS }, 90 * DAY, 0, 0),
            32 * DAY
        );
    }

    #[test]
    fn renewal_gives_whole_period_despite_request_and_age() {
        let periodic = TtlBounds { period: 3 * HOUR, ..BOUNDS };
        for (increment, now) in [(0, 1000), (60, 1000), (90 * DAY, 1000), (0, 1000 + 400 * DAY)] {
            assert_eq!(
                grant(&periodic, increment, 1000, now).unwrap(),
                GrantedTtl { ttl: 3 * HOUR, warning: None }
            );
        }
    }

    #[test]
    fn only_explicit_maximum_ends_period_capped_by_mount() {
        let granted =
            grant(&TtlBounds { period: 40 * DAY, ..BOUNDS }, 0, 1000, 1000 + 400 * DAY).unwrap();
        assert_eq!(granted.ttl, 32 * DAY);
        assert!(
            granted
                .warning
                .unwrap()
                .contains("40d is longer than the mount's maximum of 32d; 32d were granted")
        );

        let bounds = TtlBounds { period: 40 * DAY, explicit_max: 33 * DAY, ..BOUNDS };
        let granted = grant(&bounds, 0, 1000, 1000 + 3 * DAY).unwrap();
        assert_eq!(granted.ttl, 30 * DAY);
        assert!(granted.warning.unwrap().contains("explicit_max_ttl of 33d"));
        assert_eq!(
            grant(&bounds, 0, 1000, 1000 + 33 * DAY).unwrap_err().kind,
            FailureKind::InvalidRequest
        );
        let endless = TtlBounds { period: u64::MAX, mount_max: 0, ..TtlBounds::default() };
        assert_eq!(ttl(endless, 0, u64::MAX, 0), u64::MAX);
    }

    #[test]
    fn twice_shortened_lifetime_is_reported_as_finally_granted() {
        let granted = grant(&BOUNDS, 90 * DAY, 1000, 1000).unwrap();
        assert_eq!(granted.clone().at_most(DAY, "the token's"), granted, "nothing was cut");
        let cut = granted.at_most(HOUR, "what is left of the token");
        assert_eq!(cut.ttl, HOUR);
        let warning = cut.warning.unwrap();
        assert!(warning.contains("what is left of the token of 1h; 1h were granted"), "{warning}");
        assert!(!warning.contains("1d were granted"), "{warning}");
    }

    #[test]
    fn extreme_numbers_neither_overflow_nor_lengthen() {
        let endless = TtlBounds { role_max: u64::MAX, mount_max: u64::MAX, ..BOUNDS };
        assert_eq!(ttl(endless, u64::MAX, u64::MAX - 10, u64::MAX - 5), 5);
        assert_eq!(
            ttl(BOUNDS, 90 * DAY, 1_000_000, 10),
            DAY,
            "a clock that went back gives no more than the maximum"
        );
    }
}
