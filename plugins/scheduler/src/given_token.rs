//! A token as a request gives it, and what becomes of it: a new token, an update, an upload.

use crate::body;
use crate::names::is_uuid;
use crate::query::go_duration;
use crate::refusal::{Problems, Refusal};
use crate::role::Role;
use crate::roles;
use crate::token::{Token, TokenType, go_duration_text};
use bulkhead_sdk::Failure;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::Storage;
use serde_json::{Map, Value};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Longest name of a token, in bytes.
const LONGEST_NAME: usize = 256;
/// Shortest and longest life of a token that ends, in milliseconds.
const SHORTEST_LIFE: u64 = 60_000;
const LONGEST_LIFE: u64 = 24 * 3_600_000;

/// A token as a request gives it. No `Debug`: it may hold a secret.
pub(crate) struct GivenToken {
    /// Empty for a token to be created.
    pub(crate) accessor: String,
    secret: String,
    name: String,
    kind: String,
    policies: Vec<String>,
    roles: Vec<GivenLink>,
    global: bool,
    ttl: Option<GivenTtl>,
    expires: Option<StoreTime>,
}

/// A link to a role: by its identifier, or else by its name.
struct GivenLink {
    id: String,
    name: String,
}

#[derive(Clone, Copy)]
struct GivenTtl {
    is_negative: bool,
    length: Duration,
}

impl GivenToken {
    /// The token in a request's body. Hash, indexes and the time of creation are ignored.
    ///
    /// # Errors
    /// 400 for a body that is none of a token, and for a null in a list (decision F5).
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let given = body::object(bytes)?;
        Ok(Self {
            accessor: body::text(&given, "AccessorID")?,
            secret: body::text(&given, "SecretID")?,
            name: body::text(&given, "Name")?,
            kind: body::text(&given, "Type")?,
            policies: policies(&given)?,
            roles: links(&given)?,
            global: body::flag(&given, "Global")?,
            ttl: ttl(&given)?,
            expires: expiry(&given)?,
        })
    }

    /// Returns whether the token is to hold in every region.
    #[must_use]
    pub(crate) fn is_global(&self) -> bool {
        self.global
    }

    /// Identifiers of the linked roles, each once.
    ///
    /// # Errors
    /// 400 for a role that is not there.
    pub(crate) fn role_ids(&self, storage: &dyn Storage) -> Result<Vec<String>, Refusal> {
        let mut ids = Vec::new();
        for link in &self.roles {
            let unknown = |named: &str| Refusal::invalid(format!("cannot find role {named}"));
            let id = if link.id.is_empty() {
                roles::id_of(storage, &link.name)?.ok_or_else(|| unknown(&link.name))?
            } else if is_uuid(&link.id) && storage.get_bytes(&Role::key(&link.id))?.is_some() {
                link.id.clone()
            } else {
                return Err(unknown(&link.id));
            };
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// The new token with this secret.
    ///
    /// # Errors
    /// 400 with every problem.
    pub(crate) fn create(
        &self,
        secret: String,
        roles: Vec<String>,
        now: StoreTime,
    ) -> Result<Token, Refusal> {
        let mut problems = Problems::default();
        let kind = self.check(&mut problems, &roles);
        let expires = self.expiry(&mut problems, now);
        problems.refuse("token 0 invalid")?;
        Ok(Token { kind, secret, expires, ..self.token(roles, now) })
    }

    /// The token with the accessor and secret that the caller chose.
    ///
    /// # Errors
    /// 400 where they are none of a token, or it is not a client token.
    pub(crate) fn upload(&self, roles: Vec<String>, now: StoreTime) -> Result<Token, Refusal> {
        let is_whole = is_uuid(&self.accessor) && is_uuid(&self.secret);
        if !is_whole || self.kind != TokenType::Client.word() {
            return Err(Refusal::invalid(format!("cannot find token {}", self.accessor)));
        }
        self.create(self.secret.clone(), roles, now)
    }

    /// The token in place of `before`: secret, creation and end stay (decision F6).
    ///
    /// # Errors
    /// 400 with every problem.
    pub(crate) fn update(&self, before: &Token, roles: Vec<String>) -> Result<Token, Refusal> {
        let mut problems = Problems::default();
        let kind = self.check(&mut problems, &roles);
        problems.demand(self.global == before.global, "cannot toggle global mode");
        let ttl = self.ttl.map(|ttl| nanoseconds(ttl.length));
        let is_same_ttl = ttl.is_none_or(|ttl| ttl == before.ttl_nanoseconds);
        problems.demand(is_same_ttl, "cannot update expiration TTL");
        let is_same_end = self.expires.is_none_or(|expires| Some(expires) == before.expires);
        problems.demand(is_same_end, "cannot update expiration time");
        problems.refuse("token 0 invalid")?;
        Ok(Token {
            secret: before.secret.clone(),
            kind,
            expires: before.expires,
            ttl_nanoseconds: before.ttl_nanoseconds,
            ..self.token(roles, before.created)
        })
    }

    fn token(&self, roles: Vec<String>, created: StoreTime) -> Token {
        Token {
            secret: String::new(),
            name: self.name.clone(),
            kind: TokenType::Client,
            policies: self.policies.clone(),
            roles,
            global: self.global,
            created,
            expires: None,
            ttl_nanoseconds: self.ttl.map_or(0, |ttl| nanoseconds(ttl.length)),
        }
    }

    /// Checks what creations and updates have in common, and gives the type.
    fn check(&self, problems: &mut Problems, roles: &[String]) -> TokenType {
        problems.demand(self.name.len() <= LONGEST_NAME, "token name too long");
        let has_links = !self.policies.is_empty() || !roles.is_empty();
        let kind = match self.kind.as_str() {
            "client" => {
                problems.demand(has_links, "client token missing policies or roles");
                TokenType::Client
            }
            "management" => {
                let text = "management token cannot be associated with policies or roles";
                problems.demand(!has_links, text);
                TokenType::Management
            }
            _ => {
                problems.demand(false, "token type must be client or management");
                TokenType::Client
            }
        };
        if self.ttl.is_some_and(|ttl| ttl.is_negative) {
            problems.demand(false, "token expiration TTL should not be negative");
        }
        kind
    }

    /// When the new token ends: at the time that was given, or else after the lifetime.
    fn expiry(&self, problems: &mut Problems, now: StoreTime) -> Option<StoreTime> {
        let after = self.ttl.map(|ttl| u64::try_from(ttl.length.as_millis()).unwrap_or(u64::MAX));
        let after = after.filter(|milliseconds| *milliseconds > 0);
        let expires = self.expires.or(after.map(|milliseconds| now.saturating_add(milliseconds)))?;
        problems.demand(expires >= now, "expiration time cannot be before create time");
        let life = expires.saturating_sub(now);
        let was = go_duration_text(Duration::from_millis(life));
        problems.demand(
            life <= LONGEST_LIFE,
            format!("expiration time cannot be more than 24h0m0s in the future (was {was})"),
        );
        problems.demand(
            life >= SHORTEST_LIFE,
            format!("expiration time cannot be less than 1m0s in the future (was {was})"),
        );
        Some(expires)
    }
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

/// Names of policies, each once. They need not exist.
fn policies(given: &Map<String, Value>) -> Result<Vec<String>, Refusal> {
    let mut names: Vec<String> = Vec::new();
    for item in body::list(given, "Policies")?.unwrap_or_default() {
        let name = item.as_str().ok_or_else(|| {
            Refusal::invalid("token 0 invalid: Policies holds another thing than a policy's name")
        })?;
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn links(given: &Map<String, Value>) -> Result<Vec<GivenLink>, Refusal> {
    let link = |item: &Value| {
        if item.is_null() {
            return Err(Refusal::invalid("token 0 invalid: role link must not be null"));
        }
        let link = body::member("Roles", item)?;
        Ok(GivenLink { id: body::text(link, "ID")?, name: body::text(link, "Name")? })
    };
    body::list(given, "Roles")?.unwrap_or_default().iter().map(link).collect()
}

/// The lifetime: a text in Go's form, or nanoseconds.
fn ttl(given: &Map<String, Value>) -> Result<Option<GivenTtl>, Refusal> {
    let bad = || Refusal::invalid("ExpirationTTL is no duration; give one such as \"1h30m\"");
    match given.get("expirationttl") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => {
            let (is_negative, unsigned) = match text.strip_prefix('-') {
                Some(rest) => (true, rest),
                None => (false, text.as_str()),
            };
            let length = go_duration(unsigned).ok_or_else(bad)?;
            Ok(Some(GivenTtl { is_negative, length }))
        }
        Some(Value::Number(number)) => {
            let nanoseconds = number.as_i64().ok_or_else(bad)?;
            let length = Duration::from_nanos(nanoseconds.unsigned_abs());
            Ok(Some(GivenTtl { is_negative: nanoseconds < 0, length }).filter(|_| nanoseconds != 0))
        }
        Some(_) => Err(bad()),
    }
}

/// The time at which the token is to end.
fn expiry(given: &Map<String, Value>) -> Result<Option<StoreTime>, Refusal> {
    let text = body::text(given, "ExpirationTime")?;
    if text.is_empty() {
        return Ok(None);
    }
    let time = OffsetDateTime::parse(&text, &Rfc3339).map_err(|_| {
        Refusal::invalid(
            "ExpirationTime is no time; give one such as \"2030-01-02T15:04:05Z\" (RFC 3339)",
        )
    })?;
    let milliseconds = time.unix_timestamp_nanos().max(0) / 1_000_000;
    let milliseconds = u64::try_from(milliseconds);
    milliseconds.map(Some).map_err(|_| Failure::internal("a time after the year 9999").into())
}
