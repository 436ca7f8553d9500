//! Tests of `sign_in.rs` with a store: the effect of logins on entities and external groups.

use super::*;
use crate::identity::group::{self, Group, GroupKind};
use crate::identity::{membership, read_entity_context};
use crate::testing::TemporaryStore;

const NOW: u64 = 1_767_225_600_000;

impl TemporaryStore {
    /// Signs in. Returns the entity, and whether anything was written.
    async fn sign_in(&self, proven: &ProvenAlias) -> (String, bool) {
        let (signed_in, wrote) = self.signed_in(proven).await;
        (signed_in.entity_id, wrote)
    }

    async fn signed_in(&self, proven: &ProvenAlias) -> (SignedInEntity, bool) {
        let mut unit = self.store.begin();
        let signed_in = sign_in(&mut unit, NOW, proven).await.unwrap().unwrap();
        let wrote = unit.wrote();
        unit.commit().await.unwrap();
        (signed_in, wrote)
    }

    /// Creates an external group with this alias at the mount.
    async fn group(&self, accessor: &str, alias: &str, policy: &str) -> String {
        let id = random::uuid().unwrap();
        let name = format!("{accessor}-{alias}");
        let mut group = Group::new(id.clone(), name, GroupKind::External, NOW);
        group.policies.push(policy.to_owned());
        group.alias = Some(Alias::new(random::uuid().unwrap(), mount(accessor), alias, NOW));
        let mut unit = self.store.begin();
        group::put(&mut unit, None, &group).unwrap();
        unit.commit().await.unwrap();
        id
    }

    /// Returns the policies of a token of the login.
    async fn policies(&self, login: &SignedInEntity) -> Vec<String> {
        let mut unit = self.store.begin();
        let context = read_entity_context(&mut unit, &login.entity_id, Some(&login.proof)).await;
        context.unwrap().policies()
    }
}

fn mount(accessor: &str) -> AliasMount {
    let (path, kind) = (format!("auth/{accessor}/"), "cloud".to_owned());
    AliasMount { accessor: accessor.to_owned(), path, kind }
}

fn proven(accessor: &str, alias: &str, groups: Option<&[&str]>) -> ProvenAlias {
    ProvenAlias {
        mount: mount(accessor),
        alias: alias.to_owned(),
        metadata: BTreeMap::new(),
        group_aliases: groups.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
    }
}

#[tokio::test]
async fn login_writes_changed_values_only() {
    let scratch = TemporaryStore::new("writes").await;
    let mut eve = proven("one", "eve", None);
    let (first, wrote) = scratch.sign_in(&eve).await;
    assert!(wrote);
    assert_eq!(
        scratch.sign_in(&eve).await,
        (first.clone(), false),
        "a login without news writes nothing"
    );
    eve.metadata.insert("project".to_owned(), "p".to_owned());
    assert_eq!(scratch.sign_in(&eve).await, (first.clone(), true), "metadata changed");
    assert_eq!(scratch.sign_in(&eve).await, (first.clone(), false));
    let (other, _) = scratch.sign_in(&proven("two", "eve", None)).await;
    assert_ne!(first, other, "the same name at another mount is another entity");
    scratch.end().await;
}

#[tokio::test]
async fn login_adds_and_removes_external_group_memberships() {
    let scratch = TemporaryStore::new("groups").await;
    let project = scratch.group("one", "project-1", "a").await;
    scratch.group("one", "folder-1", "b").await;
    scratch.group("two", "project-1", "c").await;
    let names = Some(["project-1", "folder-1", "none"].as_slice());
    let (first, _) = scratch.signed_in(&proven("one", "eve", names)).await;
    assert_eq!(scratch.policies(&first).await, ["a", "b"]);
    let again = proven("one", "eve", Some(&["project-1", "folder-1"]));
    assert_eq!(scratch.signed_in(&again).await, (first.clone(), false), "nothing is new");
    let members = || membership::list_members(&scratch.store, &project);
    let eve = std::slice::from_ref(&first.entity_id);
    let (silent, wrote) = scratch.signed_in(&proven("one", "eve", None)).await;
    assert!(
        !wrote && members().await.unwrap().0 == eve,
        "a login without groups changes no member"
    );
    assert_eq!(
        scratch.policies(&silent).await,
        Vec::<String>::new(),
        "a login without groups has no policies of groups"
    );
    let (last, _) = scratch.signed_in(&proven("one", "eve", Some(&["folder-1"]))).await;
    assert_eq!(scratch.policies(&last).await, ["b"]);
    assert_eq!(members().await.unwrap(), (Vec::new(), false));
    assert_eq!(
        scratch.policies(&first).await,
        ["a", "b"],
        "the policies of the groups of this login"
    );
    scratch.end().await;
}

#[tokio::test]
async fn login_leaves_internal_group_membership_unchanged() {
    let scratch = TemporaryStore::new("others").await;
    let internal = Group::new(random::uuid().unwrap(), "crew".to_owned(), GroupKind::Internal, NOW);
    let internal = Group { policies: vec!["crew".to_owned()], ..internal };
    let (eve, _) = scratch.sign_in(&proven("one", "eve", None)).await;
    let mut unit = scratch.store.begin();
    group::put(&mut unit, None, &internal).unwrap();
    membership::set_members(&mut unit, &internal.id, &BTreeSet::from([eve.clone()])).await.unwrap();
    unit.commit().await.unwrap();
    let (login, _) = scratch.signed_in(&proven("one", "eve", Some(&[]))).await;
    assert_eq!(scratch.policies(&login).await, ["crew"]);
    scratch.end().await;
}

#[tokio::test]
async fn external_group_without_alias_loses_policies_and_members() {
    let scratch = TemporaryStore::new("alias-gone").await;
    let project = scratch.group("one", "project-1", "a").await;
    let (eve, _) = scratch.signed_in(&proven("one", "eve", Some(&["project-1"]))).await;
    assert_eq!(scratch.policies(&eve).await, ["a"]);
    crate::identity::forget_mount(&scratch.store, "one").await.unwrap();
    assert_eq!(scratch.policies(&eve).await, Vec::<String>::new());
    let leaving = membership::groups_with_removals(&scratch.store).await.unwrap();
    assert_eq!(leaving, std::slice::from_ref(&project));
    membership::all_leave(&scratch.store, &project).await.unwrap();
    assert_eq!(
        membership::groups_with_removals(&scratch.store).await.unwrap(),
        Vec::<String>::new()
    );
    assert_eq!(membership::list_members(&scratch.store, &project).await.unwrap().0.len(), 0);
    let (anew, _) = scratch.sign_in(&proven("one", "eve", None)).await;
    assert_ne!(anew, eve.entity_id, "the alias went with the mount");
    scratch.end().await;
}

#[tokio::test]
async fn renamed_group_drops_members_without_new_name_proof() {
    let scratch = TemporaryStore::new("renamed").await;
    let project = scratch.group("one", "project-1", "a").await;
    scratch.sign_in(&proven("one", "eve", Some(&["project-1"]))).await;
    let mut unit = scratch.store.begin();
    let before = group::read(&mut unit, &project).await.unwrap().unwrap();
    let alias = before.alias.clone().map(|alias| Alias { name: "project-2".to_owned(), ..alias });
    group::put(&mut unit, Some(&before), &Group { alias, ..Group::clone(&before) }).unwrap();
    membership::let_all_leave(&mut unit, &project).unwrap();
    unit.commit().await.unwrap();
    let (amy, _) = scratch.sign_in(&proven("one", "amy", Some(&["project-2"]))).await;
    membership::all_leave(&scratch.store, &project).await.unwrap();
    let (members, _) = membership::list_members(&scratch.store, &project).await.unwrap();
    assert_eq!(members, [amy]);
    scratch.end().await;
}

#[tokio::test]
async fn earlier_release_external_membership_is_ignored_and_removed() {
    let scratch = TemporaryStore::new("earlier").await;
    let project = scratch.group("one", "project-1", "a").await;
    let (eve, _) = scratch.signed_in(&proven("one", "eve", Some(&[]))).await;
    let mut unit = scratch.store.begin();
    let before = entity::read(&mut unit, &eve.entity_id).await.unwrap().unwrap();
    let groups = BTreeSet::from([project.clone()]);
    entity::put(&mut unit, Some(&before), &Entity { groups, ..Entity::clone(&before) }).unwrap();
    unit.commit().await.unwrap();
    assert_eq!(scratch.policies(&eve).await, Vec::<String>::new());
    scratch.sign_in(&proven("one", "eve", Some(&[]))).await;
    assert_eq!(membership::list_members(&scratch.store, &project).await.unwrap().0.len(), 0);
    scratch.end().await;
}

#[tokio::test]
async fn login_with_invalid_alias_or_metadata_is_refused() {
    let scratch = TemporaryStore::new("refused").await;
    let many: Vec<String> = (0..513).map(|number| number.to_string()).collect();
    let with = |change: fn(&mut ProvenAlias)| {
        let mut wrong = proven("one", "eve", None);
        change(&mut wrong);
        wrong
    };
    let wrong = [
        proven("one", "", None),
        proven("one", "a\nb", None),
        proven("one", &"x".repeat(513), None),
        ProvenAlias { group_aliases: Some(many), ..proven("one", "eve", None) },
        with(|one| drop(one.metadata.insert("k".to_owned(), "x".repeat(1_025)))),
        with(|one| drop(one.metadata.insert(String::new(), "x".to_owned()))),
    ];
    for wrong in wrong {
        let mut unit = scratch.store.begin();
        assert!(sign_in(&mut unit, NOW, &wrong).await.is_err(), "{}", wrong.alias.len());
        assert!(!unit.wrote());
    }
    scratch.end().await;
}
