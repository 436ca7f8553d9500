//! Checking a token of the provider for those who ask whether it still holds.
//!
//! The attack this file stops: a token that is believed for the wrong reason. The algorithm is that
//! of the published key, never the one that the token would like.

use super::issuer::Documents;
use super::key_pair::PublishedKey;
use super::named_key::{self, NamedKey};
use super::provider::Provider;
use super::public_key::bytes;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value};

/// Longest token that is looked at, in bytes.
const LONGEST: usize = 128 << 10;

/// A token in its parts, not verified.
struct Parts<'a> {
    message: &'a str,
    header: Map<String, Value>,
    claims: Map<String, Value>,
    signature: Vec<u8>,
}

impl Provider {
    /// Whom a token of a role is about; `client_id` is for whom it must be, where that is not empty.
    ///
    /// # Errors
    /// The failure is ours; what is wrong with the token is in the inner one.
    pub(crate) async fn subject_of(
        &self,
        token: &str,
        client_id: &str,
    ) -> Result<Result<String, &'static str>, Failure> {
        let Some(parts) = parts(token) else { return Ok(Err("it is no signed token")) };
        let Some(key) = self.published_key(text(&parts.header, "kid")).await? else {
            return Ok(Err("no published key signed it"));
        };
        if text(&parts.header, "alg") != key.alg.word()
            || !key.verifies(parts.message.as_bytes(), &parts.signature)
        {
            return Ok(Err("its signature does not verify"));
        }
        let issuer = self.issuer(Documents::General).await?;
        Ok(check(&parts.claims, &issuer, client_id, self.now()))
    }

    async fn published_key(&self, kid: &str) -> Result<Option<PublishedKey>, Failure> {
        let (mut unit, now) = (self.store.begin(), self.store.now());
        for name in named_key::names(&mut unit).await? {
            let Some(key) = NamedKey::read(&mut unit, &name).await? else { continue };
            if let Some(found) = key.published(now).find(|one| one.kid == kid) {
                return Ok(Some(found.clone()));
            }
        }
        Ok(None)
    }
}

fn check(
    claims: &Map<String, Value>,
    issuer: &str,
    client_id: &str,
    now: u64,
) -> Result<String, &'static str> {
    if text(claims, "iss") != issuer {
        return Err("another issuer signed it");
    }
    if claims.get("exp").and_then(Value::as_u64).is_none_or(|expires| expires <= now) {
        return Err("it has ended");
    }
    if !client_id.is_empty() && text(claims, "aud") != client_id {
        return Err("it is for another client");
    }
    Ok(text(claims, "sub").to_owned())
}

fn parts(token: &str) -> Option<Parts<'_>> {
    if token.len() > LONGEST {
        return None;
    }
    let (message, signature) = token.rsplit_once('.')?;
    let (header, claims) = message.split_once('.')?;
    let object = |part: &str| serde_json::from_slice(&bytes(part)?).ok();
    Some(Parts {
        message,
        header: object(header)?,
        claims: object(claims)?,
        signature: bytes(signature)?,
    })
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_is_of_the_issuer_for_the_client_and_not_over() {
        let claims = json!({"iss": "https://a", "sub": "5e1c", "aud": "web", "exp": 100});
        let check = |issuer, client, now| check(claims.as_object().unwrap(), issuer, client, now);
        assert_eq!(check("https://a", "", 99).as_deref(), Ok("5e1c"));
        assert_eq!(check("https://a", "web", 99).as_deref(), Ok("5e1c"));
        for (issuer, client, now) in
            [("https://b", "", 99), ("https://a", "ci", 99), ("https://a", "", 100)]
        {
            assert!(check(issuer, client, now).is_err(), "{issuer} {client} {now}");
        }
    }

    #[test]
    fn what_is_no_token_is_taken_apart_without_harm() {
        for wrong in ["", ".", "..", "a.b.c", "e30.e30", "e30.W10.e30", "e30.e30.!"] {
            assert!(parts(wrong).is_none(), "{wrong}");
        }
        assert!(parts("e30.e30.AA").is_some());
        assert!(parts(&format!("e30.e30.{}", "A".repeat(LONGEST))).is_none());
    }
}
