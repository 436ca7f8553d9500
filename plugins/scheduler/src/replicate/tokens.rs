//! Global tokens: the list contains no secrets, so each new or changed token is fetched.
//!
//! This file prevents local tokens from being mistaken for global tokens: a token of this region
//! alone is neither compared nor deleted. This file also prevents expired tokens, which a region
//! lists until it removes them, from being fetched and removed in each round.

use crate::authority::unfit;
use crate::names::is_uuid;
use crate::replica::{RemoteToken, put_token, store_time};
use crate::replication_round::ReplicationRound;
use crate::replication_round::converge::{RemoteRecord, RoundProgress, TableDifferences};
use crate::replication_round::listing::{ListingIndex, RegionListing};
use crate::token::Token;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::Storage;
use bulkhead_sdk::{Failure, Host};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Hash and time of creation in the last list. The authoritative region's hash of a token includes
/// links to deleted roles, but the fetched record lacks these links. Without this copy, each round
/// would fetch the token again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ReplicaToken {
    hash: Option<String>,
    created: String,
}

bulkhead_sdk::stored!(ReplicaToken, "replica-token", reads_stored_replica_tokens);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReceivedStub {
    #[serde(rename = "AccessorID")]
    accessor_id: String,
    #[serde(default)]
    hash: Option<String>,
    create_time: String,
    #[serde(default)]
    expiration_time: Option<String>,
    #[serde(default)]
    global: bool,
}

/// A global token in the authoritative region's list.
struct ListedToken {
    told: ReplicaToken,
    expires: Option<StoreTime>,
}

impl ListedToken {
    fn is_expired(&self, now: StoreTime) -> bool {
        self.expires.is_some_and(|expires| expires < now)
    }
}

impl ReplicaToken {
    const FOLDER: &'static str = "replica-token/";

    fn key(accessor: &str) -> String {
        format!("{}{accessor}", Self::FOLDER)
    }
}

/// Makes the local global tokens equal to the list.
///
/// # Errors
/// Unreachable for failures of the authoritative region, and failures of the store.
pub(super) fn converge(
    round: &ReplicationRound<'_>,
) -> Result<(RoundProgress, ListingIndex), Failure> {
    let listing = round.list(read)?;
    let storage = round.host.storage();
    let ahead = round.forwarded(&listing.index)?;
    let comparison = ListComparison::read(storage, &listing)?;
    let mut differences = TableDifferences::new(&ahead);
    // Copies without a token, because this region removes expired tokens itself.
    let (mut local, mut stale) = (BTreeSet::new(), comparison.unlisted);
    storage.scan::<Token>("token/", |accessor, entry| {
        stale.remove(accessor);
        if entry.value.global {
            differences.local += 1;
            local.insert(accessor.to_owned());
            if !listing.records.contains_key(accessor) && !ahead.contains(accessor) {
                differences.gone.push(accessor.to_owned());
            }
        }
        Ok(())
    })?;
    let now = round.host.clock().now();
    let is_wanted = |(accessor, listed): &(&String, &ListedToken)| {
        let is_same =
            local.contains(accessor.as_str()) && comparison.unchanged.contains(accessor.as_str());
        !is_same && !ahead.contains(accessor.as_str()) && !listed.is_expired(now)
    };
    let wanted = listing.records.iter().filter(is_wanted);
    differences.wanted = wanted.map(|(accessor, _)| accessor.clone()).collect();
    differences.spent.extend(stale.iter().map(|accessor| ReplicaToken::key(accessor)));
    let progress = round.apply(
        &differences,
        &listing.index,
        |accessor| obtain(round, accessor),
        |accessor, token| apply(round.host, accessor, token, &listing),
    )?;
    Ok((progress, listing.index))
}

/// Comparison of the copies of listed tokens with the present list.
struct ListComparison {
    /// Accessors of tokens that are listed as before.
    unchanged: BTreeSet<String>,
    /// Accessors of copies that the list lacks.
    unlisted: BTreeSet<String>,
}

impl ListComparison {
    fn read(storage: &dyn Storage, listing: &RegionListing<ListedToken>) -> Result<Self, Failure> {
        let (mut unchanged, mut unlisted) = (BTreeSet::new(), BTreeSet::new());
        storage.scan::<ReplicaToken>(ReplicaToken::FOLDER, |accessor, entry| {
            match listing.records.get(accessor) {
                None => drop(unlisted.insert(accessor.to_owned())),
                Some(listed) if listed.told == entry.value => {
                    unchanged.insert(accessor.to_owned());
                }
                Some(_) => {}
            }
            Ok(())
        })?;
        Ok(Self { unchanged, unlisted })
    }
}

fn obtain(
    round: &ReplicationRound<'_>,
    accessor: &str,
) -> Result<Option<RemoteRecord<RemoteToken>>, Failure> {
    let Some(answer) = round.fetch_record(accessor)? else { return Ok(None) };
    let record = RemoteToken::read(&answer.body)?;
    if record.accessor != accessor || !record.token.global {
        return Err(unfit(format!("the authoritative region's token {accessor} is another")));
    }
    Ok(Some(RemoteRecord { record, bytes: answer.body.len() }))
}

fn apply(
    host: &dyn Host,
    accessor: &str,
    token: Option<&RemoteToken>,
    listing: &RegionListing<ListedToken>,
) -> Result<(), Failure> {
    let storage = host.storage();
    let before = storage.get::<Token>(&Token::key(accessor))?;
    match (token, &before) {
        (Some(token), before) if before.as_ref() != Some(&token.token) => {
            put_token(host, token, before.as_ref())?;
        }
        (None, Some(before)) => crate::token_records::remove(host, accessor, before)?,
        _ => {}
    }
    match listing.records.get(accessor) {
        Some(listed) => storage.put(&ReplicaToken::key(accessor), &listed.told),
        None => storage.delete(&ReplicaToken::key(accessor)),
    }
}

fn read(body: &[u8]) -> Result<Vec<(String, ListedToken)>, Failure> {
    let received: Vec<ReceivedStub> = serde_json::from_slice(body)
        .map_err(|_| unfit("the authoritative region's list is not a list of tokens".to_owned()))?;
    // A region that does not know the parameter `global` lists its local tokens, too.
    let global = received.into_iter().filter(|stub| stub.global);
    let check = |stub: ReceivedStub| {
        if !is_uuid(&stub.accessor_id) {
            return Err(unfit("the authoritative region lists a bad accessor".to_owned()));
        }
        let expires = stub.expiration_time.as_deref().and_then(store_time);
        let token = ReplicaToken { hash: stub.hash, created: stub.create_time };
        Ok((stub.accessor_id, ListedToken { told: token, expires }))
    };
    global.map(check).collect()
}
