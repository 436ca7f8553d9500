//! Access tokens of a provider, kept in memory until five minutes before their end.
//!
//! The faults this file stops: a new token for each login, until the provider rate-limits the
//! server; a token used for another credential or scope (both are part of the cache key); and a
//! token that the provider has revoked but that is used until its end. Tokens are never stored and
//! never shown.

use crate::host::Host;
use crate::provider::ProviderRefusal;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::hexadecimal;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Margin before the end of a token, in seconds: within the margin, the token is no longer used.
const EXPIRY_MARGIN_SECS: u64 = 300;
/// Maximum time that a token is kept, in seconds.
const MAX_TOKEN_TTL_SECS: u64 = 86_400;

/// An access token as OAuth endpoints issue it. No `Debug`: the token is a secret.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct AccessToken {
    /// The token.
    #[serde(rename = "access_token")]
    pub token: String,
    /// Lifetime, in seconds.
    #[serde(rename = "expires_in", deserialize_with = "seconds")]
    pub lifetime: u64,
}

/// Minimum time between two replacements of a refused token, in seconds.
const REPLACEMENT_INTERVAL_SECS: u32 = 60;

/// Function that requests a token from the provider.
type TokenFetcher<'a> = Box<dyn Fn() -> Result<AccessToken, Failure> + 'a>;

/// Access of one credential to one scope.
pub struct ProviderAccess<'a> {
    host: &'a dyn Host,
    /// Cache key of the token, and the function that requests a new token; `None` if the host keeps
    /// the token.
    source: Option<(String, TokenFetcher<'a>)>,
    token: String,
}

impl<'a> ProviderAccess<'a> {
    /// Creates the access from the cached token, or from a token that `ask` requests; of many
    /// concurrent calls only one asks. `credential` must change whenever the credential does.
    ///
    /// # Errors
    /// Those of the cache, and the failure of `ask`.
    pub fn kept(
        host: &'a dyn Host,
        credential: &str,
        scope: &str,
        ask: impl Fn() -> Result<AccessToken, Failure> + 'a,
    ) -> Result<Self, Failure> {
        let named = format!("{}:{credential}{scope}", credential.len());
        let digest = host.crypto().digest("sha256", named.as_bytes())?;
        let key = format!("access-token/{}", hexadecimal::text(&digest));
        let token = cached_token(host, &key, &ask)?;
        Ok(Self { host, source: Some((key, Box::new(ask))), token })
    }

    /// Creates the access from a token that another component keeps and that is not replaced here.
    #[must_use]
    pub fn with_token(host: &'a dyn Host, token: String) -> Self {
        Self { host, source: None, token }
    }

    /// Returns the token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Calls `send` with the token. If the provider no longer accepts the token (401), calls `send`
    /// once more with another token.
    ///
    /// # Errors
    /// The refusal from `send`.
    pub fn send<T>(
        &self,
        send: impl Fn(&str) -> Result<T, ProviderRefusal>,
    ) -> Result<T, ProviderRefusal> {
        match send(&self.token) {
            Err(refusal) if refusal.is(401) => {
                match self.another().map_err(ProviderRefusal::Unasked)? {
                    Some(token) => send(&token),
                    None => Err(refusal),
                }
            }
            answered => answered,
        }
    }

    /// Returns a token in place of the refused token: a newer token of another call, or a new
    /// token. `None` if the newest token is the refused one: a provider that refuses every token is
    /// asked for a new token once per minute.
    fn another(&self) -> Result<Option<String>, Failure> {
        let Some((key, ask)) = &self.source else { return Ok(None) };
        let newer = || -> Result<Option<String>, Failure> {
            let token = self.host.cache().get(key)?.map(text).transpose()?;
            Ok(token.filter(|token| *token != self.token))
        };
        if let Some(newer) = newer()? {
            return Ok(Some(newer));
        }
        let replaced = format!("replaced-{key}");
        if self.host.cache().get_or_lead(&replaced)?.is_some() {
            return newer();
        }
        self.host.cache().remove(key)?;
        let another = cached_token(self.host, key, ask);
        // Also after a failure, so that the provider is asked no more often.
        self.host.cache().put(&replaced, b"asked", REPLACEMENT_INTERVAL_SECS)?;
        another.map(Some)
    }
}

fn cached_token(
    host: &dyn Host,
    key: &str,
    ask: &dyn Fn() -> Result<AccessToken, Failure>,
) -> Result<String, Failure> {
    if let Some(bytes) = host.cache().get_or_lead(key)? {
        return text(bytes);
    }
    let AccessToken { token, lifetime } = ask()?;
    let keep = lifetime.saturating_sub(EXPIRY_MARGIN_SECS).min(MAX_TOKEN_TTL_SECS);
    match u32::try_from(keep) {
        Ok(keep) if keep > 0 => host.cache().put(key, token.as_bytes(), keep)?,
        _ => host.cache().remove(key)?,
    }
    Ok(token)
}

fn text(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|_| Failure::internal("a kept token is not text"))
}

/// Reads a number of seconds, which older endpoints send as digits in a text.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(from)?;
    let read = match &value {
        Value::String(digits) => digits.parse().ok(),
        other => other.as_u64(),
    };
    read.ok_or_else(|| serde::de::Error::custom("expires_in is not a number of seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::TestHost;
    use std::cell::{Cell, RefCell};

    fn given(requests: &Cell<u32>) -> Result<AccessToken, Failure> {
        requests.set(requests.get() + 1);
        Ok(AccessToken { token: format!("t-{}", requests.get()), lifetime: 3_600 })
    }

    fn refused(status: u16) -> ProviderRefusal {
        ProviderRefusal::Said {
            status,
            code: String::new(),
            message: "no".to_owned(),
            retry_after: None,
        }
    }

    #[test]
    fn credential_and_scope_reuse_token_until_near_end() {
        let (host, requests) = (TestHost::default(), Cell::new(0_u32));
        let token = |credential: &str, scope: &str| {
            let access = ProviderAccess::kept(&host, credential, scope, || given(&requests));
            access.unwrap().token().to_owned()
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
    fn rejected_token_is_replaced_once_and_request_repeated() {
        let (host, requests, sent) = (TestHost::default(), Cell::new(0), RefCell::new(Vec::new()));
        let accepted_token = Cell::new("t-1");
        let send = |token: &str| {
            sent.borrow_mut().push(token.to_owned());
            if token == accepted_token.get() { Ok(()) } else { Err(refused(401)) }
        };
        let access = || ProviderAccess::kept(&host, "c", "s", || given(&requests)).unwrap();
        let (first, second) = (access(), access());
        assert_eq!(first.send(send), Ok(()));
        accepted_token.set("t-2");
        assert_eq!((first.send(send), second.send(send)), (Ok(()), Ok(())));
        assert_eq!(sent.take(), ["t-1", "t-1", "t-2", "t-1", "t-2"]);
        assert_eq!((access().token(), requests.get()), ("t-2", 2));
        accepted_token.set("none");
        assert_eq!(access().send(send), Err(refused(401)));
        assert_eq!(
            (sent.take(), requests.get()),
            (vec!["t-2".to_owned()], 2),
            "a refused token is replaced once a minute"
        );
        host.advance(60);
        assert_eq!(access().send(send), Err(refused(401)));
        assert_eq!((sent.take(), requests.get()), (vec!["t-2".to_owned(), "t-3".to_owned()], 3));
    }

    #[test]
    fn other_refusals_and_host_tokens_cause_no_replacement() {
        let (host, requests) = (TestHost::default(), Cell::new(0));
        let access = ProviderAccess::kept(&host, "c", "s", || given(&requests)).unwrap();
        for status in [400, 403, 404, 429] {
            assert_eq!(access.send(|_| Err::<(), _>(refused(status))), Err(refused(status)));
        }
        let machine = ProviderAccess::with_token(&host, "t-machine".to_owned());
        assert_eq!(machine.send(|_| Err::<(), _>(refused(401))), Err(refused(401)));
        assert_eq!(requests.get(), 1);
    }

    #[test]
    fn token_ending_soon_is_used_and_not_kept() {
        let host = TestHost::default();
        for number in ["1", "2"] {
            let ask = || Ok(AccessToken { token: number.to_owned(), lifetime: 300 });
            assert_eq!(ProviderAccess::kept(&host, "c", "s", ask).unwrap().token(), number);
        }
        assert!(ProviderAccess::kept(&host, "c", "s", || Err(Failure::invalid("no"))).is_err());
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
