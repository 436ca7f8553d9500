//! Global tokens: the list contains no secrets, so each new or changed token is fetched.
//!
//! Prevents local tokens from being mistaken for global tokens: a token of this region alone is
//! neither compared nor deleted.

use super::diff::{RecordChange, by_id, changes, missing};
use super::{FetchTotals, RegionListing, ReplicationRound};
use crate::authority::unfit;
use crate::names::is_uuid;
use crate::replica::{RemoteToken, put_token};
use crate::token::Token;
use bulkhead_sdk::Failure;
use bulkhead_sdk::host::Storage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
struct ListedToken {
    #[serde(rename = "AccessorID")]
    accessor_id: String,
    #[serde(default)]
    hash: Option<String>,
    create_time: String,
    #[serde(default)]
    global: bool,
}

impl ReplicaToken {
    fn key(accessor: &str) -> String {
        format!("replica-token/{accessor}")
    }
}

/// Makes the local global tokens equal to the list. Returns the number of changes.
pub(super) fn converge(
    round: &ReplicationRound<'_>,
    listing: &RegionListing,
) -> Result<usize, Failure> {
    let remote = read(&listing.body)?;
    let storage = round.host.storage();
    let local = local_tokens(storage)?;
    let ahead = round.ahead(listing)?;
    let gone = missing(&local, &remote, &ahead);
    round.permit_deletions(gone.len(), local.len(), listing)?;
    let told = told_of(storage)?;
    let wanted: Vec<&String> = remote
        .iter()
        .filter(|(accessor, listed)| {
            let is_known = local.contains_key(*accessor) && told.get(*accessor) == Some(*listed);
            !is_known && !ahead.contains(*accessor)
        })
        .map(|(accessor, _)| accessor)
        .collect();
    let (mut changed, mut fetched) = (Vec::new(), FetchTotals::default());
    for accessor in &wanted {
        if !round.may_fetch(&fetched) {
            break;
        }
        let Some(answer) = round.fetch(&format!("token/{accessor}"))? else {
            fetched.add(0);
            continue;
        };
        fetched.add(answer.body.len());
        let token = RemoteToken::read(&answer.body)?;
        if token.accessor != **accessor || !token.token.global {
            return Err(unfit(format!("the authoritative region's token {accessor} is another")));
        }
        changed.push(((*accessor).clone(), token));
    }
    let is_complete = fetched.records() == wanted.len();
    let changes = changes(gone, changed);
    let count = changes.len();
    round.apply(
        changes,
        |_| 2_048,
        |batch| batch.iter().try_for_each(|change| apply(round, change, &local, &remote)),
    )?;
    round.finish(listing, is_complete)?;
    Ok(count)
}

type ReplicaTokens = BTreeMap<String, ReplicaToken>;

fn apply(
    round: &ReplicationRound<'_>,
    RecordChange { id, record }: &RecordChange<RemoteToken>,
    local: &BTreeMap<String, Token>,
    remote: &ReplicaTokens,
) -> Result<(), Failure> {
    let (storage, before) = (round.host.storage(), local.get(id));
    match (record, before) {
        (Some(token), before) if before != Some(&token.token) => {
            put_token(round.host, token, before)?;
        }
        (None, Some(before)) => crate::token_records::remove(round.host, id, before)?,
        _ => {}
    }
    match remote.get(id) {
        Some(listed) => storage.put(&ReplicaToken::key(id), listed),
        None => storage.delete(&ReplicaToken::key(id)),
    }
}

fn local_tokens(storage: &dyn Storage) -> Result<BTreeMap<String, Token>, Failure> {
    let mut local = BTreeMap::new();
    storage.scan::<Token>("token/", |accessor, entry| {
        if entry.value.global {
            local.insert(accessor.to_owned(), entry.value);
        }
        Ok(())
    })?;
    Ok(local)
}

fn told_of(storage: &dyn Storage) -> Result<ReplicaTokens, Failure> {
    let mut told = BTreeMap::new();
    storage.scan::<ReplicaToken>("replica-token/", |accessor, entry| {
        told.insert(accessor.to_owned(), entry.value);
        Ok(())
    })?;
    Ok(told)
}

fn read(body: &[u8]) -> Result<ReplicaTokens, Failure> {
    let listed: Vec<ListedToken> = serde_json::from_slice(body)
        .map_err(|_| unfit("the authoritative region's list is not a list of tokens".to_owned()))?;
    // A region that does not know the parameter `global` lists its local tokens, too.
    by_id(listed.into_iter().filter(|listed| listed.global).map(|listed| {
        if !is_uuid(&listed.accessor_id) {
            return Err(unfit("the authoritative region lists a bad accessor".to_owned()));
        }
        let told = ReplicaToken { hash: listed.hash, created: listed.create_time };
        Ok((listed.accessor_id, told))
    }))
}
