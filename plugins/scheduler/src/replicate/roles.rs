//! Roles: the list contains each role completely.
//!
//! Prevents two roles that exchange their names from blocking each other: roles are matched by
//! identifier, and each batch frees all old names before it takes a new name.

use super::diff::{RecordChange, by_id, changes, missing};
use super::{RegionListing, ReplicationRound};
use crate::authority::unfit;
use crate::names::is_uuid;
use crate::replica::or_default;
use crate::role::Role;
use bulkhead_sdk::Failure;
use bulkhead_sdk::host::Storage;
use serde::Deserialize;
use std::collections::BTreeMap;

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

type RolesById = BTreeMap<String, Role>;

/// Makes the local roles equal to the list. Returns the number of changes.
pub(super) fn converge(
    round: &ReplicationRound<'_>,
    listing: &RegionListing,
) -> Result<usize, Failure> {
    let remote = read(&listing.body)?;
    let storage = round.host.storage();
    let mut local = RolesById::new();
    storage.scan::<Role>("role/", |id, entry| {
        local.insert(id.to_owned(), entry.value);
        Ok(())
    })?;
    let ahead = round.ahead(listing)?;
    let gone = missing(&local, &remote, &ahead);
    round.permit_deletions(gone.len(), local.len(), listing)?;
    let differs = |id: &String, role: &Role| !ahead.contains(id) && local.get(id) != Some(role);
    let put = remote.into_iter().filter(|(id, role)| differs(id, role)).collect();
    let changes = changes(gone, put);
    let count = changes.len();
    round.apply(changes, size, |batch| apply(storage, batch, &local))?;
    round.finish(listing, true)?;
    Ok(count)
}

fn size(change: &RecordChange<Role>) -> usize {
    let policies = change.record.iter().flat_map(|role| &role.policies);
    1_024 + policies.map(|name| name.len() + 3).sum::<usize>()
}

fn apply(
    storage: &dyn Storage,
    batch: &[RecordChange<Role>],
    local: &RolesById,
) -> Result<(), Failure> {
    for RecordChange { id, record } in batch {
        let keeps = |before: &Role| record.as_ref().is_some_and(|role| role.name == before.name);
        if local.get(id).is_some_and(|before| !keeps(before)) {
            free_name(storage, id, local)?;
        }
    }
    for RecordChange { id, record } in batch {
        match record {
            Some(role) => {
                storage.put(&Role::key(id), role)?;
                storage.put_plain(&Role::name_key(&role.name), id.as_str())?;
            }
            None => storage.delete(&Role::key(id))?,
        }
    }
    Ok(())
}

/// Frees the local name of the role `id`, unless another role has taken the name meanwhile.
fn free_name(storage: &dyn Storage, id: &str, local: &RolesById) -> Result<(), Failure> {
    let Some(role) = local.get(id) else { return Ok(()) };
    let key = Role::name_key(&role.name);
    let holder: Option<String> = storage.get_plain(&key)?;
    if holder.is_some_and(|holder| holder == id) { storage.delete(&key) } else { Ok(()) }
}

fn read(body: &[u8]) -> Result<RolesById, Failure> {
    let listed: Vec<ListedRole> = serde_json::from_slice(body)
        .map_err(|_| unfit("the authoritative region's list is not a list of roles".to_owned()))?;
    by_id(listed.into_iter().map(|listed| {
        let policies = listed.policies.into_iter().map(|link| link.name).collect();
        let role = Role { name: listed.name, description: listed.description, policies };
        if is_uuid(&listed.id) && role.check().is_ok() {
            return Ok((listed.id, role));
        }
        Err(unfit(format!("the authoritative region lists a bad role: {:?}", role.name)))
    }))
}
