//! Introspection: verifies a token of the provider with `jsonwebtoken`, after a stricter parser.
//!
//! This file prevents a token from being accepted for the wrong reason. The published key decides
//! the algorithm, never the token. The parser refuses tokens that the library would accept: tokens
//! with a duplicate claim, where another parser may see the other value, and tokens whose issuer or
//! audience is a list. Store time decides whether a token has expired.

use super::crypto_provider;
use super::issuer::DocumentedTokens;
use super::key_pair::PublishedKey;
use super::named_key::{self, NamedKey};
use super::provider::OidcProvider;
use super::public_key::bytes;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::json;
use jsonwebtoken::Validation;
use jsonwebtoken::errors::{Error, ErrorKind};
use serde_json::{Map, Value};

/// Maximum length of a token, in bytes.
const MAX_TOKEN_LEN: usize = 128 << 10;
/// Refusal of a token that the named key did not sign.
const UNSIGNED: &str = "the signature does not verify";
/// Refusal of a token with a different structure than the provider's tokens.
const NOT_OURS: &str = "a claim of the provider's tokens is missing, or has another form";

/// A parsed token before verification.
struct UnverifiedToken<'a> {
    token: &'a str,
    kid: String,
    alg: String,
    claims: Map<String, Value>,
}

/// The issuer and the audience that a token must contain.
struct ExpectedClaims<'a> {
    issuer: &'a str,
    /// Empty for any client.
    client_id: &'a str,
}

impl OidcProvider {
    /// Returns the subject of a valid token of a role. If `client_id` is not empty, the token must
    /// be for this client.
    ///
    /// # Errors
    /// The outer error is a failure of the server. The inner error says why the token is invalid.
    pub async fn subject_of(
        &self,
        token: &str,
        client_id: &str,
    ) -> Result<Result<String, &'static str>, Failure> {
        let Some(unproven) = UnverifiedToken::read(token) else {
            return Ok(Err("the text is not a signed token of this provider"));
        };
        let Some(key) = self.published_key(&unproven.kid).await? else {
            return Ok(Err("no published key signed the token"));
        };
        let issuer = self.issuer(DocumentedTokens::General).await?;
        crypto_provider::install()?;
        let expected = ExpectedClaims { issuer: &issuer, client_id };
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

impl<'a> UnverifiedToken<'a> {
    /// Parses a token of three parts. Refuses duplicate keys in the header or the claims.
    fn read(token: &'a str) -> Option<Self> {
        if token.len() > MAX_TOKEN_LEN {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let (header, claims) = (object(header)?, object(claims)?);
        bytes(signature)?;
        // A `crit` header demands extensions; the provider implements none.
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
        expected: &ExpectedClaims<'_>,
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
        decoded.map(|decoded| decoded.claims).map_err(|why| describe_error(&why))
    }

    /// Verifies an ES512 signature, which the library lacks.
    fn prove_alone(self, key: &PublishedKey) -> Result<Map<String, Value>, &'static str> {
        let (message, signature) = self.token.rsplit_once('.').ok_or(UNSIGNED)?;
        let signature = bytes(signature).ok_or(UNSIGNED)?;
        match key.verifies(message.as_bytes(), &signature) {
            true => Ok(self.claims),
            false => Err(UNSIGNED),
        }
    }
}

const OTHER_ISSUER: &str = "another issuer signed the token";
const OTHER_CLIENT: &str = "the token is for another client";

fn describe_error(why: &Error) -> &'static str {
    match why.kind() {
        ErrorKind::InvalidIssuer => OTHER_ISSUER,
        ErrorKind::InvalidAudience => OTHER_CLIENT,
        ErrorKind::MissingRequiredClaim(_) => NOT_OURS,
        _ => UNSIGNED,
    }
}

/// Returns the subject of verified claims if their structure is right and they are valid at `now`.
fn check(
    claims: &Map<String, Value>,
    expected: &ExpectedClaims<'_>,
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
