//! Policies: the list contains everything except the rules, which are fetched if the hash differs.

use crate::authority::unfit;
use crate::names::is_name;
use crate::policy::{JobAcl, Policy};
use crate::replication_round::ReplicationRound;
use crate::replication_round::converge::{RemoteRecord, RoundProgress, TableDifferences};
use crate::replication_round::listing::ListingIndex;
use bulkhead_sdk::Failure;
use serde::Deserialize;
use std::collections::BTreeSet;

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

/// Makes the local policies equal to the list.
///
/// # Errors
/// Unreachable for failures of the authoritative region, and failures of the store.
pub(super) fn converge(
    round: &ReplicationRound<'_>,
) -> Result<(RoundProgress, ListingIndex), Failure> {
    let listing = round.list(read)?;
    let storage = round.host.storage();
    let ahead = round.forwarded(&listing.index)?;
    let mut differences = TableDifferences::new(&ahead);
    let mut same = BTreeSet::new();
    storage.scan::<Policy>("policy/", |name, entry| {
        differences.local += 1;
        match listing.records.get(name) {
            None if !ahead.contains(name) => differences.gone.push(name.to_owned()),
            Some(listed) if listed.is(&entry.value) => drop(same.insert(name.to_owned())),
            _ => {}
        }
        Ok(())
    })?;
    let differs = |name: &&String| !ahead.contains(name.as_str()) && !same.contains(name.as_str());
    differences.wanted = listing.records.keys().filter(differs).cloned().collect();
    let obtain = |name: &str| {
        let Some(answer) = round.fetch_record(name)? else { return Ok(None) };
        let record = Policy::read(name, &answer.body).map_err(|_| {
            unfit(format!("the authoritative region's policy {name} is not a policy"))
        })?;
        Ok(Some(RemoteRecord { record, bytes: answer.body.len() }))
    };
    let progress = round.apply(&differences, &listing.index, obtain, |name, policy| {
        match policy {
            // A policy without a hash is fetched in each pass, and written only if it differs.
            Some(policy) if storage.get::<Policy>(&Policy::key(name))?.as_ref() == Some(policy) => {
                Ok(())
            }
            Some(policy) => storage.put(&Policy::key(name), policy),
            None => storage.delete(&Policy::key(name)),
        }
    })?;
    Ok((progress, listing.index))
}

fn read(body: &[u8]) -> Result<Vec<(String, ListedPolicy)>, Failure> {
    let listed: Vec<ListedPolicy> = serde_json::from_slice(body).map_err(|_| {
        unfit("the authoritative region's list is not a list of policies".to_owned())
    })?;
    let check = |listed: ListedPolicy| match is_name(&listed.name) {
        true => Ok((listed.name.clone(), listed)),
        false => {
            Err(unfit(format!("the authoritative region lists a bad policy: {:?}", listed.name)))
        }
    };
    listed.into_iter().map(check).collect()
}
