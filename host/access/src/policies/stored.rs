//! Stored policies, and the cache of parsed policies.
//!
//! This file prevents two attacks: using a cached policy after an operator tightened the policy (a
//! parsed policy enters the cache only if no policy was written since the read), and serving the
//! rules of a caller to another caller (a templated combination is looked up by the values that
//! were filled in).

#[cfg(test)]
mod tests;

use super::acl::{Acl, SkippedRule};
use super::identity::TemplateIdentity;
use super::parse::Policy;
use super::reference::TemplateReference;
use super::{DEFAULT, DEFAULT_POLICY, RESPONSE_WRAPPING, RESPONSE_WRAPPING_POLICY, ROOT};
use bulkhead_store::{Address, ForeignChangeCount, IndexColumns, Space, Store, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::sync;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

const PREFIX: &str = "policy/";

/// Maximum number of cached rules, of single policies and of combinations together; the cache is
/// cleared before it grows beyond. A rule takes a few hundred bytes.
const MOST_RULES: usize = 100_000;

#[derive(Default)]
struct PolicyCache {
    /// Number of policy writes since the start.
    writes: u64,
    /// Count of the changes by other nodes of which the cache knows.
    foreign: u64,
    parsed: BTreeMap<String, Option<Arc<Policy>>>,
    /// Combinations by the policy names of a token, in the token's order.
    combinations: BTreeMap<Vec<String>, PolicyCombination>,
    /// Number of rules in all entries; an entry without rules counts as 1.
    rules: usize,
}

/// A combination of policies that some tokens have.
struct PolicyCombination {
    /// The caller attributes that the policies use, without repetitions. Usually few or none.
    references: Vec<TemplateReference>,
    /// Access lists by the caller's values for `references`. Callers with the same values share an
    /// entry, and a caller whose name changed does not find the old entry.
    acls: BTreeMap<Vec<Option<String>>, Arc<Acl>>,
}

/// The policies of the service.
pub struct Policies {
    root: Arc<Acl>,
    cache: Mutex<PolicyCache>,
    foreign: OnceLock<ForeignChangeCount>,
}

impl Default for Policies {
    fn default() -> Self {
        Self { root: Arc::new(Acl::root()), cache: Mutex::default(), foreign: OnceLock::new() }
    }
}

impl PolicyCache {
    fn acl(&self, names: &[String], identity: &TemplateIdentity) -> Option<Arc<Acl>> {
        let combination = self.combinations.get(names)?;
        combination.acls.get(&values(&combination.references, identity)).map(Arc::clone)
    }

    fn keep_parsed(&mut self, name: &str, parsed: Option<Arc<Policy>>) {
        self.make_room(parsed.as_ref().map_or(0, |policy| policy.rules.len()));
        self.parsed.insert(name.to_owned(), parsed);
    }

    fn keep_acl(
        &mut self,
        names: &[String],
        references: Vec<TemplateReference>,
        identity: &TemplateIdentity,
        acl: &Arc<Acl>,
    ) {
        self.make_room(acl.len());
        let values = values(&references, identity);
        let new = || PolicyCombination { references, acls: BTreeMap::new() };
        self.combinations
            .entry(names.to_vec())
            .or_insert_with(new)
            .acls
            .insert(values, Arc::clone(acl));
    }

    fn make_room(&mut self, rules: usize) {
        let rules = rules.max(1);
        if self.rules + rules > MOST_RULES {
            self.clear();
        }
        self.rules += rules;
    }

    /// Clears the cache after a write. Policies that were read before are not cached.
    fn forget(&mut self) {
        self.writes += 1;
        self.clear();
    }

    fn clear(&mut self) {
        self.parsed.clear();
        self.combinations.clear();
        self.rules = 0;
    }
}

/// Returns the caller's values for the references.
fn values(references: &[TemplateReference], identity: &TemplateIdentity) -> Vec<Option<String>> {
    references.iter().map(|reference| identity.value(reference).map(str::to_owned)).collect()
}

impl Policies {
    /// Returns the access list of a token with these policies and without an entity. A policy that
    /// does not exist grants nothing.
    pub async fn acl(&self, store: &Arc<Store>, names: &[String]) -> Result<Arc<Acl>, Failure> {
        // Without an entity there is no value that could be unfit for a path.
        let (acl, _) = self.acl_for(store, names, &TemplateIdentity::default()).await?;
        Ok(acl)
    }

    /// Returns the access list of a token with these policies for `identity`, and the rules that
    /// were skipped because of a value of the identity. A cached answer reports no skipped rules,
    /// so that each skipped rule is logged once.
    pub async fn acl_for(
        &self,
        store: &Arc<Store>,
        names: &[String],
        identity: &TemplateIdentity,
    ) -> Result<(Arc<Acl>, Vec<SkippedRule>), Failure> {
        if names.iter().any(|name| name == ROOT) {
            return Ok((Arc::clone(&self.root), Vec::new()));
        }
        let writes = {
            let cache = self.current_cache(store);
            if let Some(acl) = cache.acl(names, identity) {
                return Ok((acl, Vec::new()));
            }
            cache.writes
        };
        Box::pin(self.acl_of_stored(store, names, identity, writes)).await
    }

    /// Builds the access list from stored policies. The list is cached unless a policy was written
    /// since the write counter had the value `writes`.
    async fn acl_of_stored(
        &self,
        store: &Arc<Store>,
        names: &[String],
        identity: &TemplateIdentity,
        writes: u64,
    ) -> Result<(Arc<Acl>, Vec<SkippedRule>), Failure> {
        let mut policies = Vec::with_capacity(names.len());
        for name in names {
            policies.extend(self.policy(store, name).await?);
        }
        let (acl, skipped) = Acl::of_caller(policies.iter().map(Arc::as_ref), identity);
        let acl = Arc::new(acl);
        let references: BTreeSet<TemplateReference> =
            policies.iter().flat_map(|policy| policy.references()).cloned().collect();
        let mut cache = self.lock();
        if cache.writes == writes {
            cache.keep_acl(names, references.into_iter().collect(), identity, &acl);
        }
        Ok((acl, skipped))
    }

    async fn policy(&self, store: &Arc<Store>, name: &str) -> Result<Option<Arc<Policy>>, Failure> {
        let writes = {
            let cache = self.current_cache(store);
            if let Some(parsed) = cache.parsed.get(name) {
                return Ok(parsed.clone());
            }
            cache.writes
        };
        let text = read_policy_text(&mut store.begin(), name).await?;
        let parsed = text.map(|text| Policy::parse(name, &text).map(Arc::new)).transpose();
        let parsed = parsed
            .map_err(|_| Failure::internal(format!("the stored policy {name:?} does not parse")))?;
        let mut cache = self.lock();
        if cache.writes == writes {
            cache.keep_parsed(name, parsed.clone());
        }
        Ok(parsed)
    }

    /// Clears the cache after a policy was written or deleted.
    pub fn forget_parsed(&self) {
        self.lock().forget();
    }

    /// Locks the cache, which is cleared first if another node changed a policy.
    fn current_cache(&self, store: &Store) -> MutexGuard<'_, PolicyCache> {
        let foreign = self.foreign.get_or_init(|| store.follow(PREFIX)).get();
        let mut cache = self.lock();
        if cache.foreign < foreign {
            cache.foreign = foreign;
            cache.forget();
        }
        cache
    }

    fn lock(&self) -> MutexGuard<'_, PolicyCache> {
        sync::lock(&self.cache)
    }
}

/// Returns the text of a policy. `default` has the built-in text until an operator writes the
/// policy; `response-wrapping` always has the built-in text.
pub async fn read_policy_text(unit: &mut Unit, name: &str) -> Result<Option<String>, Failure> {
    if name == RESPONSE_WRAPPING {
        return Ok(Some(RESPONSE_WRAPPING_POLICY.to_owned()));
    }
    let Some(record) = unit.get(&address(name)).await? else {
        return Ok((name == DEFAULT).then(|| DEFAULT_POLICY.to_owned()));
    };
    let text = String::from_utf8(record.body.to_vec());
    text.map(Some).map_err(|_| Failure::internal(format!("the stored policy {name:?} is not text")))
}

/// Writes a policy into the unit of work.
///
/// # Errors
/// 400 with line and reason if the text does not parse; nothing is written then.
pub fn put(unit: &mut Unit, name: &str, text: &str) -> Result<(), Failure> {
    Policy::parse(name, text)?;
    unit.put(address(name), text.as_bytes().to_vec(), IndexColumns::default());
    Ok(())
}

/// Deletes a policy; succeeds also if the policy does not exist.
pub fn delete(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// Returns the sorted names of all policies that a token can be given, including `root` and
/// `default`.
pub async fn names(unit: &mut Unit) -> Result<Vec<String>, Failure> {
    let mut names = unit.names(Space::Core, PREFIX, "", usize::MAX).await?;
    names.extend([DEFAULT, ROOT].map(str::to_owned));
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}
