//! Rows of living and dead epochs.

use super::*;
use crate::testing::TemporaryStore;
use bulkhead_store::{IndexColumns, Space};

#[tokio::test]
async fn rows_of_living_epochs_are_no_dead_work() {
    let bed = TemporaryStore::new("dead-work").await;
    let dead = "0123456789abcdef".repeat(2);
    let mut unit = bed.store.begin();
    let row = |key: &str| Address::new(Space::Timer, key);
    for (key, epoch) in [("living", bed.store.epoch()), ("dead", dead.as_str()), ("unnamed", "")] {
        unit.put(row(key), epoch.as_bytes().to_vec(), IndexColumns::default());
    }
    unit.commit().await.unwrap();
    let epoch_of = |record: &Record| String::from_utf8(record.body.to_vec()).unwrap();
    let page = ["living", "dead", "missing", "unnamed"].map(row).to_vec();
    let found = find_dead_work(&bed.store, page, epoch_of).await.unwrap();
    let rows = vec![row("dead"), row("unnamed")];
    assert_eq!(found, DeadWork { rows, epochs: [dead, String::new()].into() });
    let none = find_dead_work(&bed.store, vec![row("living")], epoch_of).await.unwrap();
    assert_eq!(none, DeadWork::default());
    bed.end().await;
}
