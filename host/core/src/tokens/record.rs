//! A token as it is stored. Times are in whole seconds of store time, unless said otherwise.

use crate::identity::Proof;
use crate::policies::ROOT;
use bulkhead_store::{Address, Index, Space, StoreFault, Unit};
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// How a token is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenType {
    /// By a row of its own.
    Service,
    /// By its holder.
    Batch,
}

impl TokenType {
    /// The word of the API.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Batch => "batch",
        }
    }
}

/// What is known of a token. Times are in whole seconds of store time, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenRecord {
    /// Names the token without being able to use it; empty for a batch token.
    pub(crate) accessor: String,
    /// In canonical form and in order.
    pub(crate) policies: Vec<String>,
    pub(crate) display_name: String,
    /// Key of the parent's row; `None` for an orphan.
    pub(crate) parent: Option<String>,
    /// The path that made it.
    pub(crate) path: String,
    /// The token role that made it; empty without one.
    pub(crate) role: String,
    /// Of the one for whom it stands; empty where that is not known.
    pub(crate) entity_id: String,
    pub(crate) meta: BTreeMap<String, String>,
    /// Where it may be used from; empty for everywhere.
    pub(crate) bound_cidrs: Vec<Cidr>,
    pub(crate) issued: u64,
    /// Lifetime at issue; 0 never ends.
    pub(crate) creation_ttl: u64,
    /// `None` never ends.
    pub(crate) expires: Option<u64>,
    /// What was asked for itself; 0 is none. That of its role counts besides ([`bounds`]).
    pub(crate) explicit_max_ttl: u64,
    /// What was asked for itself; 0 is none. That of its role counts besides.
    pub(crate) period: u64,
    pub(crate) renewable: bool,
    pub(crate) last_renewal: Option<u64>,
    /// Requests that it may still make; `None` is without limit.
    pub(crate) uses_left: Option<u64>,
    /// When its last use was taken, in milliseconds. That request goes on, and no other begins.
    pub(crate) used_up: Option<u64>,
    /// Revoked or expired: refused at once, while its leases and children are being ended.
    pub(crate) ended: Option<Ending>,
    /// Uuid of the auth mount whose login made it; empty for others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) mount: String,
    /// What is kept of that login for its renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) login: Option<KeptLogin>,
    /// Proof of that login, or of the `entity_alias` that the token was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proof: Option<Proof>,
    /// Key of the ancestor whose proof counts for this token; empty if the token has its own proof,
    /// or none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) prover: String,
}

/// What is kept of a login for the renewal of its token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptLogin {
    pub(crate) alias: String,
    /// As the auth method gave them, in canonical form and in order.
    pub(crate) policies: Vec<String>,
    /// JSON text that only the auth method reads. It may hold secrets.
    pub(crate) internal: String,
}

impl fmt::Debug for KeptLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptLogin").field("policies", &self.policies).finish_non_exhaustive()
    }
}

stored!(TokenRecord, "token", reads_stored_tokens);

/// After its last use a token that was not revoked is ended so late, in milliseconds: the deadline
/// of an ordinary request and a minute. Work that takes longer keeps its token ([`finish`]).
const LAST_REQUEST: u64 = 150_000;

impl TokenRecord {
    /// Whole seconds left at `now_ms`, never more than there are; `None` never ends.
    pub(crate) fn left(&self, now_ms: u64) -> Option<u64> {
        self.expires.map(|expires| expires.saturating_mul(1000).saturating_sub(now_ms) / 1000)
    }

    /// Does it hold the root policy?
    pub(crate) fn is_root(&self) -> bool {
        self.policies.iter().any(|policy| policy == ROOT)
    }

    /// Is it neither ended nor past its end at `now_ms`? A token without uses is alive until its
    /// last request ended.
    pub(crate) fn is_alive(&self, now_ms: u64) -> bool {
        self.ended.is_none()
            && self.expires.is_none_or(|expires| expires.saturating_mul(1000) > now_ms)
    }

    /// May a request begin with it at `now_ms`?
    pub(crate) fn holds(&self, now_ms: u64) -> bool {
        self.is_alive(now_ms) && self.used_up.is_none()
    }

    /// When due work ends it, in milliseconds of store time.
    pub(super) fn due(&self) -> Option<u64> {
        let expires = self.expires.map(|expires| expires.saturating_mul(1000));
        let used_up = self.used_up.map(|used_up| used_up.saturating_add(LAST_REQUEST));
        expires.into_iter().chain(used_up).min()
    }

    /// Its row under `key`, due at `due`.
    pub(super) fn row(
        &self,
        key: &str,
        due: Option<u64>,
    ) -> Result<(Address, Vec<u8>, Index), Failure> {
        let of_mount = || if self.mount.is_empty() { String::new() } else { owner(&self.mount) };
        let owner = self.parent.clone().unwrap_or_else(of_mount);
        Ok((address(key), self.to_bytes()?, Index { due, lane: String::new(), owner }))
    }
}

/// By what the tokens of logins at the auth mount with that uuid are found. No token has such a
/// key.
pub(super) fn owner(mount: &str) -> String {
    format!("mount/{mount}")
}

/// What happens to the children of a token that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ending {
    /// They end with it.
    WithChildren,
    /// They live on as orphans. Batch tokens cannot: what would say so is kept by their holders.
    Alone,
}

/// The row of a token.
pub(crate) fn address(key: &str) -> Address {
    Address::new(Space::Token, key)
}

/// The stored token, also when it has ended.
pub(crate) async fn read(unit: &mut Unit, key: &str) -> Result<Option<Arc<TokenRecord>>, Failure> {
    let Some(record) = unit.get(&address(key)).await? else { return Ok(None) };
    let parsed = record.body.parsed(TokenRecord::from_bytes);
    parsed.map(Some).map_err(|unreadable| unreadable.of("the record of a token"))
}

/// Writes the row of a token that has not ended into the unit.
pub(super) fn put(unit: &mut Unit, key: &str, record: &TokenRecord) -> Result<(), Failure> {
    put_due(unit, key, record, record.due())
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

/// Commits a change of tokens that the host makes by itself; `false` when another change got in
/// between, and the change is to be made again from its first read. A change that is tried until it
/// is committed comes to an end: of those who are in each other's way, one is always committed.
pub(super) async fn try_commit(unit: Unit) -> Result<bool, Failure> {
    match unit.commit().await {
        Ok(_) => Ok(true),
        Err(StoreFault::Conflict) => Ok(false),
        Err(fault) => Err(fault.into()),
    }
}
