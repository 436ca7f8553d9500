//! Tests of the cache of parsed policies.

use super::super::identity::TemplateEntity;
use super::*;
use crate::testing::TemporaryStore;

const TEMPLATED: &str = r#"path "home/{{identity.entity.name}}" { capabilities = ["read"] }"#;

fn called(id: &str, name: &str) -> TemplateIdentity {
    let entity =
        TemplateEntity { id: id.to_owned(), name: name.to_owned(), ..TemplateEntity::default() };
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
    for (identity, path, other) in [(&ann, "home/ann", "home/bob"), (&bob, "home/bob", "home/ann")]
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
    let (cache, names) =
        filled_cache(r#"path "x" { capabilities = ["read"] }"#, &[&TemplateIdentity::default()]);
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
