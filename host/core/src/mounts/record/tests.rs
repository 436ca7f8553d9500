//! Tests of searches over all mounts, on a separate store.

use super::*;
use crate::testing::TemporaryStore;

/// More mounts than a commit could depend on individually: each mount is a listed key and a record
/// that was read, and a commit checks at most 24,576 of both.
const MANY: usize = 12_400;
/// Mounts in a commit, which writes at most 2,048 records.
const AT_ONCE: usize = 2_000;

fn mount(path: &str, kind: &str) -> MountRecord {
    MountRecord {
        path: MountPath::parse_full(path).unwrap(),
        uuid: format!("uuid of {path}"),
        accessor: format!("accessor of {path}"),
        kind: kind.to_owned(),
        marks: MountMarks::default(),
        settings: MountSettings::default(),
        version: String::new(),
        schema: 1,
        migration: None,
        before_swap: None,
        rollback: None,
        phase: MountPhase::Serving,
        revision: 0,
    }
}

async fn stored(store: &Arc<Store>, mounts: impl IntoIterator<Item = MountRecord>) {
    let mut unit = store.begin();
    mounts.into_iter().for_each(|mut mount| mount.put(&mut unit).unwrap());
    unit.commit().await.unwrap();
}

/// Looks for a mount of `kind`. If there is none, writes a record that depends on the result.
async fn write_without(store: &Arc<Store>, unit: &mut Unit, kind: &str) -> Option<MountPath> {
    let found = stored_of(store, unit, PluginType::Secret, (kind, "")).await.unwrap();
    if found.is_none() {
        unit.put(Address::new(Space::Core, "without"), Vec::new(), IndexColumns::default());
    }
    found
}

#[tokio::test]
async fn mount_enabled_during_check_causes_commit_conflict() {
    let scratch = TemporaryStore::new("enabled-meanwhile").await;
    stored(&scratch.store, [mount("other/", "other")]).await;
    let mut unit = scratch.store.begin();
    assert_eq!(write_without(&scratch.store, &mut unit, "wanted").await, None);
    stored(&scratch.store, [mount("new/", "wanted")]).await;
    assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
    let mut again = scratch.store.begin();
    let found = write_without(&scratch.store, &mut again, "wanted").await.unwrap();
    assert_eq!(found.as_str(), "new/");
    scratch.end().await;
}

#[tokio::test]
async fn concurrent_mount_writes_do_not_conflict() {
    let scratch = TemporaryStore::new("written-at-once").await;
    let (mut one, mut two) = (scratch.store.begin(), scratch.store.begin());
    mount("one/", "other").put(&mut one).unwrap();
    mount("two/", "other").put(&mut two).unwrap();
    one.commit().await.unwrap();
    two.commit().await.unwrap();
    scratch.end().await;
}

#[tokio::test]
async fn commit_depending_on_all_mounts_permits_any_count() {
    let scratch = TemporaryStore::new("many-mounts").await;
    let paths: Vec<String> = (0..MANY).map(|number| format!("team-{number}/")).collect();
    for some in paths.chunks(AT_ONCE) {
        stored(&scratch.store, some.iter().map(|path| mount(path, "other"))).await;
    }
    let mut unit = scratch.store.begin();
    assert_eq!(write_without(&scratch.store, &mut unit, "wanted").await, None);
    unit.commit().await.unwrap();
    scratch.end().await;
}
