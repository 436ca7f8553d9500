//! The mount option `instance_reuse`: fresh instances unless the option is `bounded`, and no
//! instance outlives the seal.

use crate::bed::{Bed, store_options};
use bulkhead_store::{Address, DataDirectory, IndexColumns, Space};
use serde_json::{Value, json};
use std::path::Path;

/// Writes the option into the record of the mount `probe/`, in a directory that nobody holds.
async fn set_reuse(directory: &Path, word: &str) {
    let data_directory = DataDirectory::hold(store_options(directory)).await.unwrap();
    let store =
        data_directory.open(bulkhead_store::dev_key(&data_directory).unwrap()).await.unwrap();
    let address = Address::new(Space::Core, "mount/probe/");
    let mut unit = store.begin();
    let stored = unit.get(&address).await.unwrap().unwrap();
    let mut record: Value = serde_json::from_slice(&stored.body).unwrap();
    record["options"] = json!({"instance_reuse": word});
    unit.put(address, serde_json::to_vec(&record).unwrap(), IndexColumns::default());
    unit.commit().await.unwrap();
    store.close().await;
}

/// Which call of its instance each of three calls was.
async fn tallies(bed: &Bed, mount: &str) -> Vec<u64> {
    let mut found = Vec::new();
    for _ in 0..3 {
        let (status, answer) = bed.read(&format!("{mount}/tally")).await;
        assert_eq!(status, 200, "{answer}");
        found.push(answer["data"]["calls"].as_u64().unwrap());
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_reused_by_option_within_one_mount() {
    let bed = Bed::new("reuse").await;
    assert_eq!(bed.write("sys/mounts/other", json!({"type": "probe"})).await.0, 204);
    assert_eq!(tallies(&bed, "probe").await, [1, 1, 1]);
    let directory = bed.stop().await;
    set_reuse(&directory, "bounded").await;
    let bed = Bed::open(directory).await;
    assert_eq!(tallies(&bed, "probe").await, [1, 2, 3]);
    assert_eq!(tallies(&bed, "other").await, [1, 1, 1]);
    assert_eq!(tallies(&bed, "probe").await, [4, 5, 6], "the mount's idle instance serves again");
    assert_eq!(bed.read("probe/panic").await.0, 500);
    assert_eq!(tallies(&bed, "probe").await, [1, 2, 3]);
    let directory = bed.stop().await;
    set_reuse(&directory, "of-a-later-version").await;
    let bed = Bed::open(directory).await;
    assert_eq!(tallies(&bed, "probe").await, [1, 1, 1], "an unknown setting means fresh instances");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sealing_drops_every_idle_instance() {
    let bed = Bed::new("reuse-seal").await;
    let directory = bed.stop().await;
    set_reuse(&directory, "bounded").await;
    let bed = Bed::open(directory).await;
    assert_eq!(tallies(&bed, "probe").await, [1, 2, 3]);
    let key = bed.service.dev_unseal_key().await.unwrap();
    assert_eq!(bed.write("sys/seal", json!({})).await.0, 204);
    let (status, opened) = bed.write("sys/unseal", json!({"key": key.expose()})).await;
    assert_eq!((status, &opened["sealed"]), (200, &json!(false)), "{opened}");
    assert_eq!(tallies(&bed, "probe").await, [1, 2, 3]);
    bed.end().await;
}
