//! Tokens: who calls, with which policies, until when.
//!
//! A token is its own lease: one row, stored under a keyed hash of the token, so that the store holds
//! nothing that opens a door. Its children and leases name it as their owner.

use crate::mounts::Lifetimes;
use crate::random;
use bulkhead_store::{Address, Index, Space, Store, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;
use bulkhead_wire::ttl::{self, Bounds};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Scanners find leaked tokens by it (decision P16).
const PREFIX: &str = "bhs.";
/// Letters and digits after the prefix: 190 bits.
const LENGTH: usize = 32;
/// Of the keyed hashes under which tokens are stored.
pub(crate) const PURPOSE: &str = "token";
/// Letters and digits of an accessor.
pub(crate) const ACCESSOR: usize = 24;
/// A longer text is no token of ours, and is not hashed to find out.
const LONGEST: usize = 8 << 10;

/// A token as it is stored. Times are in whole seconds of store time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TokenRecord {
    pub(crate) accessor: String,
    pub(crate) policies: Vec<String>,
    pub(crate) display_name: String,
    /// Hash of the parent; `None` for an orphan.
    pub(crate) parent: Option<String>,
    /// The path that made it.
    pub(crate) path: String,
    pub(crate) meta: BTreeMap<String, String>,
    pub(crate) issued: u64,
    /// Lifetime at issue; 0 never ends.
    pub(crate) creation_ttl: u64,
    /// `None` never ends.
    pub(crate) expires: Option<u64>,
    /// 0: the system's maximum.
    pub(crate) explicit_max_ttl: u64,
    pub(crate) renewable: bool,
    pub(crate) last_renewal: Option<u64>,
    /// Revoked or expired: refused at once, while its leases and children are being ended.
    pub(crate) ended: bool,
}

/// A token that was presented and holds.
#[derive(Clone)]
pub(crate) struct Caller {
    /// Keyed hash of the token: the key of its row, and the owner of what it makes.
    pub(crate) hash: String,
    pub(crate) record: TokenRecord,
}

/// What a new token is to be.
pub(crate) struct NewToken {
    pub(crate) policies: Vec<String>,
    pub(crate) display_name: String,
    pub(crate) meta: BTreeMap<String, String>,
    pub(crate) path: String,
    /// Seconds; 0 leaves it to the system, or, for root, to never end.
    pub(crate) ttl: u64,
    pub(crate) explicit_max_ttl: u64,
    pub(crate) renewable: bool,
}

impl TokenRecord {
    /// Seconds left at `now`; `None` never ends.
    pub(crate) fn left(&self, now: u64) -> Option<u64> {
        self.expires.map(|expires| expires.saturating_sub(now))
    }

    /// Does it hold the root policy?
    pub(crate) fn is_root(&self) -> bool {
        self.policies.iter().any(|policy| policy == crate::policies::ROOT)
    }

    /// The body of its row.
    pub(crate) fn stored(&self) -> Result<Vec<u8>, Failure> {
        serde_json::to_vec(self).map_err(|error| Failure::internal(error.to_string()))
    }

    /// Its row, stored under `hash`, with the body that [`TokenRecord::stored`] made.
    pub(crate) fn row(&self, hash: &str, body: Vec<u8>) -> (Address, Vec<u8>, Index) {
        (address(hash), body, self.index())
    }

    fn index(&self) -> Index {
        let due = if self.ended { Some(0) } else { self.expires.map(|expires| expires.saturating_mul(1000)) };
        Index { due, lane: String::new(), owner: self.parent.clone().unwrap_or_default() }
    }
}

/// The key under which `token` is stored.
pub(crate) fn hash(store: &Store, token: &Secret) -> String {
    store.keyed_hash(PURPOSE, token.expose().as_bytes())
}

/// The row of a token.
pub(crate) fn address(hash: &str) -> Address {
    Address::new(Space::Token, hash)
}

/// Finds out who calls. A request that writes asks again in its commit: see [`still`].
///
/// # Errors
/// 403 without a token, and for one that is unknown, expired or revoked; which of them is not told.
pub(crate) async fn authenticate(store: &Arc<Store>, token: Option<&Secret>) -> Result<Caller, Failure> {
    let Some(token) = token.filter(|token| !token.expose().is_empty()) else {
        return Err(Failure::denied("this path needs a token; send it in the header X-Vault-Token"));
    };
    if token.expose().len() > LONGEST {
        return Err(unknown());
    }
    let hash = hash(store, token);
    match read(&mut store.begin(), &hash).await? {
        Some(record) if holds(&record, store.now()) => Ok(Caller { hash, record }),
        _ => Err(unknown()),
    }
}

/// The caller as the unit sees it, so that its commit asserts that the token still holds.
///
/// # Errors
/// 403 when it ended after the request came.
pub(crate) async fn still(store: &Store, unit: &mut Unit, caller: &Caller) -> Result<Caller, Failure> {
    match read(unit, &caller.hash).await? {
        Some(record) if holds(&record, store.now()) => Ok(Caller { hash: caller.hash.clone(), record }),
        _ => Err(Failure::denied("the token was revoked while the request ran")),
    }
}

/// The stored token, also when it has ended.
pub(crate) async fn read(unit: &mut Unit, hash: &str) -> Result<Option<TokenRecord>, Failure> {
    let Some(record) = unit.get(&address(hash)).await? else { return Ok(None) };
    let parsed = serde_json::from_slice(&record.body);
    parsed.map(Some).map_err(|_| Failure::internal("the record of a token does not parse"))
}

/// Is it neither ended nor past its end at `now_ms`?
pub(crate) fn holds(record: &TokenRecord, now_ms: u64) -> bool {
    !record.ended && record.expires.is_none_or(|expires| expires.saturating_mul(1000) > now_ms)
}

fn unknown() -> Failure {
    Failure::denied("the token is unknown, expired or revoked")
}

/// Writes the row of `record` into the unit.
pub(crate) fn put(unit: &mut Unit, hash: &str, record: &TokenRecord) -> Result<(), Failure> {
    let (address, body, index) = record.row(hash, record.stored()?);
    unit.put(address, body, index);
    Ok(())
}

/// Makes a child of `parent`. Returns the token, its record and a warning where its lifetime was cut.
///
/// # Errors
/// 400 when it asks for more than its parent has.
pub(crate) fn create(
    store: &Store,
    unit: &mut Unit,
    parent: &Caller,
    new: NewToken,
    system: Lifetimes,
) -> Result<(Secret, TokenRecord, Option<String>), Failure> {
    let now = store.now() / 1000;
    let eternal = new.ttl == 0 && new.explicit_max_ttl == 0 && new.policies == [crate::policies::ROOT];
    if eternal && parent.record.expires.is_some() {
        return Err(Failure::invalid("a root token that expires cannot make one that does not; give a ttl"));
    }
    let (lifetime, warning) = if eternal { (0, None) } else { lifetime(&new, system, now)? };
    let token = random()?;
    let record = TokenRecord {
        accessor: random::base62(ACCESSOR)?,
        policies: new.policies,
        display_name: new.display_name,
        parent: Some(parent.hash.clone()),
        path: new.path,
        meta: new.meta,
        issued: now,
        creation_ttl: lifetime,
        expires: (!eternal).then(|| now.saturating_add(lifetime)),
        explicit_max_ttl: new.explicit_max_ttl,
        renewable: new.renewable && !eternal,
        last_renewal: None,
        ended: false,
    };
    put(unit, &hash(store, &token), &record)?;
    Ok((token, record, warning))
}

fn lifetime(new: &NewToken, system: Lifetimes, now: u64) -> Result<(u64, Option<String>), Failure> {
    let granted = ttl::grant(&bounds(new.explicit_max_ttl, system), new.ttl, now, now)?;
    Ok((granted.ttl, granted.warning))
}

fn bounds(explicit_max_ttl: u64, system: Lifetimes) -> Bounds {
    Bounds { role_ttl: 0, role_max: explicit_max_ttl, mount_default: system.default, mount_max: system.max }
}

/// Prolongs a token by `increment` seconds from now, or by the system's default for 0.
///
/// # Errors
/// 400 when it is not renewable or past its maximum.
pub(crate) fn renew(
    store: &Store,
    unit: &mut Unit,
    caller: &Caller,
    increment: u64,
    system: Lifetimes,
) -> Result<(TokenRecord, Option<String>), Failure> {
    if !caller.record.renewable {
        return Err(Failure::invalid("lease is not renewable: this token was made not to be renewed, or never ends"));
    }
    let now = store.now() / 1000;
    let wanted = if increment == 0 { caller.record.creation_ttl } else { increment };
    let granted = ttl::grant(&bounds(caller.record.explicit_max_ttl, system), wanted, caller.record.issued, now)?;
    let mut record = caller.record.clone();
    record.expires = Some(now.saturating_add(granted.ttl));
    record.last_renewal = Some(now);
    put(unit, &caller.hash, &record)?;
    Ok((record, granted.warning))
}

/// Refuses the token from this commit on; due work then ends its leases and children.
pub(crate) fn end(unit: &mut Unit, hash: &str, mut record: TokenRecord) -> Result<(), Failure> {
    record.ended = true;
    put(unit, hash, &record)
}

/// A new token's text.
pub(crate) fn random() -> Result<Secret, Failure> {
    Ok(Secret::new(format!("{PREFIX}{}", random::base62(LENGTH)?)))
}

/// A root token that never ends, made at `now` (milliseconds).
pub(crate) fn root(accessor: String, now: u64) -> TokenRecord {
    TokenRecord {
        accessor,
        policies: vec![crate::policies::ROOT.to_owned()],
        display_name: "root".to_owned(),
        parent: None,
        path: "auth/token/root".to_owned(),
        meta: BTreeMap::new(),
        issued: now / 1000,
        creation_ttl: 0,
        expires: None,
        explicit_max_ttl: 0,
        renewable: false,
        last_renewal: None,
        ended: false,
    }
}

/// A root token, for dev mode: `chosen`, or a new one. Stored, so that restarts know it.
pub(crate) async fn ensure_root(store: &Arc<Store>, token: &Secret) -> Result<(), Failure> {
    let mut unit = store.begin();
    let hash = hash(store, token);
    match read(&mut unit, &hash).await? {
        Some(record) if record.ended => {
            return Err(Failure::invalid("this root token was revoked before; start with another one"));
        }
        Some(_) => return Ok(()),
        None => {}
    }
    let record = root(random::base62(ACCESSOR)?, store.now());
    put(&mut unit, &hash, &record)?;
    unit.commit().await?;
    Ok(())
}
