//! Stored policies, and the parsed ones in memory.
//!
//! The attack this file stops: a policy that was tightened while somebody still read the old one from
//! the cache. A parsed policy enters the cache only when nothing was written since it was read.

use super::acl::Acl;
use super::parse::Policy;
use super::{DEFAULT, DEFAULT_POLICY, ROOT};
use bulkhead_store::{Address, Index, Space, Store, Unit};
use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

const PREFIX: &str = "policy/";

#[derive(Default)]
struct Cache {
    /// Counts writes.
    writes: u64,
    parsed: BTreeMap<String, Option<Arc<Policy>>>,
    /// By the names of a token's policies, in its order.
    acls: BTreeMap<Vec<String>, Arc<Acl>>,
}

/// Combinations of policies that are kept; beyond it the cache starts anew.
const MOST_ACLS: usize = 10_000;

/// The policies of the service.
#[derive(Default)]
pub(crate) struct Policies {
    cache: Mutex<Cache>,
}

impl Policies {
    /// What a token with these policies may do. A policy that does not exist grants nothing.
    pub(crate) async fn acl(&self, store: &Arc<Store>, names: &[String]) -> Result<Arc<Acl>, Failure> {
        let writes = {
            let cache = self.lock();
            if let Some(acl) = cache.acls.get(names) {
                return Ok(Arc::clone(acl));
            }
            cache.writes
        };
        let acl = Arc::new(self.built(store, names).await?);
        let mut cache = self.lock();
        if cache.writes == writes {
            if cache.acls.len() >= MOST_ACLS {
                cache.acls.clear();
            }
            cache.acls.insert(names.to_vec(), Arc::clone(&acl));
        }
        Ok(acl)
    }

    async fn built(&self, store: &Arc<Store>, names: &[String]) -> Result<Acl, Failure> {
        if names.iter().any(|name| name == ROOT) {
            return Ok(Acl::root());
        }
        let mut policies = Vec::with_capacity(names.len());
        for name in names {
            policies.extend(self.parsed(store, name).await?);
        }
        Ok(Acl::new(policies.iter().map(Arc::as_ref)))
    }

    async fn parsed(&self, store: &Arc<Store>, name: &str) -> Result<Option<Arc<Policy>>, Failure> {
        let writes = {
            let cache = self.lock();
            if let Some(parsed) = cache.parsed.get(name) {
                return Ok(parsed.clone());
            }
            cache.writes
        };
        let text = text(&mut store.begin(), name).await?;
        let parsed = text.map(|text| Policy::parse(name, &text).map(Arc::new)).transpose();
        let parsed = parsed.map_err(|_| Failure::internal(format!("the stored policy {name:?} does not parse")))?;
        let mut cache = self.lock();
        if cache.writes == writes {
            cache.parsed.insert(name.to_owned(), parsed.clone());
        }
        Ok(parsed)
    }

    /// Forgets what was parsed, after a policy was written or deleted.
    pub(crate) fn changed(&self) {
        let mut cache = self.lock();
        cache.writes += 1;
        cache.parsed.clear();
        cache.acls.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text of a policy, the built-in one of `default` until somebody writes it.
pub(crate) async fn text(unit: &mut Unit, name: &str) -> Result<Option<String>, Failure> {
    let stored = unit.get(&address(name)).await?;
    let text = stored.map(|record| String::from_utf8_lossy(&record.body).into_owned());
    Ok(text.or_else(|| (name == DEFAULT).then(|| DEFAULT_POLICY.to_owned())))
}

/// Writes a policy into the unit.
///
/// # Errors
/// 400 with line and reason when it does not parse; nothing is written then.
pub(crate) fn put(unit: &mut Unit, name: &str, text: &str) -> Result<(), Failure> {
    Policy::parse(name, text)?;
    unit.put(address(name), text.as_bytes().to_vec(), Index::default());
    Ok(())
}

/// Deletes a policy; success also when there is none.
pub(crate) fn delete(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// Names of all policies, `root` and `default` included, in order.
pub(crate) async fn names(unit: &mut Unit) -> Result<Vec<String>, Failure> {
    let mut names = vec![DEFAULT.to_owned(), ROOT.to_owned()];
    let mut after = String::new();
    loop {
        let keys = unit.keys(Space::Core, PREFIX, &after, 1_000).await?;
        let Some(last) = keys.last() else { break };
        after.clone_from(last);
        names.extend(keys.iter().filter_map(|key| key.strip_prefix(PREFIX)).map(str::to_owned));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}
