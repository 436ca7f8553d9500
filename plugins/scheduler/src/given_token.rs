//! A token in a request, and its conversion into a new, updated or uploaded token.

use crate::body;
use crate::names::{is_short_text, is_uuid};
use crate::query::go_duration;
use crate::refusal::{ApiRefusal, RecordProblems};
use crate::role::{Role, id_of};
use crate::token::{Token, TokenType, go_duration_text};
use bulkhead_sdk::Failure;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::Storage;
use bulkhead_sdk::wire::distinct::first_of_each;
use serde_json::{Map, Value};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Minimum and maximum lifetime of an expiring token, in milliseconds.
const SHORTEST_LIFE: u64 = 60_000;
const LONGEST_LIFE: u64 = 24 * 3_600_000;

/// A token as given in a request. No `Debug`: it may contain a secret.
pub(crate) struct GivenToken {
    /// Empty to create a token.
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

/// A link to a role: by identifier, or by name if the identifier is empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Reads the token in a parsed body. Hash, indexes and time of creation are ignored.
    ///
    /// # Errors
    /// 400 for a body that is not a token, and for a null in a list (decision F5).
    pub(crate) fn of(fields: &Map<String, Value>) -> Result<Self, ApiRefusal> {
        Ok(Self {
            accessor: body::text(fields, "AccessorID")?,
            secret: body::text(fields, "SecretID")?,
            name: body::text(fields, "Name")?,
            kind: body::text(fields, "Type")?,
            policies: policies(fields)?,
            roles: links(fields)?,
            global: body::flag(fields, "Global")?,
            ttl: ttl(fields)?,
            expires: expiry(fields)?,
        })
    }

    /// Returns true if the token is to be valid in every region.
    #[must_use]
    pub(crate) fn is_global(&self) -> bool {
        self.global
    }

    /// Returns the identifiers of the linked roles, without duplicates.
    ///
    /// # Errors
    /// 400 for a role that does not exist.
    pub(crate) fn role_ids(&self, storage: &dyn Storage) -> Result<Vec<String>, ApiRefusal> {
        let mut ids = Vec::new();
        for link in &self.roles {
            let unknown = |named: &str| ApiRefusal::invalid(format!("cannot find role {named}"));
            let id = if link.id.is_empty() {
                id_of(storage, &link.name)?.ok_or_else(|| unknown(&link.name))?
            } else if is_uuid(&link.id) && storage.get_bytes(&Role::key(&link.id))?.is_some() {
                link.id.clone()
            } else {
                return Err(unknown(&link.id));
            };
            ids.push(id);
        }
        Ok(first_of_each(ids))
    }

    /// Creates the token with this secret.
    ///
    /// # Errors
    /// 400 with a list of all problems.
    pub(crate) fn create(
        &self,
        secret: String,
        roles: Vec<String>,
        now: StoreTime,
    ) -> Result<Token, ApiRefusal> {
        let mut problems = RecordProblems::default();
        let kind = self.check(&mut problems, &roles);
        let expires = self.expiry(&mut problems, now);
        problems.refuse("token 0 invalid")?;
        Ok(Token { kind, secret, expires, ..self.token(roles, now) })
    }

    /// Creates the token with the accessor and secret that the caller chose.
    ///
    /// # Errors
    /// 400 if accessor or secret is not a UUID, or if the token is not a client token. Otherwise as
    /// [`create`](Self::create).
    pub(crate) fn upload(&self, roles: Vec<String>, now: StoreTime) -> Result<Token, ApiRefusal> {
        let is_whole = is_uuid(&self.accessor) && is_uuid(&self.secret);
        if !is_whole || self.kind != TokenType::Client.word() {
            return Err(ApiRefusal::invalid(format!("cannot find token {}", self.accessor)));
        }
        self.create(self.secret.clone(), roles, now)
    }

    /// Creates the successor of `before`, which keeps secret, time of creation and expiry (decision
    /// F6).
    ///
    /// # Errors
    /// 400 with a list of all problems.
    pub(crate) fn update(&self, before: &Token, roles: Vec<String>) -> Result<Token, ApiRefusal> {
        let mut problems = RecordProblems::default();
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

    /// Runs the checks common to creations and updates, and returns the token's type.
    fn check(&self, problems: &mut RecordProblems, roles: &[String]) -> TokenType {
        problems.demand(is_short_text(&self.name), "token name too long");
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

    /// Returns the expiry of a new token: the given time or, without one, the end of the given
    /// lifetime.
    fn expiry(&self, problems: &mut RecordProblems, now: StoreTime) -> Option<StoreTime> {
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

/// Returns the names of the policies, without duplicates. The policies need not exist.
fn policies(fields: &Map<String, Value>) -> Result<Vec<String>, ApiRefusal> {
    let mut names: Vec<String> = Vec::new();
    for item in body::list(fields, "Policies")?.unwrap_or_default() {
        let name = item.as_str().ok_or_else(|| {
            ApiRefusal::invalid("token 0 invalid: a value in Policies is not a policy's name")
        })?;
        names.push(name.to_owned());
    }
    Ok(first_of_each(names))
}

fn links(fields: &Map<String, Value>) -> Result<Vec<GivenLink>, ApiRefusal> {
    let link = |item: &Value| {
        if item.is_null() {
            return Err(ApiRefusal::invalid("token 0 invalid: role link must not be null"));
        }
        let link = body::member("Roles", item)?;
        Ok(GivenLink { id: body::text(link, "ID")?, name: body::text(link, "Name")? })
    };
    let links: Result<Vec<_>, _> =
        body::list(fields, "Roles")?.unwrap_or_default().iter().map(link).collect();
    links.map(first_of_each)
}

/// Parses the lifetime: a duration in Go's format, or a number of nanoseconds.
fn ttl(fields: &Map<String, Value>) -> Result<Option<GivenTtl>, ApiRefusal> {
    let bad = || {
        ApiRefusal::invalid("ExpirationTTL is not a duration; give a duration such as \"1h30m\"")
    };
    match fields.get("expirationttl") {
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

/// Parses the given time of expiry.
fn expiry(fields: &Map<String, Value>) -> Result<Option<StoreTime>, ApiRefusal> {
    let text = body::text(fields, "ExpirationTime")?;
    if text.is_empty() {
        return Ok(None);
    }
    let time = OffsetDateTime::parse(&text, &Rfc3339).map_err(|_| {
        ApiRefusal::invalid(
            "ExpirationTime is not a time; give a time such as \"2030-01-02T15:04:05Z\" (RFC 3339)",
        )
    })?;
    let milliseconds = time.unix_timestamp_nanos().max(0) / 1_000_000;
    let milliseconds = u64::try_from(milliseconds);
    milliseconds.map(Some).map_err(|_| Failure::internal("a time after the year 9999").into())
}
