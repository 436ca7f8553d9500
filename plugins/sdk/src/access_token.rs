//! A provider's access token, kept in memory until five minutes before its end.
//!
//! The faults this file stops: a token asked for at each login, until the provider asks us to slow
//! down; and one that is used for another credential or scope than it was given for, because both
//! are in its name. It is never stored, and never shown.

use crate::host::Host;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::hexadecimal;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Seconds before its end from which a token is not used any more.
const EARLY: u64 = 300;
/// Longest that a token is kept, in seconds.
const LONGEST: u64 = 86_400;

/// An access token as OAuth's endpoints give it. No `Debug`: it is a secret.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct AccessToken {
    /// The token.
    #[serde(rename = "access_token")]
    pub token: String,
    /// Seconds that it lives.
    #[serde(rename = "expires_in", deserialize_with = "seconds")]
    pub lifetime: u64,
}

/// The token of a credential for a scope: the one that is kept, or the one that `ask` gets, which
/// many calls at once ask for once. `credential` changes whenever the credential does.
///
/// # Errors
/// As the cache, and what `ask` fails with.
pub fn kept(
    host: &dyn Host,
    credential: &str,
    scope: &str,
    ask: impl FnOnce() -> Result<AccessToken, Failure>,
) -> Result<String, Failure> {
    let named = format!("{}:{credential}{scope}", credential.len());
    let digest = host.crypto().digest("sha256", named.as_bytes())?;
    let key = format!("access-token/{}", hexadecimal::text(&digest));
    if let Some(kept) = host.cache().get_or_lead(&key)? {
        return String::from_utf8(kept).map_err(|_| Failure::internal("a kept token is no text"));
    }
    let AccessToken { token, lifetime } = ask()?;
    let keep = lifetime.saturating_sub(EARLY).min(LONGEST);
    match u32::try_from(keep) {
        Ok(keep) if keep > 0 => host.cache().put(&key, token.as_bytes(), keep)?,
        _ => host.cache().remove(&key)?,
    }
    Ok(token)
}

/// Seconds, as a number or, from older endpoints, as its digits.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(from)?;
    let read = match &value {
        Value::String(digits) => digits.parse().ok(),
        other => other.as_u64(),
    };
    read.ok_or_else(|| serde::de::Error::custom("expires_in is no number of seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::TestHost;
    use std::cell::Cell;

    #[test]
    fn a_token_is_asked_for_once_for_each_credential_and_scope_until_shortly_before_its_end() {
        let (host, asked) = (TestHost::default(), Cell::new(0_u32));
        let token = |credential: &str, scope: &str| {
            kept(&host, credential, scope, || {
                asked.set(asked.get() + 1);
                Ok(AccessToken { token: format!("t-{}", asked.get()), lifetime: 3_600 })
            })
            .unwrap()
        };
        assert_eq!((token("1", "a"), token("1", "a")), ("t-1".to_owned(), "t-1".to_owned()));
        assert_eq!((token("1", "b"), token("2", "a")), ("t-2".to_owned(), "t-3".to_owned()));
        assert_eq!((token("1", "1a"), token("11", "a")), ("t-4".to_owned(), "t-5".to_owned()));
        host.advance(3_299);
        assert_eq!(token("1", "a"), "t-1");
        host.advance(1);
        assert_eq!(token("1", "a"), "t-6");
    }

    #[test]
    fn a_token_that_ends_soon_is_used_and_not_kept() {
        let host = TestHost::default();
        for number in ["1", "2"] {
            let asked = AccessToken { token: number.to_owned(), lifetime: 300 };
            assert_eq!(kept(&host, "c", "s", || Ok(asked)).unwrap(), number);
        }
        assert!(kept(&host, "c", "s", || Err(Failure::invalid("no"))).is_err());
    }

    #[test]
    fn lifetimes_come_as_numbers_and_as_digits() {
        for text in [
            r#"{"access_token":"t","expires_in":3599,"token_type":"Bearer"}"#,
            r#"{"access_token":"t","expires_in":"3599"}"#,
        ] {
            let read: AccessToken = serde_json::from_str(text).unwrap();
            assert_eq!((read.token.as_str(), read.lifetime), ("t", 3_599));
        }
        for text in [
            r#"{"access_token":"t","expires_in":-1}"#,
            r#"{"access_token":"t"}"#,
            r#"{"expires_in":3599}"#,
            r#"{"access_token":"t","access_token":"u","expires_in":3599}"#,
        ] {
            assert!(serde_json::from_str::<AccessToken>(text).is_err(), "{text}");
        }
    }
}
