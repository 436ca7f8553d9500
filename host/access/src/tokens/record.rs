//! Stored form of a token. Times are in whole seconds of store time, unless said otherwise.

use crate::identity::LoginProof;
use crate::lifecycle_metrics::EndCause;
use crate::policies::ROOT;
use bulkhead_store::{Address, IndexColumns, Space, StoreFault, Unit};
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenType {
    /// Stored as a row.
    Service,
    /// Not stored: a sealed record kept by the token's holder.
    Batch,
}

impl TokenType {
    /// Returns the word used by the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Batch => "batch",
        }
    }
}

/// The record of a token. Times are in whole seconds of store time, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Identifies the token but cannot be used as a token; empty for a batch token.
    pub accessor: String,
    /// Canonical names, sorted.
    pub policies: Vec<String>,
    /// Name shown by look-ups and audit lines.
    pub display_name: String,
    /// Key of the parent's row; `None` for an orphan.
    pub parent: Option<String>,
    /// Request path that created the token.
    pub path: String,
    /// Token role that created the token; empty if no role did.
    pub role: String,
    /// Id of the token's entity; empty if the token has no entity.
    pub entity_id: String,
    /// Metadata shown by look-ups and audit lines.
    pub meta: BTreeMap<String, String>,
    /// Client networks from which the token may be used; empty for any network.
    pub bound_cidrs: Vec<Cidr>,
    /// Time of creation.
    pub issued: u64,
    /// Lifetime at creation, in seconds; 0 means unlimited.
    pub creation_ttl: u64,
    /// Expiry time; `None` means never.
    pub expires: Option<u64>,
    /// Explicit maximum requested at creation, in seconds; 0 means none. The maximum of the role
    /// applies in addition ([`bounds`]).
    pub(crate) explicit_max_ttl: u64,
    /// Period requested at creation, in seconds; 0 means none. The period of the role applies in
    /// addition.
    pub(crate) period: u64,
    /// True if the token can be renewed.
    pub renewable: bool,
    /// Time of the latest renewal.
    pub last_renewal: Option<u64>,
    /// Lifetime granted by the latest renewal, in seconds; `None` before the first renewal, and in
    /// records of earlier releases. A renewal without an increment asks for the same time again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) renewed_ttl: Option<u64>,
    /// Number of requests left; `None` means unlimited.
    pub uses_left: Option<u64>,
    /// Time at which the last use was taken, in milliseconds. The request with the last use
    /// continues; no other request may begin.
    pub(crate) used_up: Option<u64>,
    /// Set once the token is revoked or expired. The token is refused at once; its leases and
    /// children end afterwards.
    pub(crate) ended: Option<TokenEnding>,
    /// Cause of the end, decided with the end. `None` in records of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end_cause: Option<EndCause>,
    /// UUID of the auth mount whose login created the token; empty for other tokens.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mount: String,
    /// Login data kept for renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<KeptLogin>,
    /// Proof of the login, or of the `entity_alias` given when the token was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proof: Option<LoginProof>,
    /// Key of the ancestor whose proof applies to this token; empty if the token has its own proof
    /// or none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) prover: String,
}

/// Login data kept for the renewal of the login's token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLogin {
    /// Name of the caller at the auth mount.
    pub alias: String,
    /// Policies given by the auth method: canonical names, sorted.
    pub policies: Vec<String>,
    /// JSON text for the auth method only. The text may contain secrets.
    pub internal: String,
}

impl fmt::Debug for KeptLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptLogin").field("policies", &self.policies).finish_non_exhaustive()
    }
}

stored!(TokenRecord, "token", reads_stored_tokens);

/// Delay between a token's last use and its end by due work, in milliseconds: the deadline of an
/// ordinary request plus a minute. A request that takes longer keeps its token
/// ([`super::Tokens::end_if_due`]).
const LAST_REQUEST: u64 = 150_000;

impl TokenRecord {
    /// Returns the remaining lifetime at `now_ms` in seconds, rounded down; `None` means unlimited.
    pub fn remaining_seconds(&self, now_ms: u64) -> Option<u64> {
        self.expires.map(|expires| expires.saturating_mul(1000).saturating_sub(now_ms) / 1000)
    }

    /// Returns the lifetime that the creation or the latest renewal granted, in seconds; 0 means
    /// unlimited. An answer shows this lifetime. The remaining lifetime would be 1 s shorter in
    /// each answer that a change of the second separates from the grant.
    pub fn granted_ttl(&self) -> u64 {
        self.renewed_ttl.unwrap_or(self.creation_ttl)
    }

    /// Returns the seconds that something can last that ends with this token: the remaining
    /// lifetime of a token that cannot be renewed, at least 1; `None` means unlimited.
    pub fn longest_dependent(&self, now_ms: u64) -> Option<u64> {
        let left = self.remaining_seconds(now_ms).filter(|_| !self.renewable);
        left.map(|seconds| seconds.max(1))
    }

    /// Returns true if the token has the root policy.
    pub(crate) fn is_root(&self) -> bool {
        self.policies.iter().any(|policy| policy == ROOT)
    }

    /// Returns true if the token is neither ended nor expired at `now_ms`. A token without uses
    /// left stays alive until its last request ends.
    pub fn is_alive(&self, now_ms: u64) -> bool {
        self.ended.is_none()
            && self.expires.is_none_or(|expires| expires.saturating_mul(1000) > now_ms)
    }

    /// Returns true if a request may begin with this token at `now_ms`.
    pub fn is_valid_at(&self, now_ms: u64) -> bool {
        self.is_alive(now_ms) && self.used_up.is_none()
    }

    /// Returns the time at which due work ends the token, in milliseconds of store time.
    pub(super) fn due_time(&self) -> Option<u64> {
        let expires = self.expires.map(|expires| expires.saturating_mul(1000));
        let used_up = self.used_up.map(|used_up| used_up.saturating_add(LAST_REQUEST));
        expires.into_iter().chain(used_up).min()
    }

    /// Returns the token's row under `key`, due at `due`.
    pub(super) fn row(
        &self,
        key: &str,
        due: Option<u64>,
    ) -> Result<(Address, Vec<u8>, IndexColumns), Failure> {
        let of_mount =
            || if self.mount.is_empty() { String::new() } else { login_owner_key(&self.mount) };
        let owner = self.parent.clone().unwrap_or_else(of_mount);
        Ok((address(key), self.to_bytes()?, IndexColumns { due, lane: String::new(), owner }))
    }
}

/// Returns the owner key of all tokens created by logins at the auth mount with this UUID. No token
/// has such a key.
pub(super) fn login_owner_key(mount: &str) -> String {
    format!("mount/{mount}")
}

/// The effect of a token's end on its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenEnding {
    /// The children end with the token.
    WithChildren,
    /// The children become orphans. A batch token cannot become an orphan, because its record is
    /// kept by its holder and cannot be changed.
    Alone,
}

/// Returns the address of a token's row.
pub fn address(key: &str) -> Address {
    Address::new(Space::Token, key)
}

/// Reads a stored token, including a token that has ended.
pub async fn read(unit: &mut Unit, key: &str) -> Result<Option<Arc<TokenRecord>>, Failure> {
    let Some(record) = unit.get(&address(key)).await? else { return Ok(None) };
    let parsed = record.body.parsed(TokenRecord::from_bytes);
    parsed.map(Some).map_err(|unreadable| unreadable.of("the record of a token"))
}

/// Writes the row of a token that has not ended into the unit of work.
pub(super) fn put(unit: &mut Unit, key: &str, record: &TokenRecord) -> Result<(), Failure> {
    put_due(unit, key, record, record.due_time())
}

pub(super) fn put_due(
    unit: &mut Unit,
    key: &str,
    record: &TokenRecord,
    due: Option<u64>,
) -> Result<(), Failure> {
    let (address, body, index) = record.row(key, due)?;
    unit.put(address, body, index);
    Ok(())
}

/// Commits a change of tokens made by the host itself. Returns `false` on a conflict; the caller
/// then repeats the change from its first read. Such a retry loop terminates, because a conflict
/// means that another change was committed.
pub(super) async fn try_commit(unit: Unit) -> Result<bool, Failure> {
    match unit.commit().await {
        Ok(_) => Ok(true),
        Err(StoreFault::Conflict) => Ok(false),
        Err(fault) => Err(fault.into()),
    }
}
