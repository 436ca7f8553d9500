//! Claims of a token: the registered claims with their types, and all claims as received.

use super::{JwtFault, malformed, text_of};
use crate::database_plugin::StoreTime;
use serde_json::{Map, Value};

/// Grace time after the end of a token, in seconds (decision A8). There is no grace time before the
/// start of a token.
const LEEWAY: u64 = 60;
/// Largest integer that JSON numbers hold exactly, 2⁵³ − 1.
const LATEST: f64 = 9_007_199_254_740_991.0;

/// The claims of a token.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    issuer: Option<String>,
    subject: Option<String>,
    audiences: Vec<String>,
    /// Seconds since 1970, like `begins` and `issued`.
    expires: Option<u64>,
    begins: Option<u64>,
    issued: Option<u64>,
    all: Map<String, Value>,
}

/// Expected claims of a token. An empty text accepts every value, for callers with other rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpectedClaims<'a> {
    /// Expected issuer: `iss`, compared exactly.
    pub issuer: &'a str,
    /// Expected audience: one of `aud`, compared exactly.
    pub audience: &'a str,
}

impl Claims {
    pub(super) fn read(all: Map<String, Value>) -> Result<Self, JwtFault> {
        Ok(Self {
            issuer: text_of(&all, "iss")?,
            subject: text_of(&all, "sub")?,
            audiences: audiences(&all)?,
            expires: time_of(&all, "exp")?,
            begins: time_of(&all, "nbf")?,
            issued: time_of(&all, "iat")?,
            all,
        })
    }

    /// Returns the issuer, `iss`.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.issuer.as_deref()
    }

    /// Returns the subject, `sub`.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// Returns the audiences, `aud`.
    #[must_use]
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Returns the end of the token, `exp`, in seconds since 1970. Only a token of
    /// [`ParsedToken::read_unbounded`](super::ParsedToken::read_unbounded) can lack the end.
    #[must_use]
    pub fn expires(&self) -> Option<u64> {
        self.expires
    }

    /// Returns the beginning of the token, `nbf`, in seconds since 1970.
    #[must_use]
    pub fn begins(&self) -> Option<u64> {
        self.begins
    }

    /// Returns the time of issue, in seconds since 1970.
    #[must_use]
    pub fn issued(&self) -> Option<u64> {
        self.issued
    }

    /// Returns all claims by name.
    #[must_use]
    pub fn all(&self) -> &Map<String, Value> {
        &self.all
    }

    /// Compares the claims with `expected` and the store time.
    ///
    /// # Errors
    /// [`JwtFault::Issuer`] and [`JwtFault::Audience`], also if the claim is absent;
    /// [`JwtFault::Malformed`] without an end; [`JwtFault::Expired`] from 60 seconds after the end
    /// on; [`JwtFault::Immature`].
    pub fn check(&self, now: StoreTime, expected: &ExpectedClaims<'_>) -> Result<(), JwtFault> {
        let issuer = self.issuer.as_deref().unwrap_or_default();
        if !expected.issuer.is_empty() && issuer != expected.issuer {
            let (expected, found) = (expected.issuer.to_owned(), issuer.to_owned());
            return Err(JwtFault::Issuer { expected, found });
        }
        let is_for = |name: &String| name == expected.audience;
        if !expected.audience.is_empty() && !self.audiences.iter().any(is_for) {
            let (expected, found) = (expected.audience.to_owned(), self.audiences.clone());
            return Err(JwtFault::Audience { expected, found });
        }
        let milliseconds = |seconds: u64| seconds.saturating_mul(1_000);
        let expires = self.check_end()?;
        if now >= milliseconds(expires.saturating_add(LEEWAY)) {
            return Err(JwtFault::Expired(expires));
        }
        match self.begins {
            Some(begins) if now < milliseconds(begins) => Err(JwtFault::Immature(begins)),
            _ => Ok(()),
        }
    }

    /// Returns the end of the token, which a token must have unless the caller bounds its time.
    pub(super) fn check_end(&self) -> Result<u64, JwtFault> {
        self.expires.ok_or_else(|| malformed("it has no exp"))
    }
}

/// Reads a text or a list of texts. An empty list names no audience and is refused.
fn audiences(all: &Map<String, Value>) -> Result<Vec<String>, JwtFault> {
    let wrong = || malformed("aud is neither a text nor a list of texts");
    match all.get("aud") {
        None => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one.clone()]),
        Some(Value::Array(some)) if !some.is_empty() => {
            some.iter().map(|one| one.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

/// Reads an optional time, cut to whole seconds.
fn time_of(all: &Map<String, Value>, name: &str) -> Result<Option<u64>, JwtFault> {
    let Some(value) = all.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| (0.0..=LATEST).contains(seconds));
    match seconds {
        // The value was found in range above; the cast cuts the fraction.
        Some(seconds) => Ok(Some(seconds as u64)),
        None => Err(malformed(&format!("{name} is not a number of seconds since 1970"))),
    }
}
