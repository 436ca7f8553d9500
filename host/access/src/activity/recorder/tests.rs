//! Tests of the recorder of clients.

use super::*;
use crate::testing::TemporaryStore;
use bulkhead_store::{Address, IndexColumns, Space};
use bulkhead_wire::failure::FailureKind;
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

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Log for Lines {
    fn line(&self, _: LogLevel, event: &str, pairs: &[(&str, String)]) {
        let (_, first) = pairs.first().unwrap();
        sync::lock(&self.0).push(format!("{event} {first}"));
    }
}

/// Returns a recorder that has read the settings of the store.
async fn recorder(bed: &TemporaryStore) -> ClientActivity {
    let log: Arc<dyn Log> = Arc::new(Lines::default());
    let activity = ClientActivity::new(&log);
    activity.begin(&bed.store).await;
    activity
}

async fn write(bed: &TemporaryStore, key: &str, bytes: &[u8]) {
    let mut unit = bed.store.begin();
    unit.put(Address::new(Space::Core, key), bytes.to_vec(), IndexColumns::default());
    unit.commit().await.unwrap();
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
    let activity = recorder(&bed).await;
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
    let before = recorder(&bed).await;
    before.note(&token("ada", &[], "m1"), now);
    before.store(&bed.store).await.unwrap();
    let commits = bed.store.commits();
    before.note(&token("ada", &[], "m1"), now);
    before.store(&bed.store).await.unwrap();
    let after = recorder(&bed).await;
    after.note(&token("ada", &[], "m1"), now);
    after.store(&bed.store).await.unwrap();
    assert_eq!(bed.store.commits(), commits, "no client is new");
    after.note(&token("bob", &[], "m1"), now);
    after.store(&bed.store).await.unwrap();
    assert_eq!(bed.store.commits(), commits + 1);
    let read = recorder(&bed).await.read(&bed.store, month).await.unwrap();
    assert_eq!(counts(&read), [("m1", 2, 0)]);
    assert_eq!(after.months(&bed.store).await.unwrap(), BTreeSet::from([month]));
    bed.end().await;
}

#[tokio::test]
async fn old_months_are_removed_and_settings_followed() {
    let bed = TemporaryStore::new("activity-settings").await;
    let present = ActivityMonth::of_seconds(bed.store.now() / 1_000);
    let activity = recorder(&bed).await;
    for age in [3, 1, 0] {
        let month = present.minus(age);
        activity.note(&token("ada", &[], "m1"), month.begin() * 1_000);
    }
    activity.store(&bed.store).await.unwrap();
    assert_eq!(activity.months(&bed.store).await.unwrap().len(), 3);
    let mut unit = bed.store.begin();
    ActivitySettings { enabled: Some(false), retention_months: 1 }.put(&mut unit).unwrap();
    unit.commit().await.unwrap();
    activity.note(&token("eve", &[], "m1"), bed.store.now());
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
        let activity = recorder(&bed).await;
        for number in part {
            activity.note(&token("ada", &[], &format!("m{number:03}")), now);
        }
        activity.store(&bed.store).await.unwrap();
    }
    let read = recorder(&bed).await.read(&bed.store, month).await.unwrap();
    assert_eq!(read.len(), MAX_MOUNTS + 1);
    assert_eq!(read[OTHER_MOUNTS].entities.count(), 1);
    bed.end().await;
}

#[tokio::test]
async fn unreadable_record_is_logged_once_and_stays() {
    let bed = TemporaryStore::new("activity-unreadable").await;
    let now = bed.store.now();
    let month = ActivityMonth::of_seconds(now / 1_000);
    let key = format!("client-activity/{}/m1", month.word());
    write(&bed, &key, b"not a record").await;
    let lines = Arc::new(Lines::default());
    let log: Arc<dyn Log> = lines.clone();
    let activity = ClientActivity::new(&log);
    activity.begin(&bed.store).await;
    activity.note(&token("bob", &[], "m2"), now);
    activity.store(&bed.store).await.unwrap();
    activity.note(&token("ada", &[], "m1"), now);
    activity.store(&bed.store).await.unwrap();
    let read = activity.read(&bed.store, month).await.unwrap();
    assert_eq!(counts(&read), [("m2", 1, 0), (OTHER_MOUNTS, 1, 0)]);
    assert_eq!(*sync::lock(&lines.0), [format!("client-activity-unreadable {key}")]);
    let stored = bed.store.begin().get(&Address::new(Space::Core, key)).await.unwrap();
    assert_eq!(&*stored.unwrap().body, b"not a record");
    bed.end().await;
}

#[tokio::test]
async fn nothing_is_noted_before_settings_are_read() {
    let bed = TemporaryStore::new("activity-unread-settings").await;
    let now = bed.store.now();
    let month = ActivityMonth::of_seconds(now / 1_000);
    let log: Arc<dyn Log> = Arc::new(Lines::default());
    let activity = ClientActivity::new(&log);
    activity.note(&token("ada", &[], "m1"), now);
    activity.begin(&bed.store).await;
    activity.note(&token("bob", &[], "m1"), now);
    let read = activity.read(&bed.store, month).await.unwrap();
    assert_eq!(counts(&read), [("m1", 1, 0)]);
    write(&bed, "client-activity-settings", b"not settings").await;
    assert_eq!(activity.store(&bed.store).await.unwrap_err().kind, FailureKind::Internal);
    activity.note(&token("eve", &[], "m1"), now);
    assert!(activity.read(&bed.store, month).await.unwrap().is_empty());
    bed.end().await;
}
