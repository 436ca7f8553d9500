//! Roles: the list contains each role completely.
//!
//! This file prevents two roles that exchange their names from blocking each other: roles are
//! matched by identifier, and a role frees its former name only while no other role has taken the
//! name.

use crate::authority::unfit;
use crate::names::is_uuid;
use crate::replica::or_default;
use crate::replication_round::ReplicationRound;
use crate::replication_round::converge::{RemoteRecord, RoundProgress, TableDifferences};
use crate::replication_round::listing::ListingIndex;
use crate::role::Role;
use bulkhead_sdk::Failure;
use bulkhead_sdk::host::Storage;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedRole {
    #[serde(rename = "ID")]
    id: String,
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default, deserialize_with = "or_default")]
    policies: Vec<PolicyLink>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PolicyLink {
    name: String,
}

/// Makes the local roles equal to the list.
///
/// # Errors
/// Unreachable for failures of the authoritative region, and failures of the store.
pub(super) fn converge(
    round: &ReplicationRound<'_>,
) -> Result<(RoundProgress, ListingIndex), Failure> {
    let mut listing = round.list(read)?;
    let storage = round.host.storage();
    let ahead = round.forwarded(&listing.index)?;
    let mut differences = TableDifferences::new(&ahead);
    storage.scan::<Role>("role/", |id, entry| {
        differences.local += 1;
        match listing.records.get(id) {
            None if !ahead.contains(id) => differences.gone.push(id.to_owned()),
            Some(listed) if *listed == entry.value => drop(listing.records.remove(id)),
            _ => {}
        }
        Ok(())
    })?;
    listing.records.retain(|id, _| !ahead.contains(id));
    differences.wanted = listing.records.keys().cloned().collect();
    let mut records = listing.records;
    let obtain = |id: &str| {
        Ok(records.remove(id).map(|record| RemoteRecord { bytes: size_of(&record), record }))
    };
    let progress =
        round.apply(&differences, &listing.index, obtain, |id, role| apply(storage, id, role))?;
    Ok((progress, listing.index))
}

fn size_of(role: &Role) -> usize {
    // A character takes up to six bytes in JSON.
    6 * role.description.len() + role.policies.iter().map(|name| name.len() + 3).sum::<usize>()
}

fn apply(storage: &dyn Storage, id: &str, role: Option<&Role>) -> Result<(), Failure> {
    let before = storage.get::<Role>(&Role::key(id))?;
    let left = before.filter(|before| role.is_none_or(|role| role.name != before.name));
    if let Some(left) = left {
        free_name(storage, id, &left.name)?;
    }
    let Some(role) = role else { return storage.delete(&Role::key(id)) };
    storage.put(&Role::key(id), role)?;
    storage.put_plain(&Role::name_key(&role.name), id)
}

/// Frees a former name of the role `id`, unless another role has taken the name meanwhile.
fn free_name(storage: &dyn Storage, id: &str, name: &str) -> Result<(), Failure> {
    let key = Role::name_key(name);
    let holder: Option<String> = storage.get_plain(&key)?;
    if holder.is_some_and(|holder| holder == id) { storage.delete(&key) } else { Ok(()) }
}

fn read(body: &[u8]) -> Result<Vec<(String, Role)>, Failure> {
    let listed: Vec<ListedRole> = serde_json::from_slice(body)
        .map_err(|_| unfit("the authoritative region's list is not a list of roles".to_owned()))?;
    let check = |listed: ListedRole| {
        let policies = listed.policies.into_iter().map(|link| link.name).collect();
        let role = Role { name: listed.name, description: listed.description, policies };
        if is_uuid(&listed.id) && role.check().is_ok() {
            return Ok((listed.id, role));
        }
        Err(unfit(format!("the authoritative region lists a bad role: {:?}", role.name)))
    };
    listed.into_iter().map(check).collect()
}
