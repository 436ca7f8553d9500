//! ACL tokens as stored and as shown.
//!
//! A token is looked up by a keyed hash of its whole secret, so that no answer tells which part of
//! a guess was right. The secret itself is stored only in the sealed record, because the API shows
//! the secret to its owner.

use crate::content_hash::content_hash;
use bulkhead_sdk::Failure;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::{Entry, Storage};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The rights of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TokenType {
    /// The rights of its policies and roles.
    #[default]
    Client,
    /// All rights.
    Management,
}

impl TokenType {
    /// Returns the word used in requests and answers.
    #[must_use]
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Management => "management",
        }
    }
}

/// A token as stored under `token/<accessor>`. No `Debug`: the record contains the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    /// The secret that the caller sends.
    pub(crate) secret: String,
    /// Name for human readers.
    pub(crate) name: String,
    /// Rights of the token.
    pub(crate) kind: TokenType,
    /// Names of policies, which need not exist.
    pub(crate) policies: Vec<String>,
    /// Identifiers of roles, which may have been deleted.
    pub(crate) roles: Vec<String>,
    /// The token is valid in every region.
    pub(crate) global: bool,
    /// Time of creation.
    pub(crate) created: StoreTime,
    /// Time of expiry; `None` for a token that does not expire.
    pub(crate) expires: Option<StoreTime>,
    /// The requested lifetime in nanoseconds; 0 if none was requested.
    pub(crate) ttl_nanoseconds: u64,
}

bulkhead_sdk::stored!(Token, "token", reads_stored_tokens);

impl Token {
    /// Returns the storage key of a token.
    #[must_use]
    pub(crate) fn key(accessor: &str) -> String {
        format!("token/{accessor}")
    }

    /// Returns true if the token has expired at `now`.
    #[must_use]
    pub(crate) fn is_expired(&self, now: StoreTime) -> bool {
        self.expires.is_some_and(|expires| expires < now)
    }

    /// Returns true for a management token.
    #[must_use]
    pub(crate) fn is_management(&self) -> bool {
        self.kind == TokenType::Management
    }

    /// Returns the hash of name, type, policies, scope and roles.
    #[must_use]
    pub(crate) fn hash(&self) -> String {
        let place = if self.global { "global" } else { "local" };
        let texts = [self.name.as_str(), self.kind.word()].into_iter();
        let links = self.policies.iter().map(String::as_str);
        let roles = self.roles.iter().map(String::as_str);
        content_hash(texts.chain(links).chain([place]).chain(roles))
    }
}

/// A link from a token to a role, with the role's present name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct RoleLink {
    /// Identifier.
    #[serde(rename = "ID")]
    pub(crate) id: String,
    /// Name.
    pub(crate) name: String,
}

/// A token as shown. No `Debug`: it contains the secret.
#[derive(PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ShownToken {
    #[serde(rename = "ExpirationTTL")]
    expiration_ttl: String,
    #[serde(rename = "AccessorID")]
    accessor_id: String,
    #[serde(rename = "SecretID")]
    secret_id: String,
    name: String,
    r#type: TokenType,
    policies: Option<Vec<String>>,
    roles: Option<Vec<RoleLink>>,
    global: bool,
    hash: Option<String>,
    create_time: String,
    expiration_time: Option<String>,
    create_index: u64,
    modify_index: u64,
}

impl ShownToken {
    /// Creates the complete form of the token `accessor`, including the secret.
    #[must_use]
    pub(crate) fn whole(accessor: &str, entry: Entry<Token>, roles: Vec<RoleLink>) -> Self {
        let Entry { value: token, created, modified } = entry;
        Self {
            expiration_ttl: go_duration_text(Duration::from_nanos(token.ttl_nanoseconds)),
            accessor_id: accessor.to_owned(),
            hash: Some(token.hash()),
            secret_id: token.secret,
            name: token.name,
            r#type: token.kind,
            policies: (token.kind == TokenType::Client).then_some(token.policies),
            roles: (!token.roles.is_empty()).then_some(roles),
            global: token.global,
            create_time: shown_time(token.created),
            expiration_time: token.expires.map(shown_time),
            create_index: created,
            modify_index: modified,
        }
    }

    /// Creates the token shown to callers without a token.
    #[must_use]
    pub(crate) fn anonymous() -> Self {
        Self {
            expiration_ttl: String::new(),
            accessor_id: "anonymous".to_owned(),
            secret_id: String::new(),
            name: "Anonymous Token".to_owned(),
            r#type: TokenType::Client,
            policies: Some(vec!["anonymous".to_owned()]),
            roles: None,
            global: false,
            hash: None,
            create_time: "0001-01-01T00:00:00Z".to_owned(),
            expiration_time: None,
            create_index: 0,
            modify_index: 0,
        }
    }
}

/// A token in a list: without its secret, and with keys in alphabetical order.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct TokenStub {
    #[serde(rename = "AccessorID")]
    accessor_id: String,
    create_index: u64,
    create_time: String,
    expiration_time: Option<String>,
    global: bool,
    hash: String,
    modify_index: u64,
    name: String,
    policies: Option<Vec<String>>,
    roles: Option<Vec<RoleLink>>,
    r#type: TokenType,
}

impl TokenStub {
    /// Creates the stub of the token `accessor`.
    #[must_use]
    pub(crate) fn of(accessor: &str, entry: Entry<Token>, roles: Vec<RoleLink>) -> Self {
        let Entry { value: token, created, modified } = entry;
        Self {
            accessor_id: accessor.to_owned(),
            create_index: created,
            create_time: shown_time(token.created),
            expiration_time: token.expires.map(shown_time),
            global: token.global,
            hash: token.hash(),
            modify_index: modified,
            name: token.name,
            policies: Some(token.policies).filter(|policies| !policies.is_empty()),
            roles: (!token.roles.is_empty()).then_some(roles),
            r#type: token.kind,
        }
    }
}

/// Returns the links to existing roles, with the roles' present names.
///
/// # Errors
/// Failures of the store.
pub(crate) fn live_links(storage: &dyn Storage, token: &Token) -> Result<Vec<RoleLink>, Failure> {
    let mut links = Vec::new();
    for id in &token.roles {
        if let Some(role) = storage.get::<crate::role::Role>(&crate::role::Role::key(id))? {
            links.push(RoleLink { id: id.clone(), name: role.name });
        }
    }
    Ok(links)
}

/// Formats a time in RFC 3339, in UTC.
fn shown_time(at: StoreTime) -> String {
    let nanoseconds = i128::from(at) * 1_000_000;
    let time = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// Formats a duration as Go does: `1h0m0s`, `1m0s`, `1.5s`; empty for zero.
pub(crate) fn go_duration_text(duration: Duration) -> String {
    if duration.is_zero() {
        return String::new();
    }
    let (hours, minutes) = (duration.as_secs() / 3_600, duration.as_secs() / 60 % 60);
    let seconds = duration.as_secs() % 60;
    let fraction = format!("{:09}", duration.subsec_nanos());
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{point}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{point}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{point}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_as_go_shows_them() {
        for (seconds, text) in [(0, ""), (60, "1m0s"), (3_600, "1h0m0s"), (93_784, "26h3m4s")] {
            assert_eq!(go_duration_text(Duration::from_secs(seconds)), text);
        }
        assert_eq!(go_duration_text(Duration::from_millis(1_500)), "1.5s");
    }

    #[test]
    fn token_hashes_match_nomad() {
        let token = Token {
            secret: String::new(),
            name: "devs".into(),
            kind: TokenType::Client,
            policies: vec!["readonly".into()],
            roles: vec![],
            global: true,
            created: 0,
            expires: None,
            ttl_nanoseconds: 0,
        };
        assert_eq!(token.hash(), "eSn8H8RVqh8As8WQNnC2vlBRqXy6DECogc5umzX0P30=");
    }

    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(shown_time(1_893_456_000_123), "2030-01-01T00:00:00.123Z");
        assert_eq!(shown_time(1_893_456_000_000), "2030-01-01T00:00:00Z");
    }
}
