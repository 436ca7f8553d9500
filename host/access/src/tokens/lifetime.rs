//! Lifetimes of tokens, and their renewal.
//!
//! This file prevents a token from outliving the current limits of its role. Period and explicit
//! maximum are the shorter of the value requested at creation and the role's current value; a
//! renewal keeps the networks that are among those of the token and of the role, and is refused for
//! policies that the role does not allow by now.

use super::caller::Caller;
use super::record::{TokenRecord, TokenType, put, read};
use super::roles::{self, TokenRole};
use super::table::Tokens;
use crate::lifetimes::Lifetimes;
use bulkhead_store::Unit;
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::ttl::{self, TtlBounds};

/// Returns the lifetime bounds of a token of this role. The latest granted TTL, or the TTL of the
/// creation, applies without an increment.
pub fn bounds(record: &TokenRecord, role: Option<&TokenRole>, system: Lifetimes) -> TtlBounds {
    let of_role = |value: fn(&TokenRole) -> u64| role.map(value).unwrap_or_default();
    TtlBounds {
        role_ttl: record.granted_ttl(),
        role_max: 0,
        explicit_max: shorter(record.explicit_max_ttl, of_role(|role| role.explicit_max_ttl)),
        period: shorter(record.period, of_role(|role| role.period)),
        mount_default: system.default,
        mount_max: system.max,
    }
}

/// Returns the second from which a lifetime granted at `now_ms` counts: the next whole second. The
/// current second is partly over, and a lifetime counted from the current second would end too
/// early.
pub(super) fn first_whole_second(now_ms: u64) -> u64 {
    now_ms.div_ceil(1000)
}

/// Returns the shorter of two durations; 0 means not set.
pub(super) fn shorter(one: u64, other: u64) -> u64 {
    match (one, other) {
        (0, only) | (only, 0) => only,
        (one, other) => one.min(other),
    }
}

/// Returns the client networks of a renewed token: the addresses that are in its own networks and
/// in the present networks of its role, login or parent.
///
/// # Errors
/// 400 if there are none.
pub(super) fn narrower_networks(own: &[Cidr], present: &[Cidr]) -> Result<Vec<Cidr>, Failure> {
    Cidr::in_both(own, present).ok_or_else(|| {
        let list =
            |networks: &[Cidr]| networks.iter().map(Cidr::to_string).collect::<Vec<_>>().join(", ");
        Failure::invalid(format!(
            "the token may be used from {}, and the token's role or parent from {} by now, and no \
             address is in both: get a new token",
            list(own),
            list(present)
        ))
    })
}

/// Checks that a role still makes tokens like this one.
///
/// # Errors
/// 400 that names what the role does not allow by now.
fn check_role(record: &TokenRecord, role: &TokenRole) -> Result<(), Failure> {
    let name = quoted(&record.role);
    if !role.renewable {
        return Err(Failure::invalid(format!(
            "lease is not renewable: token role {name}, which made this token, does not let tokens \
             be renewed by now"
        )));
    }
    match record.policies.iter().find(|policy| !role.still_allows(policy)) {
        Some(policy) => Err(Failure::invalid(format!(
            "token role {name} does not allow policy {} by now, and a token keeps its first \
             policies: make a new token",
            quoted(policy)
        ))),
        None => Ok(()),
    }
}

impl Tokens {
    /// Renews a token by `increment` seconds from now; 0 requests the TTL that was granted last.
    /// Returns the stored record, and a warning if less was granted. `system` applies where neither
    /// the token nor its role sets a limit.
    ///
    /// # Errors
    /// 400 if the token is not renewable, is past its maximum, or if its role no longer exists or
    /// would not make it by now.
    pub async fn renew(
        &self,
        unit: &mut Unit,
        token: &Caller,
        increment: u64,
        system: Lifetimes,
    ) -> Result<(TokenRecord, Option<String>), Failure> {
        if token.kind == TokenType::Batch {
            return Err(Failure::invalid("batch tokens cannot be renewed; make another token"));
        }
        if !token.record.renewable {
            return Err(Failure::invalid(
                "lease is not renewable: this token was made not to be renewed, or never ends",
            ));
        }
        let role = roles::of_token(unit, &token.record).await?;
        if role.is_none() && !token.record.role.is_empty() {
            return Err(Failure::invalid(format!(
                "token role {}, which made this token, does not exist any more: the token cannot \
                 be renewed",
                quoted(&token.record.role)
            )));
        }
        let present = role.as_ref().map_or(&[][..], |role| role.bound_cidrs.as_slice());
        let mut bound_cidrs = narrower_networks(&token.record.bound_cidrs, present)?;
        if let Some(parent) = &token.record.parent
            && let Some(parent) = read(unit, parent).await?
        {
            bound_cidrs = narrower_networks(&bound_cidrs, &parent.bound_cidrs)?;
        }
        role.as_ref().map_or(Ok(()), |role| check_role(&token.record, role))?;
        let now = self.store.now();
        let bounds = bounds(&token.record, role.as_ref(), system);
        let begins = first_whole_second(now);
        let granted = ttl::grant(&bounds, increment, token.record.issued, begins)?;
        let record = TokenRecord {
            expires: Some(begins.saturating_add(granted.ttl)),
            last_renewal: Some(now / 1000),
            renewed_ttl: Some(granted.ttl),
            bound_cidrs,
            ..TokenRecord::clone(&token.record)
        };
        put(unit, &token.hash, &record)?;
        Ok((record, granted.warning))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetime_never_ends_before_stated_time() {
        for now_ms in [0, 1, 999, 1000, 1001, 5_999, 1_700_000_000_001, 1_700_000_000_999] {
            let ends = (first_whole_second(now_ms) + 5) * 1000;
            assert!((5_000..6_000).contains(&(ends - now_ms)), "{now_ms}");
        }
    }
}
