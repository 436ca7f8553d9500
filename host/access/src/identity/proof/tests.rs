//! Tests of `proof.rs`: the part of an alias that counts for the token of a login.

use super::*;
use crate::identity::alias::{AliasMount, GroupProof};

fn texts(value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("project".to_owned(), value.to_owned())])
}

fn groups(id: &str) -> ProvenGroups {
    let proof = GroupProof { alias: format!("alias-of-{id}"), name: id.to_owned() };
    ProvenGroups::from([(id.to_owned(), proof)])
}

/// Returns an alias with project p2 from the latest login.
fn alias(accessor: &str, id: &str, name: &str) -> Alias {
    let mount = AliasMount { accessor: accessor.to_owned(), ..AliasMount::default() };
    let alias = Alias::new(id.to_owned(), mount, name, 1);
    Alias { metadata: texts("p2"), groups: groups("p2"), ..alias }
}

/// Returns the counted parts: the project of the metadata, and the ids of groups.
fn seen(alias: &Alias, own: Option<&LoginProof>) -> Option<(String, Vec<String>)> {
    let counted = effective_alias(alias, own)?;
    let groups = counted.groups.into_iter().flatten().map(|(id, _)| id.clone()).collect();
    Some((counted.metadata.get("project").cloned().unwrap_or_default(), groups))
}

fn expected(project: &str, groups: &[&str]) -> Option<(String, Vec<String>)> {
    Some((project.to_owned(), groups.iter().map(|id| (*id).to_owned()).collect()))
}

#[test]
fn token_uses_own_login_proof_and_latest_elsewhere() {
    let shared = alias("one", "a", "role");
    let own = LoginProof::of(&shared, texts("p"), Some(groups("p")));
    assert_eq!(seen(&shared, Some(&own)), expected("p", &["p"]));
    let silent = LoginProof::of(&shared, BTreeMap::new(), None);
    assert_eq!(
        seen(&shared, Some(&silent)),
        expected("", &[]),
        "a login has no groups that others proved"
    );
    assert_eq!(seen(&alias("two", "b", "role"), Some(&own)), expected("p2", &["p2"]));
    assert_eq!(seen(&shared, None), None, "a token of an earlier release");
}

#[test]
fn login_proof_ends_with_alias_or_proven_name() {
    let own = LoginProof::of(&alias("one", "a", "role"), texts("p"), Some(groups("p")));
    for other in [
        alias("one", "a", "renamed"),
        alias("one", "made again", "role"),
        alias("one", "b", "of a merged entity"),
    ] {
        assert_eq!(seen(&other, Some(&own)), None, "{other:?}");
    }
    let moved = alias("two", "a", "role");
    assert_eq!(seen(&moved, Some(&own)), expected("p2", &["p2"]), "proven there by another login");
}

#[test]
fn renewal_without_groups_keeps_groups_of_same_alias() {
    let shared = alias("one", "a", "role");
    let first = LoginProof::of(&shared, texts("p"), Some(groups("p")));
    let again = LoginProof::of(&shared, texts("p"), None).keep_groups_of(Some(&first));
    assert_eq!(seen(&shared, Some(&again)), expected("p", &["p"]));
    let none =
        LoginProof::of(&shared, texts("p"), Some(ProvenGroups::new())).keep_groups_of(Some(&first));
    assert_eq!(seen(&shared, Some(&none)), expected("p", &[]));
    let anew = alias("one", "made anew", "role");
    let other = LoginProof::of(&anew, texts("p"), None).keep_groups_of(Some(&first));
    assert_eq!(
        seen(&anew, Some(&other)),
        expected("p", &[]),
        "groups of another alias are not kept"
    );
}
