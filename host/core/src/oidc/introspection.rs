//! Checking a token of the provider for those who ask whether it still holds: by `jsonwebtoken`,
//! behind a reader of ours.
//!
//! Prevents belief in a token for the wrong reason. The published key decides the algorithm, never
//! the token. The reader refuses tokens that the library would accept: a claim given twice, of
//! which another reader may see the other value, and an issuer or audience that is a list. Store
//! time decides the end of a token.

use super::crypto_provider;
use super::issuer::Documents;
use super::key_pair::PublishedKey;
use super::named_key::{self, NamedKey};
use super::provider::Provider;
use super::public_key::bytes;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::json;
use jsonwebtoken::Validation;
use jsonwebtoken::errors::{Error, ErrorKind};
use serde_json::{Map, Value};

/// Longest token that is looked at, in bytes.
const LONGEST: usize = 128 << 10;
/// Refusal of a token whose named key did not sign it.
const UNSIGNED: &str = "its signature does not verify";
/// Refusal of a token in another shape than the provider's.
const NOT_OURS: &str = "it lacks a claim that each token of a role has, or has it in another form";

/// A token that was read and not verified.
struct Unproven<'a> {
    token: &'a str,
    kid: String,
    alg: String,
    claims: Map<String, Value>,
}

/// Issuer and audience that a token must name.
struct Expected<'a> {
    issuer: &'a str,
    /// Empty for any client.
    client_id: &'a str,
}

impl Provider {
    /// Whom a token of a role is about; `client_id` is for whom it must be, where that is not
    /// empty.
    ///
    /// # Errors
    /// The failure is ours; what is wrong with the token is in the inner one.
    pub(crate) async fn subject_of(
        &self,
        token: &str,
        client_id: &str,
    ) -> Result<Result<String, &'static str>, Failure> {
        let Some(unproven) = Unproven::read(token) else { return Ok(Err("it is no signed token")) };
        let Some(key) = self.published_key(&unproven.kid).await? else {
            return Ok(Err("no published key signed it"));
        };
        let issuer = self.issuer(Documents::General).await?;
        crypto_provider::install()?;
        let expected = Expected { issuer: &issuer, client_id };
        let proven = unproven.prove(&key, &expected);
        Ok(proven.and_then(|claims| check(&claims, &expected, self.now())))
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

impl<'a> Unproven<'a> {
    /// Reads a token of three parts, whose header and claims give each key once.
    fn read(token: &'a str) -> Option<Self> {
        if token.len() > LONGEST {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let (header, claims) = (object(header)?, object(claims)?);
        bytes(signature)?;
        // A `crit` demands extensions, and none is implemented.
        if header.contains_key("crit") {
            return None;
        }
        let (kid, alg) = (text(&header, "kid")?.to_owned(), text(&header, "alg")?.to_owned());
        Some(Self { token, kid, alg, claims })
    }

    /// Returns the claims if the private half of `key` signed them.
    fn prove(
        self,
        key: &PublishedKey,
        expected: &Expected<'_>,
    ) -> Result<Map<String, Value>, &'static str> {
        if self.alg != key.alg.word() {
            return Err(UNSIGNED);
        }
        let Some(algorithm) = key.alg.in_library() else { return self.prove_alone(key) };
        let mut validation = Validation::new(algorithm);
        // The library would use the system's clock.
        validation.validate_exp = false;
        validation.set_required_spec_claims(&["exp", "iss", "sub", "aud"]);
        validation.set_issuer(&[expected.issuer]);
        match expected.client_id {
            "" => validation.validate_aud = false,
            client => validation.set_audience(&[client]),
        }
        let key = key.decoding_key().map_err(|_| UNSIGNED)?;
        let decoded = jsonwebtoken::decode(self.token, &key, &validation);
        decoded.map(|decoded| decoded.claims).map_err(|why| told(&why))
    }

    /// Verifies without the library, for ES512.
    fn prove_alone(self, key: &PublishedKey) -> Result<Map<String, Value>, &'static str> {
        let (message, signature) = self.token.rsplit_once('.').ok_or(UNSIGNED)?;
        let signature = bytes(signature).ok_or(UNSIGNED)?;
        match key.verifies(message.as_bytes(), &signature) {
            true => Ok(self.claims),
            false => Err(UNSIGNED),
        }
    }
}

const OTHER_ISSUER: &str = "another issuer signed it";
const OTHER_CLIENT: &str = "it is for another client";

fn told(why: &Error) -> &'static str {
    match why.kind() {
        ErrorKind::InvalidIssuer => OTHER_ISSUER,
        ErrorKind::InvalidAudience => OTHER_CLIENT,
        ErrorKind::MissingRequiredClaim(_) => NOT_OURS,
        _ => UNSIGNED,
    }
}

/// Returns the subject of proven claims if they have the provider's shape and hold at `now`.
fn check(
    claims: &Map<String, Value>,
    expected: &Expected<'_>,
    now: u64,
) -> Result<String, &'static str> {
    let texts = ["iss", "aud", "sub"].map(|name| text(claims, name));
    let [Some(issuer), Some(audience), Some(subject)] = texts else { return Err(NOT_OURS) };
    if issuer != expected.issuer {
        return Err(OTHER_ISSUER);
    }
    if !expected.client_id.is_empty() && audience != expected.client_id {
        return Err(OTHER_CLIENT);
    }
    let expires = claims.get("exp").and_then(Value::as_u64).ok_or(NOT_OURS)?;
    if expires <= now {
        return Err("it has ended");
    }
    Ok(subject.to_owned())
}

fn object(part: &str) -> Option<Map<String, Value>> {
    let bytes = bytes(part)?;
    let is_object = bytes.trim_ascii_start().first() == Some(&b'{');
    is_object.then(|| json::object(&bytes).ok()).flatten()
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests;
