//! Times of a token: end, beginning and issue, against store time.
//!
//! This file prevents a token without any time from being valid forever, and a token of the future.

use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::jwt::Claims;
use bulkhead_sdk::wire::duration;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Default leeway of a missing `exp` or `nbf`, in seconds.
const USUAL: u64 = 150;
/// Default leeway between the clocks, in seconds.
const USUAL_SKEW: u64 = 60;
/// Maximum leeway, in seconds: ten years.
const LONGEST: u64 = 315_360_000;

/// A leeway of a role in seconds. 0 is the default of the setting, and less than 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimeLeeway(pub(crate) i64);

impl TimeLeeway {
    /// Applies a field of the call. An empty text keeps the leeway.
    ///
    /// # Errors
    /// Invalid request with the field and the value.
    pub(crate) fn merge(&mut self, call: &Call, name: &str) -> Result<(), Failure> {
        let text = call.text(name).trim();
        if !text.is_empty() {
            *self = Self::read(text).ok_or_else(|| {
                Failure::invalid(format!(
                    "{name} {} is not a time of at most ten years: give seconds such as 60, a \
                     duration such as 5m, 0 for the default, or -1 for no leeway",
                    quoted(text)
                ))
            })?;
        }
        Ok(())
    }

    fn read(text: &str) -> Option<Self> {
        let (sign, size) = text.strip_prefix('-').map_or((1, text), |size| (-1, size));
        let seconds = duration::seconds(&json!(size)).ok().filter(|size| *size <= LONGEST)?;
        i64::try_from(seconds).ok().map(|seconds| Self(sign * seconds))
    }

    fn or(self, usual: u64) -> u64 {
        match u64::try_from(self.0) {
            Ok(0) => usual,
            Ok(seconds) => seconds,
            Err(_) => 0,
        }
    }
}

/// Leeways of a role.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenLeeways {
    /// Life of a token without `exp`, from `nbf` or `iat` on.
    pub(crate) expiration: TimeLeeway,
    /// Time before `exp` in which a token without `nbf` and `iat` is valid.
    pub(crate) not_before: TimeLeeway,
    /// Difference between the clocks of the issuer and of this server.
    pub(crate) clock_skew: TimeLeeway,
}

/// Checks the times of a token at store time.
///
/// # Errors
/// Invalid request that names the claim.
pub(crate) fn check(claims: &Claims, leeways: TokenLeeways, now: StoreTime) -> Result<(), Failure> {
    let (ends, begins, issued) = (claims.expires(), claims.begins(), claims.issued());
    let latest = begins.max(issued);
    let ends =
        ends.or_else(|| latest.map(|latest| latest.saturating_add(leeways.expiration.or(USUAL))));
    let Some(ends) = ends else {
        return Err(Failure::invalid(
            "the token has no time: add one of the claims exp, nbf and iat",
        ));
    };
    let begins =
        begins.or(issued).unwrap_or_else(|| ends.saturating_sub(leeways.not_before.or(USUAL)));
    let skew = leeways.clock_skew.or(USUAL_SKEW);
    let is_before = |seconds: u64| now < seconds.saturating_sub(skew).saturating_mul(1_000);
    if now >= ends.saturating_add(skew).saturating_mul(1_000) {
        return Err(Failure::invalid("the token has expired (exp)"));
    }
    if is_before(begins) {
        return Err(Failure::invalid("the token is not valid yet (nbf)"));
    }
    if issued.is_some_and(is_before) {
        return Err(Failure::invalid("the token was issued in the future (iat)"));
    }
    Ok(())
}
