//! The token of a service account, as the caller sends the token. Nothing in the token is proven.
//!
//! The attack this file prevents: a token that two parsers read differently. A key given twice,
//! both forms of an account in one token, and names that Kubernetes could not give are refused.

use bulkhead_sdk::Failure;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::jwt::{self, JwtFault, TokenParts};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum length of a uid, in bytes.
const LONGEST_UID: usize = 128;

/// Grace time after the end of a token, in seconds (decision A8).
const LEEWAY: u64 = 60;

/// Beginning of the claims in the tokens of Secrets, the older form.
const OF_SECRET: &str = "kubernetes.io/serviceaccount/";

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceAccount {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Distinguishes the account from a later account of the same name.
    pub(crate) uid: String,
}

/// A parsed token. No `Debug`: the token opens the cluster.
pub(crate) struct AccountToken<'a> {
    /// The whole token.
    pub(crate) text: &'a str,
    /// The signed text: header and claims, as sent.
    pub(crate) signed: &'a str,
    pub(crate) signature: Vec<u8>,
    pub(crate) algorithm: String,
    pub(crate) claims: TokenClaims,
}

/// The claims of a token, none of them proven.
pub(crate) struct TokenClaims {
    pub(crate) account: ServiceAccount,
    /// Secret of the token; empty for a token that is in no Secret.
    pub(crate) secret_name: String,
    pub(crate) issuer: String,
    pub(crate) audiences: Vec<String>,
    /// End of the token in seconds since 1970; `None` for tokens of Secrets.
    expires: Option<u64>,
    begins: Option<u64>,
}

impl<'a> AccountToken<'a> {
    /// Parses a token.
    ///
    /// # Errors
    /// Invalid request; the message repeats nothing of the token.
    pub(crate) fn read(text: &'a str) -> Result<Self, Failure> {
        let text = text.trim_ascii();
        let TokenParts { signed, header, claims, signature } =
            TokenParts::split(text).map_err(unreadable)?;
        let algorithm = text_of(&object(header)?, "alg")?;
        let claims = TokenClaims::read(&object(claims)?)?;
        Ok(Self {
            text,
            signed,
            signature: jwt::decode(filled(signature)?).map_err(unreadable)?,
            algorithm,
            claims,
        })
    }
}

impl TokenClaims {
    fn read(all: &Map<String, Value>) -> Result<Self, Failure> {
        let (account, secret_name) = match (all.get("kubernetes.io"), of_secret(all)) {
            (Some(Value::Object(bound)), false) => projected(bound)?,
            (None, true) => legacy(all)?,
            (Some(_), true) => return Err(malformed("the account is named in two ways")),
            _ => return Err(malformed("this is not the token of a service account")),
        };
        if !account.is_sound() {
            return Err(malformed("no cluster could have an account with these names"));
        }
        Ok(Self {
            account,
            secret_name,
            issuer: text_of(all, "iss")?,
            audiences: audiences(all)?,
            expires: time_of(all, "exp")?,
            begins: time_of(all, "nbf")?,
        })
    }

    /// Refuses a token that has ended or has not begun. The API server checks the times again.
    ///
    /// # Errors
    /// Permission denied.
    pub(crate) fn check_times(&self, now: StoreTime) -> Result<(), Failure> {
        let milliseconds = |seconds: u64| seconds.saturating_mul(1_000);
        let has_ended = |end: u64| now >= milliseconds(end.saturating_add(LEEWAY));
        if self.expires.is_some_and(has_ended) {
            return Err(Failure::denied("the token has expired"));
        }
        match self.begins.is_some_and(|begin| now < milliseconds(begin)) {
            true => Err(Failure::denied("the token is not valid yet")),
            false => Ok(()),
        }
    }
}

impl ServiceAccount {
    /// Returns the user name of the account in the answers of an API server.
    pub(crate) fn username(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Returns whether names and uid have the form that Kubernetes gives. A colon in a name could
    /// make two accounts one user name.
    fn is_sound(&self) -> bool {
        let is_name = |text: &str, most: usize| {
            let is_of_names = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte)
            };
            (1..=most).contains(&text.len()) && text.bytes().all(is_of_names)
        };
        let uid = self.uid.as_bytes();
        is_name(&self.namespace, 63)
            && is_name(&self.name, 253)
            && (1..=LONGEST_UID).contains(&uid.len())
            && uid.iter().all(u8::is_ascii_graphic)
    }
}

fn of_secret(all: &Map<String, Value>) -> bool {
    all.keys().any(|name| name.starts_with(OF_SECRET))
}

/// Reads the claims of a token that a cluster projects into a pod, or that `TokenRequest` answers.
fn projected(bound: &Map<String, Value>) -> Result<(ServiceAccount, String), Failure> {
    let part = |name: &str| match bound.get(name) {
        Some(Value::Object(part)) => Ok(part.clone()),
        None => Ok(Map::new()),
        Some(_) => Err(malformed("a claim about the account is not an object")),
    };
    let (account, secret) = (part("serviceaccount")?, part("secret")?);
    let account = ServiceAccount {
        namespace: text_of(bound, "namespace")?,
        name: text_of(&account, "name")?,
        uid: text_of(&account, "uid")?,
    };
    Ok((account, text_of(&secret, "name")?))
}

/// Reads the claims of a token in a Secret.
fn legacy(all: &Map<String, Value>) -> Result<(ServiceAccount, String), Failure> {
    let claim = |name: &str| text_of(all, &format!("{OF_SECRET}{name}"));
    let account = ServiceAccount {
        namespace: claim("namespace")?,
        name: claim("service-account.name")?,
        uid: claim("service-account.uid")?,
    };
    Ok((account, claim("secret.name")?))
}

fn audiences(all: &Map<String, Value>) -> Result<Vec<String>, Failure> {
    let wrong = || malformed("aud is neither a text nor a list of texts");
    match all.get("aud") {
        None => Ok(Vec::new()),
        Some(Value::String(only)) => Ok(vec![only.clone()]),
        Some(Value::Array(some)) => {
            some.iter().map(|each| each.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

fn time_of(all: &Map<String, Value>, name: &str) -> Result<Option<u64>, Failure> {
    match all.get(name) {
        None => Ok(None),
        Some(value) => match value.as_u64() {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(malformed("exp or nbf is not a number of seconds since 1970")),
        },
    }
}

/// Returns a text member; empty if absent.
fn text_of(from: &Map<String, Value>, name: &str) -> Result<String, Failure> {
    match from.get(name) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(malformed("a claim is not a text")),
    }
}

fn object(part: &str) -> Result<Map<String, Value>, Failure> {
    jwt::object(filled(part)?).map_err(unreadable)
}

/// Refuses an empty part, which base64url could also be.
fn filled(part: &str) -> Result<&str, Failure> {
    match part.is_empty() {
        true => Err(malformed("a part is not base64url without padding")),
        false => Ok(part),
    }
}

fn unreadable(fault: JwtFault) -> Failure {
    Failure::invalid(format!("jwt: {fault}")).recordable()
}

fn malformed(why: &str) -> Failure {
    unreadable(JwtFault::Malformed(why.to_owned()))
}

#[cfg(test)]
mod tests;
