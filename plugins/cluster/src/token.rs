//! Lifetime of a token, read from the token itself. The time in the cluster's answer may be wrong
//! by a year, and the API server enforces the time in the token.
//!
//! A token is outside input: its size is limited. The signature is left to the API server.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bulkhead_sdk::database_plugin::StoreTime;
use k8s_openapi::api::authentication::v1::TokenRequestStatus;
use serde::Deserialize;

/// Shortest lifetime a cluster grants, in seconds.
pub(crate) const SHORTEST: u64 = 600;

/// Maximum length of a token, in bytes.
const LONGEST: usize = 64 * 1024;

/// The two claims about the lifetime.
#[derive(Deserialize)]
struct LifetimeClaims {
    exp: u64,
    iat: u64,
}

/// Returns the lifetime of the token in `status`, in seconds; `None` if unknown.
pub(crate) fn lifetime(status: &TokenRequestStatus, now: StoreTime) -> Option<u64> {
    if status.token.is_empty() || status.token.len() > LONGEST {
        return None;
    }
    claims(&status.token).or_else(|| {
        let expires = u64::try_from(status.expiration_timestamp.0.as_second()).ok()?;
        expires.checked_sub(now / 1_000)
    })
}

fn claims(token: &str) -> Option<u64> {
    let mut parts = token.split('.');
    let (_header, payload, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: LifetimeClaims = serde_json::from_slice(&payload).ok()?;
    claims.exp.checked_sub(claims.iat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{jwt, status_of};

    #[test]
    fn token_lifetime_is_read_from_claims() {
        let year = status_of(&jwt(31_536_000), 3_600);
        assert_eq!(lifetime(&year, 0), Some(31_536_000));
    }

    #[test]
    fn stated_lifetime_counts_if_token_is_unreadable() {
        for token in ["opaque", "a.b.c", "a.bm8.c", "..", &format!("a.{}.c", "e".repeat(40_000))] {
            assert_eq!(lifetime(&status_of(token, 3_600), 0), Some(3_600), "{token}");
        }
        let negative = BASE64_URL_SAFE_NO_PAD.encode(r#"{"exp":1,"iat":2}"#);
        assert_eq!(lifetime(&status_of(&format!("a.{negative}.c"), 60), 0), Some(60));
    }

    #[test]
    fn no_token_and_one_without_bounds_is_none() {
        assert_eq!(lifetime(&status_of("", 60), 0), None);
        assert_eq!(lifetime(&status_of(&"a".repeat(LONGEST + 1), 60), 0), None);
        assert_eq!(lifetime(&status_of("opaque", 60), 120_000), None);
    }
}
