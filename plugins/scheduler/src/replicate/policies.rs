//! Policies: the list contains everything except the rules, which are fetched if the hash differs.

use super::diff::{RecordChange, by_id, changes, missing};
use super::{FetchTotals, RegionListing, ReplicationRound};
use crate::authority::unfit;
use crate::names::is_name;
use crate::policy::{JobAcl, Policy};
use bulkhead_sdk::Failure;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedPolicy {
    name: String,
    #[serde(default)]
    description: String,
    /// Null for a record of an old region; the policy is then always fetched.
    #[serde(default)]
    hash: Option<String>,
    #[serde(default, rename = "JobACL")]
    job_acl: Option<JobAcl>,
}

impl ListedPolicy {
    /// Returns true if the local policy equals the listed policy. Name, description and workloads
    /// are compared separately, so that the hash has to cover only the rules.
    fn is(&self, local: &Policy) -> bool {
        self.description == local.description
            && self.job_acl == local.job_acl
            && self.hash.as_ref().is_some_and(|hash| *hash == local.hash(&self.name))
    }
}

/// Makes the local policies equal to the list. Returns the number of changes.
pub(super) fn converge(
    round: &ReplicationRound<'_>,
    listing: &RegionListing,
) -> Result<usize, Failure> {
    let remote = read(&listing.body)?;
    let storage = round.host.storage();
    let mut local = BTreeMap::new();
    storage.scan::<Policy>("policy/", |name, entry| {
        local.insert(name.to_owned(), entry.value);
        Ok(())
    })?;
    let ahead = round.ahead(listing)?;
    let gone = missing(&local, &remote, &ahead);
    round.permit_deletions(gone.len(), local.len(), listing)?;
    let differs = |name: &String, listed: &ListedPolicy| {
        !ahead.contains(name) && !local.get(name).is_some_and(|local| listed.is(local))
    };
    let wanted: Vec<&String> = remote
        .iter()
        .filter(|(name, listed)| differs(name, listed))
        .map(|(name, _)| name)
        .collect();
    let (mut changed, mut fetched) = (Vec::new(), FetchTotals::default());
    for name in &wanted {
        if !round.may_fetch(&fetched) {
            break;
        }
        let Some(answer) = round.fetch(&format!("policy/{name}"))? else {
            fetched.add(0);
            continue;
        };
        fetched.add(answer.body.len());
        let policy = Policy::read(name, &answer.body).map_err(|_| {
            unfit(format!("the authoritative region's policy {name} is not a policy"))
        })?;
        if local.get(*name) != Some(&policy) {
            changed.push(((*name).clone(), policy));
        }
    }
    let is_complete = fetched.records() == wanted.len();
    let changes = changes(gone, changed);
    let count = changes.len();
    round.apply(changes, size, |batch| {
        batch.iter().try_for_each(|RecordChange { id, record }| match record {
            Some(policy) => storage.put(&Policy::key(id), policy),
            None => storage.delete(&Policy::key(id)),
        })
    })?;
    round.finish(listing, is_complete)?;
    Ok(count)
}

fn size(change: &RecordChange<Policy>) -> usize {
    1_024 + change.record.as_ref().map_or(0, |policy| policy.rules.len())
}

fn read(body: &[u8]) -> Result<BTreeMap<String, ListedPolicy>, Failure> {
    let listed: Vec<ListedPolicy> = serde_json::from_slice(body).map_err(|_| {
        unfit("the authoritative region's list is not a list of policies".to_owned())
    })?;
    by_id(listed.into_iter().map(|listed| match is_name(&listed.name) {
        true => Ok((listed.name.clone(), listed)),
        false => {
            Err(unfit(format!("the authoritative region lists a bad policy: {:?}", listed.name)))
        }
    }))
}
