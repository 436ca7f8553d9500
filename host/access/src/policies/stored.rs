//! Stored policies, and the cache of parsed policies.
//!
//! This file prevents two attacks: using a cached policy after an operator tightened the policy (a
//! parsed policy enters the cache only if no policy was written since the read), and serving the
//! rules of a caller to another caller (a templated combination is looked up by the values that
//! were filled in).

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

#[cfg(test)]
mod tests {

    use super::super::identity::TemplateEntity;
    use super::*;
    use crate::testing::TemporaryStore;

    const TEMPLATED: &str = r#"path "home/{{identity.entity.name}}" { capabilities = ["read"] }"#;

    fn called(id: &str, name: &str) -> TemplateIdentity {
        let entity = TemplateEntity {
            id: id.to_owned(),
            name: name.to_owned(),
            ..TemplateEntity::default()
        };
        TemplateIdentity { entity: Some(entity), groups: Vec::new() }
    }

    /// Returns a cache that holds the policy `p` for these callers.
    fn filled_cache(text: &str, callers: &[&TemplateIdentity]) -> (PolicyCache, Vec<String>) {
        let policy = Policy::parse("p", text).unwrap();
        let references: BTreeSet<TemplateReference> = policy.references().cloned().collect();
        let (mut cache, names) = (PolicyCache::default(), vec!["p".to_owned()]);
        for identity in callers {
            let (acl, _) = Acl::of_caller([&policy], identity);
            cache.keep_acl(&names, references.iter().cloned().collect(), identity, &Arc::new(acl));
        }
        (cache, names)
    }

    #[test]
    fn templated_acl_is_never_served_to_another_caller() {
        let (ann, bob) = (called("1", "ann"), called("2", "bob"));
        let (cache, names) = filled_cache(TEMPLATED, &[&ann, &bob]);
        for (identity, path, other) in
            [(&ann, "home/ann", "home/bob"), (&bob, "home/bob", "home/ann")]
        {
            let acl = cache.acl(&names, identity).unwrap();
            assert_eq!(
                (acl.capabilities(path), acl.capabilities(other)),
                (vec!["read".into()], vec!["deny".into()])
            );
        }
        for other in [called("1", "carol"), called("3", ""), TemplateIdentity::default()] {
            assert!(
                cache.acl(&names, &other).is_none(),
                "the cache misses for another identity: {other:?}"
            );
        }
    }

    #[test]
    fn acl_without_templates_is_shared_between_callers() {
        let (cache, names) = filled_cache(
            r#"path "x" { capabilities = ["read"] }"#,
            &[&TemplateIdentity::default()],
        );
        assert!(cache.acl(&names, &called("1", "ann")).is_some());
        assert!(cache.acl(&["p".to_owned(), "q".to_owned()], &called("1", "ann")).is_none());
    }

    #[test]
    fn policy_cache_is_reset_before_exceeding_rule_limit() {
        let (mut cache, names) = filled_cache(TEMPLATED, &[]);
        for number in 0..MOST_RULES + 10 {
            let identity = called("1", &format!("caller-{number}"));
            cache.keep_acl(&names, Vec::new(), &identity, &Arc::new(Acl::new([])));
            let absent = format!("absent-{number}");
            cache.keep_parsed(&absent, None);
            assert!(cache.rules <= MOST_RULES && cache.parsed.len() <= MOST_RULES);
            assert!(cache.parsed.contains_key(&absent));
        }
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    async fn write(store: &Arc<Store>, name: &str, text: &str) {
        let mut unit = store.begin();
        put(&mut unit, name, text).unwrap();
        unit.commit().await.unwrap();
    }

    #[tokio::test]
    async fn stored_policies_are_written_named_and_deleted() {
        let scratch = TemporaryStore::new("stored-policies").await;
        let store = &scratch.store;
        assert_eq!(names(&mut store.begin()).await.unwrap(), [DEFAULT, ROOT]);
        write(store, "b", r#"path "x" { capabilities = ["read"] }"#).await;
        write(store, DEFAULT, "# edited").await;
        assert_eq!(names(&mut store.begin()).await.unwrap(), ["b", DEFAULT, ROOT]);
        let refused = put(&mut store.begin(), "c", "path {}").unwrap_err();
        assert_eq!(refused.kind.status(), 400);
        let text = async |name: &str| read_policy_text(&mut store.begin(), name).await.unwrap();
        assert_eq!(text("b").await.unwrap(), r#"path "x" { capabilities = ["read"] }"#);
        assert_eq!(text(DEFAULT).await.as_deref(), Some("# edited"));
        assert_eq!(text(RESPONSE_WRAPPING).await.as_deref(), Some(RESPONSE_WRAPPING_POLICY));
        let mut unit = store.begin();
        delete(&mut unit, "b");
        delete(&mut unit, DEFAULT);
        unit.commit().await.unwrap();
        assert_eq!(text("b").await, None);
        assert_eq!(text(DEFAULT).await.as_deref(), Some(DEFAULT_POLICY));
        scratch.end().await;
    }

    #[tokio::test]
    async fn acl_follows_written_policies_once_forgotten() {
        let scratch = TemporaryStore::new("cached-policies").await;
        let (store, policies) = (&scratch.store, Policies::default());
        let acl = async |names: &[&str]| policies.acl(store, &strings(names)).await.unwrap();
        assert_eq!(acl(&["p", "absent"]).await.capabilities("x"), ["deny"]);
        assert_eq!(acl(&["p", ROOT]).await.capabilities("x"), ["root"]);
        write(store, "p", r#"path "x" { capabilities = ["read"] }"#).await;
        policies.forget_parsed();
        assert_eq!(acl(&["p", "absent"]).await.capabilities("x"), ["read"]);
        assert!(Arc::ptr_eq(&acl(&["p"]).await, &acl(&["p"]).await), "the cache serves it");
        write(store, "p", r#"path "x" { capabilities = ["update"] }"#).await;
        policies.forget_parsed();
        assert_eq!(acl(&["p"]).await.capabilities("x"), ["update"]);
        scratch.end().await;
    }

    #[tokio::test]
    async fn policies_read_before_a_write_are_not_cached() {
        let scratch = TemporaryStore::new("raced-policies").await;
        let (store, policies) = (&scratch.store, Policies::default());
        let (names, nobody) = (strings(&["p"]), TemplateIdentity::default());
        let before = policies.lock().writes;
        policies.forget_parsed();
        policies.acl_of_stored(store, &names, &nobody, before).await.unwrap();
        assert!(policies.lock().acl(&names, &nobody).is_none());
        let now = policies.lock().writes;
        assert_eq!(now, before + 1);
        policies.acl_of_stored(store, &names, &nobody, now).await.unwrap();
        assert!(policies.lock().acl(&names, &nobody).is_some());
        assert!(policies.lock().parsed.contains_key("p"));
        scratch.end().await;
    }

    #[tokio::test]
    async fn skipped_rules_are_reported_once_per_value() {
        let scratch = TemporaryStore::new("skipped-policies").await;
        let (store, policies) = (&scratch.store, Policies::default());
        write(store, "p", TEMPLATED).await;
        let names = strings(&["p"]);
        let skipped = async |name: &str| {
            let caller = called("1", name);
            let (acl, skipped) = policies.acl_for(store, &names, &caller).await.unwrap();
            (acl.capabilities("home/ann"), skipped.len())
        };
        assert_eq!(skipped("ann").await, (strings(&["read"]), 0));
        assert_eq!(skipped("a/b").await, (strings(&["deny"]), 1));
        assert_eq!(skipped("a/b").await, (strings(&["deny"]), 0));
        scratch.end().await;
    }
}
