//! Tests of the recorder of clients.

use super::*;
use crate::testing::TemporaryStore;
use bulkhead_wire::stored::Stored;

/// 2026-11-29, in milliseconds.
const NOVEMBER: u64 = 1_795_914_000_000;

fn token(entity: &str, policies: &[&str], mount: &str) -> TokenRecord {
    let written = include_str!("../../../fixtures/records/token.jsonl");
    let record = TokenRecord::from_bytes(written.lines().next().unwrap().as_bytes()).unwrap();
    TokenRecord {
        entity_id: entity.to_owned(),
        policies: policies.iter().map(|name| (*name).to_owned()).collect(),
        mount: mount.to_owned(),
        ..record
    }
}

fn counts(mounts: &BTreeMap<String, MountClients>) -> Vec<(&str, u64, u64)> {
    mounts
        .iter()
        .map(|(mount, clients)| (mount.as_str(), clients.entities.count(), clients.tokens.count()))
        .collect()
}

#[tokio::test]
async fn clients_are_counted_once_by_mount_and_month() {
    let bed = TemporaryStore::new("activity-counts").await;
    let activity = ClientActivity::default();
    for _ in 0..3 {
        activity.note(&token("ada", &["default"], "m1"), NOVEMBER);
        activity.note(&token("bob", &["default"], "m1"), NOVEMBER);
        activity.note(&token("ada", &["default"], "m2"), NOVEMBER);
        activity.note(&token("", &["default", "orders"], ""), NOVEMBER);
        activity.note(&token("", &["default"], ""), NOVEMBER);
        activity.note(&token("", &["root"], ""), NOVEMBER);
        activity.note(&token("", &["response-wrapping"], ""), NOVEMBER);
    }
    let month = ActivityMonth::of_seconds(NOVEMBER / 1_000);
    activity.note(&token("ada", &["default"], "m1"), (month.end() + 1) * 1_000);
    let november = activity.read(&bed.store, month).await.unwrap();
    assert_eq!(counts(&november), [("m1", 2, 0), ("m2", 1, 0), ("token", 0, 2)]);
    let december = activity.read(&bed.store, month.plus(1)).await.unwrap();
    assert_eq!(counts(&december), [("m1", 1, 0)]);
    bed.end().await;
}

#[tokio::test]
async fn clients_survive_a_restart_without_idle_writes() {
    let bed = TemporaryStore::new("activity-restart").await;
    let now = bed.store.now();
    let month = ActivityMonth::of_seconds(now / 1_000);
    let before = ClientActivity::default();
    before.note(&token("ada", &[], "m1"), now);
    before.store(&bed.store).await.unwrap();
    let commits = bed.store.commits();
    before.note(&token("ada", &[], "m1"), now);
    before.store(&bed.store).await.unwrap();
    let after = ClientActivity::default();
    after.note(&token("ada", &[], "m1"), now);
    after.store(&bed.store).await.unwrap();
    assert_eq!(bed.store.commits(), commits, "no client is new");
    after.note(&token("bob", &[], "m1"), now);
    after.store(&bed.store).await.unwrap();
    assert_eq!(bed.store.commits(), commits + 1);
    let read = ClientActivity::default().read(&bed.store, month).await.unwrap();
    assert_eq!(counts(&read), [("m1", 2, 0)]);
    assert_eq!(after.months(&bed.store).await.unwrap(), BTreeSet::from([month]));
    bed.end().await;
}

#[tokio::test]
async fn old_months_are_removed_and_settings_followed() {
    let bed = TemporaryStore::new("activity-settings").await;
    let present = ActivityMonth::of_seconds(bed.store.now() / 1_000);
    let activity = ClientActivity::default();
    for age in [3, 1, 0] {
        let month = present.minus(age);
        activity.note(&token("ada", &[], "m1"), month.begin() * 1_000);
    }
    activity.store(&bed.store).await.unwrap();
    assert_eq!(activity.months(&bed.store).await.unwrap().len(), 3);
    let mut unit = bed.store.begin();
    ActivitySettings { enabled: Some(false), retention_months: 1 }.put(&mut unit).unwrap();
    unit.commit().await.unwrap();
    activity.store(&bed.store).await.unwrap();
    let left = activity.months(&bed.store).await.unwrap();
    assert_eq!(left, BTreeSet::from([present.minus(1), present]));
    activity.note(&token("bob", &[], "m1"), bed.store.now());
    let read = activity.read(&bed.store, present).await.unwrap();
    assert_eq!(counts(&read), [("m1", 1, 0)]);
    bed.end().await;
}

#[tokio::test]
async fn further_mounts_share_a_record() {
    let bed = TemporaryStore::new("activity-mounts").await;
    let now = bed.store.now();
    let month = ActivityMonth::of_seconds(now / 1_000);
    for part in [0..90, 80..130] {
        let activity = ClientActivity::default();
        for number in part {
            activity.note(&token("ada", &[], &format!("m{number:03}")), now);
        }
        activity.store(&bed.store).await.unwrap();
    }
    let read = ClientActivity::default().read(&bed.store, month).await.unwrap();
    assert_eq!(read.len(), MAX_MOUNTS + 1);
    assert_eq!(read[OTHER_MOUNTS].entities.count(), 1);
    bed.end().await;
}
