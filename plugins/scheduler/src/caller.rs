//! Authentication of the caller by the token in the request's headers.
//!
//! This file prevents a caller from guessing a token piece by piece (tokens are looked up by a
//! keyed hash of the whole secret), from falling back to anonymous rights with an invalid token,
//! and from mixing two credentials in one request (decision F5).

use crate::names::is_uuid;
use crate::refusal::ApiRefusal;
use crate::request::ApiRequest;
use crate::token::Token;
use bulkhead_sdk::host::{Entry, Storage};
use bulkhead_sdk::raw::RawCaller;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Failure, Host};

/// Storage key of the HMAC key for token secrets.
const HASH_KEY: &str = "secret-hash-key";
/// Headers that carry a token, in order of precedence.
const TOKEN_HEADERS: [&str; 2] = ["x-nomad-token", "x-scheduler-token"];

/// A caller without a token or with a valid token.
pub(crate) enum ApiCaller {
    /// The caller sent no token.
    Anonymous,
    /// The caller sent a valid token.
    Known {
        /// Public identifier of the token.
        accessor: String,
        /// Record of the token.
        token: Box<Entry<Token>>,
    },
}

impl ApiCaller {
    /// Returns true if the caller has a management token.
    #[must_use]
    pub(crate) fn is_management(&self) -> bool {
        self.token().is_some_and(Token::is_management)
    }

    /// Refuses callers without a management token.
    ///
    /// # Errors
    /// 403.
    pub(crate) fn demand_management(&self) -> Result<(), ApiRefusal> {
        if self.is_management() { Ok(()) } else { Err(ApiRefusal::denied()) }
    }

    /// Returns the caller's token, if any.
    #[must_use]
    pub(crate) fn token(&self) -> Option<&Token> {
        match self {
            Self::Anonymous => None,
            Self::Known { token, .. } => Some(&token.value),
        }
    }

    /// Returns true if the caller's token links to the role.
    #[must_use]
    pub(crate) fn has_role(&self, id: &str) -> bool {
        self.token().is_some_and(|token| token.roles.iter().any(|role| role == id))
    }
}

/// The reason why a token is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadToken {
    /// No token has this secret, or the secret is not a UUID.
    Unknown,
    /// The token has expired.
    Expired,
}

/// Returns the caller of a request.
///
/// # Errors
/// 403 for an invalid token.
pub(crate) fn authenticate(request: &ApiRequest<'_>) -> Result<ApiCaller, ApiRefusal> {
    look_up(request)?.map_err(|_| ApiRefusal::denied())
}

/// Returns the caller of a request, or the reason why the token is invalid.
///
/// # Errors
/// Failures of the store.
pub(crate) fn look_up(request: &ApiRequest<'_>) -> Result<Result<ApiCaller, BadToken>, Failure> {
    let Some(secret) = presented(request.headers()) else { return Ok(Ok(ApiCaller::Anonymous)) };
    if !is_uuid(&secret) {
        return Ok(Err(BadToken::Unknown));
    }
    let Some(accessor) = accessor_of(request.host, &secret)? else {
        return Ok(Err(BadToken::Unknown));
    };
    let token = request.storage().entry::<Token>(&Token::key(&accessor))?;
    Ok(match token {
        None => Err(BadToken::Unknown),
        Some(token) if token.value.is_expired(request.now()) => Err(BadToken::Expired),
        Some(token) => {
            request.note_caller(&accessor, &token.value.name);
            Ok(ApiCaller::Known { accessor, token: Box::new(token) })
        }
    })
}

/// Returns the caller of a request for the host; `None` without a valid token.
///
/// # Errors
/// Failures of the store.
pub(crate) fn identify(request: &ApiRequest<'_>) -> Result<Option<RawCaller>, Failure> {
    look_up(request).map(|_| request.known_caller())
}

/// Refuses callers without a management token, before anything of a body is examined or forwarded.
///
/// # Errors
/// 403.
pub(crate) fn authenticate_manager(request: &ApiRequest<'_>) -> Result<(), ApiRefusal> {
    authenticate(request)?.demand_management()
}

/// Returns the token of a request: the first token header that is not blank, or else the bearer
/// token.
fn presented(headers: &[(String, String)]) -> Option<String> {
    let values_of = |name: &'static str| {
        headers.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.trim())
    };
    let direct =
        TOKEN_HEADERS.iter().find_map(|name| values_of(name).find(|text| !text.is_empty()));
    let bearer = || {
        let value = values_of("authorization").next()?;
        let (scheme, rest) = value.split_once(' ')?;
        let word = rest.split(' ').find(|word| !word.is_empty())?;
        scheme.eq_ignore_ascii_case("bearer").then_some(word)
    };
    direct.or_else(bearer).map(str::to_owned)
}

/// Returns the accessor of the token with that secret.
///
/// # Errors
/// Failures of the store.
pub(crate) fn accessor_of(host: &dyn Host, secret: &str) -> Result<Option<String>, Failure> {
    let Some(key) = host.storage().get_bytes(HASH_KEY)? else { return Ok(None) };
    host.storage().get_plain(&secret_key(host, &key, secret)?)
}

/// Adds the secret to the index, so that the token `accessor` can be looked up by the secret.
///
/// # Errors
/// Failures of the store.
pub(crate) fn index_secret(host: &dyn Host, secret: &str, accessor: &str) -> Result<(), Failure> {
    let key = hash_key(host)?;
    host.storage().put_plain(&secret_key(host, &key, secret)?, accessor)
}

/// Removes the secret from the index.
///
/// # Errors
/// Failures of the store.
pub(crate) fn forget_secret(host: &dyn Host, secret: &str) -> Result<(), Failure> {
    let key = hash_key(host)?;
    host.storage().delete(&secret_key(host, &key, secret)?)
}

/// Returns the mount's HMAC key for secrets; generates the key if there is none.
fn hash_key(host: &dyn Host) -> Result<Vec<u8>, Failure> {
    let storage: &dyn Storage = host.storage();
    if let Some(key) = storage.get_bytes(HASH_KEY)? {
        return Ok(key);
    }
    let key = host.random().bytes(32);
    storage.put_bytes(HASH_KEY, key.clone())?;
    Ok(key)
}

/// Returns the storage key of a secret. The case of letters does not matter.
fn secret_key(host: &dyn Host, key: &[u8], secret: &str) -> Result<String, Failure> {
    let hash = host.crypto().hmac("sha256", key, secret.to_ascii_lowercase().as_bytes())?;
    Ok(format!("token-secret/{}", hexadecimal::text(&hash)))
}

#[cfg(test)]
mod tests {
    use super::presented;

    fn token_of(headers: &[(&str, &str)]) -> Option<String> {
        let owned: Vec<_> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        presented(&owned)
    }

    #[test]
    fn the_first_header_counts_and_the_bearer_last() {
        let (direct, other, bearer) = (
            ("x-nomad-token", " a "),
            ("x-scheduler-token", "b"),
            ("authorization", "BEARER  c d"),
        );
        assert_eq!(token_of(&[bearer, other, direct]).as_deref(), Some("a"));
        assert_eq!(token_of(&[bearer, other]).as_deref(), Some("b"));
        assert_eq!(token_of(&[bearer]).as_deref(), Some("c"));
        assert_eq!(token_of(&[("x-nomad-token", "  "), bearer]).as_deref(), Some("c"));
    }

    #[test]
    fn other_schemes_and_bare_words_are_no_token() {
        for value in ["Bearer", "Bearer ", "Bearer\tx", "Basic eHg6eQ==", ""] {
            assert_eq!(token_of(&[("authorization", value)]), None, "{value:?}");
        }
        assert_eq!(token_of(&[]), None);
    }
}
