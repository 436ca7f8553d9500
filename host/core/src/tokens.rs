//! Tokens: who calls, with which policies, until when.
//!
//! A service token is its own lease: one row, found by the token and by its accessor ([`keys`]).
//! Its children and leases name that row as their owner, so that they end with it ([`end`]). A
//! batch token has no row at all: it is a sealed record that its holder keeps ([`batch`]).
//!
//! The attack these files stop: a token that goes on working. Whoever calls is looked up once, at
//! the beginning ([`authenticate`]); whatever is then stored asserts in its commit that the token
//! still holds ([`assert_valid`]).

mod authenticate;
mod batch;
pub(crate) mod cidr;
mod create;
mod end;
pub(crate) mod keys;
mod lifetime;
pub(crate) mod roles;
pub(crate) mod selection;
pub(crate) mod tidy;
mod uses;

pub(crate) use authenticate::{assert_valid, authenticate, leave};
pub(crate) use create::{NewToken, create, ensure_root, first_root};
pub(crate) use end::{Ending, begin_end, end_made_below, finish, spread};
pub(crate) use lifetime::{bounds, renew};

use crate::tokens::cidr::Cidr;
use bulkhead_store::{Address, Index, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use uses::{Use, Uses};

/// How a token is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenType {
    /// By a row of its own.
    Service,
    /// By whoever holds it.
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
    /// Empty as long as there are no entities.
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
}

stored!(TokenRecord, "token", reads_stored_tokens);

/// After its last use a token that nobody ended is ended so late, in milliseconds: the deadline of
/// an ordinary request and a minute. Work that takes longer keeps its token ([`finish`]).
const LAST_REQUEST: u64 = 150_000;

impl TokenRecord {
    /// Seconds left at `now`; `None` never ends.
    pub(crate) fn left(&self, now: u64) -> Option<u64> {
        self.expires.map(|expires| expires.saturating_sub(now))
    }

    /// Does it hold the root policy?
    pub(crate) fn is_root(&self) -> bool {
        self.policies.iter().any(|policy| policy == crate::policies::ROOT)
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
    fn due(&self) -> Option<u64> {
        let expires = self.expires.map(|expires| expires.saturating_mul(1000));
        let used_up = self.used_up.map(|used_up| used_up.saturating_add(LAST_REQUEST));
        expires.into_iter().chain(used_up).min()
    }

    /// Its row under `key`, due at `due`.
    fn row(&self, key: &str, due: Option<u64>) -> Result<(Address, Vec<u8>, Index), Failure> {
        let owner = self.parent.clone().unwrap_or_default();
        Ok((address(key), self.to_bytes()?, Index { due, lane: String::new(), owner }))
    }
}

/// A token that was presented and holds.
#[derive(Clone)]
pub(crate) struct Caller {
    /// Keyed hash that stands for the token wherever it must be told from others. Of a service
    /// token it is the key of its row, too.
    pub(crate) hash: String,
    pub(crate) record: Arc<TokenRecord>,
    pub(crate) kind: TokenType,
    /// The use that the request took; `None` for tokens whose uses are not counted.
    counted: Option<Arc<Use>>,
    /// No other request can begin after this one.
    has_last_use: bool,
}

impl Caller {
    /// A service token, whose row is under `key`.
    pub(crate) fn service(key: String, record: Arc<TokenRecord>) -> Self {
        Self { hash: key, record, kind: TokenType::Service, counted: None, has_last_use: false }
    }

    fn batch(store: &Store, token: &Secret, record: TokenRecord) -> Self {
        let hash = keys::of_batch(store.hashes(), token);
        Self {
            hash,
            record: Arc::new(record),
            kind: TokenType::Batch,
            counted: None,
            has_last_use: false,
        }
    }

    /// Key of the token row that owns the leases of this caller: its own, or its parent's where it
    /// has none. Empty for a batch token without a parent, whose leases stand alone.
    pub(crate) fn owner(&self) -> &str {
        match self.kind {
            TokenType::Service => &self.hash,
            TokenType::Batch => self.record.parent.as_deref().unwrap_or_default(),
        }
    }

    /// When leases of this caller end at the latest although their owner lives on, in milliseconds:
    /// with the batch token that asked for them.
    pub(crate) fn longest_lease(&self) -> Option<u64> {
        match self.kind {
            TokenType::Service => None,
            TokenType::Batch => self.record.expires.map(|expires| expires.saturating_mul(1000)),
        }
    }

    /// Refuses a secret that would end with the very request that asks for it (`spec/core.md`
    /// §2.6).
    ///
    /// # Errors
    /// 400 when the request has the token's last use.
    pub(crate) fn may_hold_leases(&self) -> Result<(), Failure> {
        if self.has_last_use {
            return Err(Failure::invalid(
                "no secret was made, because the token had one use left and the secret would have ended with it; \
                 use a token with more uses",
            ));
        }
        Ok(())
    }
}

/// What the process knows of tokens besides what is stored.
#[derive(Default)]
pub(crate) struct Ongoing {
    uses: Arc<Uses>,
}

/// The row of a token.
pub(crate) fn address(key: &str) -> Address {
    Address::new(Space::Token, key)
}

/// The stored token, also when it has ended.
pub(crate) async fn read(unit: &mut Unit, key: &str) -> Result<Option<Arc<TokenRecord>>, Failure> {
    let Some(record) = unit.get(&address(key)).await? else { return Ok(None) };
    let parsed = record.body.parsed(|body| TokenRecord::from_bytes(body));
    parsed.map(Some).map_err(|unreadable| unreadable.of("the record of a token"))
}

/// Writes the row of a token that has not ended into the unit.
fn put(unit: &mut Unit, key: &str, record: &TokenRecord) -> Result<(), Failure> {
    put_due(unit, key, record, record.due())
}

fn put_due(
    unit: &mut Unit,
    key: &str,
    record: &TokenRecord,
    due: Option<u64>,
) -> Result<(), Failure> {
    let (address, body, index) = record.row(key, due)?;
    unit.put(address, body, index);
    Ok(())
}

/// What is known of a token, also when it has ended, as long as it is not cleared away.
pub(crate) async fn find(
    store: &Store,
    unit: &mut Unit,
    token: &Secret,
) -> Result<Option<Caller>, Failure> {
    if !keys::may_be_token(token) {
        return Ok(None);
    }
    if let Some(record) = batch::open(store, token) {
        return Ok(Some(Caller::batch(store, token, record)));
    }
    let key = keys::of_token(store.hashes(), token);
    Ok(read(unit, &key).await?.map(|record| Caller::service(key, record)))
}

/// The token as the unit sees it, if a request might begin with it: `None` for everything else,
/// whatever it is.
pub(crate) async fn by_token(
    store: &Store,
    unit: &mut Unit,
    token: &Secret,
) -> Result<Option<Caller>, Failure> {
    let Some(caller) = find(store, unit, token).await? else { return Ok(None) };
    let holds = match caller.kind {
        TokenType::Service => caller.record.holds(store.now()),
        TokenType::Batch => batch::holds(store, unit, &caller.record).await?,
    };
    Ok(holds.then_some(caller))
}

/// What is known of the token with that accessor, also when it has ended. Batch tokens have none.
pub(crate) async fn find_by_accessor(
    store: &Store,
    unit: &mut Unit,
    accessor: &str,
) -> Result<Option<Caller>, Failure> {
    if !keys::may_be_accessor(accessor) {
        return Ok(None);
    }
    let key = keys::of_accessor(store.hashes(), accessor);
    Ok(read(unit, &key).await?.map(|record| Caller::service(key, record)))
}

/// The token with that accessor as the unit sees it, if a request might begin with it.
pub(crate) async fn by_accessor(
    store: &Store,
    unit: &mut Unit,
    accessor: &str,
) -> Result<Option<Caller>, Failure> {
    let found = find_by_accessor(store, unit, accessor).await?;
    Ok(found.filter(|caller| caller.record.holds(store.now())))
}

/// Commits a change of tokens that the host makes by itself; `false` when somebody else got in
/// between, and the change is to be made again from its first read. Whoever tries until it is
/// committed comes to an end: of those who are in each other's way, one is always committed.
async fn try_commit(unit: Unit) -> Result<bool, Failure> {
    match unit.commit().await {
        Ok(_) => Ok(true),
        Err(StoreFault::Conflict) => Ok(false),
        Err(fault) => Err(fault.into()),
    }
}
