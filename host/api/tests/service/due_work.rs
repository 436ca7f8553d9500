//! Due work is done in time, also while other work waits or hangs.

use crate::bed::{Bed, PATIENCE, store_options};
use bulkhead_store::{Address, DataDirectory, IndexColumns, Space, Store, Unit};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Timers that hang, in more lanes than there are places.
const HANGING: u32 = 240;
const LANES: u32 = 80;

#[tokio::test(flavor = "multi_thread")]
async fn healthy_mount_lease_ends_despite_another_hanging_mount() {
    let bed = Bed::new("crowded").await;
    assert_eq!(bed.write("sys/mounts/other", json!({"type": "probe"})).await.0, 204);
    for number in 0..HANGING {
        let timer = json!({"after": 0, "lane": format!("lane {}", number % LANES)});
        assert_eq!(bed.write(&format!("probe/timer/hang-{number}"), timer).await.0, 204);
    }
    for number in 0..4 {
        let path = format!("probe/lease/hang-{number}");
        assert_eq!(bed.write(&path, json!({"ttl": 1})).await.0, 200);
    }
    bed.noted("hang-0").await;
    let began = Instant::now();
    assert_eq!(bed.write("other/lease/quick", json!({"ttl": 1})).await.0, 200);
    assert_eq!(bed.noted_of("other", "quick").await, "Expired");
    bed.write("other/timer/soon", json!({"after": 0, "lane": "lane 0"})).await;
    assert_eq!(bed.noted_of("other", "soon").await, 1);
    let lines = bed.log.0.lock().unwrap().clone();
    let has_ended = lines.iter().any(|line| line.contains("ran past its deadline"));
    assert!(!has_ended, "the healthy mount waited for work that hangs: {lines:?}");
    assert!(began.elapsed() < PATIENCE / 2, "the healthy mount took {:?}", began.elapsed());
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lanes_take_turns_instead_of_draining_in_sequence() {
    let bed = Bed::new("turns").await;
    let uuid = bed.read("sys/mounts/probe").await.1["data"]["uuid"].as_str().unwrap().to_owned();
    let directory = bed.stop().await;
    let store = opened(&directory).await;
    put_backlog(&store, &uuid, 3_000).await;
    store.close().await;
    drop(store);
    let bed = Bed::open(directory).await;
    // The first of each lane.
    for number in 0..16 {
        bed.noted(&format!("soon-{number}")).await;
    }
    let directory = bed.stop().await;
    let store = opened(&directory).await;
    let left = left_in(&store, &uuid, 16).await;
    assert!(left.iter().all(|left| *left > 0), "a lane of 187 or 188 is empty: {left:?}");
    store.close().await;
    drop(store);
    std::fs::remove_dir_all(directory).unwrap();
}

/// Lanes of each of two mounts, more than there are places, and timers in each of them.
const CROWDED: (u64, u64) = (64, 30);

#[tokio::test(flavor = "multi_thread")]
async fn share_limited_mount_serves_all_lanes() {
    let bed = Bed::new("share").await;
    assert_eq!(bed.write("sys/mounts/other", json!({"type": "probe"})).await.0, 204);
    let mut uuids = Vec::new();
    for mount in ["probe", "other"] {
        let (_, answer) = bed.read(&format!("sys/mounts/{mount}")).await;
        uuids.push(answer["data"]["uuid"].as_str().unwrap().to_owned());
    }
    let directory = bed.stop().await;
    let store = opened(&directory).await;
    let (lanes, each) = CROWDED;
    for uuid in &uuids {
        let mut unit = store.begin();
        for number in 0..lanes * each {
            put_timer(&mut unit, uuid, number, lanes);
        }
        unit.commit().await.unwrap();
    }
    store.close().await;
    drop(store);
    let bed = Bed::open(directory).await;
    for mount in ["probe", "other"] {
        for number in 0..lanes {
            bed.noted_of(mount, &format!("soon-{number}")).await;
        }
    }
    let directory = bed.stop().await;
    let store = opened(&directory).await;
    for uuid in &uuids {
        let left = left_in(&store, uuid, lanes).await;
        assert!(left.iter().all(|left| *left > 0), "a lane of {each} is empty: {left:?}");
    }
    store.close().await;
    drop(store);
    std::fs::remove_dir_all(directory).unwrap();
}

/// The timers of the mount `uuid` that are left, by their lane.
async fn left_in(store: &Arc<Store>, uuid: &str, lanes: u64) -> Vec<u64> {
    let left = store.begin().keys(Space::Timer, uuid, "", 9_999).await.unwrap();
    let number = |key: &str| key.rsplit('-').next().unwrap().parse::<u64>().unwrap();
    let of_lane = |lane| left.iter().filter(|key| number(key) % lanes == lane).count();
    (0..lanes).map(|lane| u64::try_from(of_lane(lane)).unwrap()).collect()
}

/// The store of a directory that nobody holds.
async fn opened(directory: &Path) -> Arc<Store> {
    let data_directory = DataDirectory::hold(store_options(directory)).await.unwrap();
    data_directory.open(bulkhead_store::dev_key(&data_directory).unwrap()).await.unwrap()
}

/// Puts timers of the mount `uuid` that are due, `soon-0` first.
async fn put_backlog(store: &Arc<Store>, uuid: &str, backlog: u64) {
    for first in (0..backlog).step_by(1_000) {
        let mut unit = store.begin();
        for number in first..first + 1_000 {
            put_timer(&mut unit, uuid, number, 16);
        }
        unit.commit().await.unwrap();
    }
}

/// Stores the due timer `number` in the lane for this number, of `lanes` lanes.
fn put_timer(unit: &mut Unit, uuid: &str, number: u64, lanes: u64) {
    let lane = format!("{uuid}/lane {:02}", number % lanes);
    let index = IndexColumns { due: Some(1 + number), lane, owner: String::new() };
    let address = Address::new(Space::Timer, format!("{uuid}/soon-{number}"));
    unit.put(address, b"0".to_vec(), index);
}

/// A test of the store counts the steps of a look for due work. Here, only the order is tested: the
/// first work is done before half of the backlog.
#[tokio::test(flavor = "multi_thread")]
async fn first_due_work_does_not_await_backlog() {
    const BACKLOG: u64 = 9_000;
    let bed = Bed::new("backlog").await;
    let uuid = bed.read("sys/mounts/probe").await.1["data"]["uuid"].as_str().unwrap().to_owned();
    let directory = bed.stop().await;
    let store = opened(&directory).await;
    put_backlog(&store, &uuid, BACKLOG).await;
    store.close().await;
    drop(store);
    let bed = Bed::open(directory).await;
    bed.noted("soon-900").await;
    let directory = bed.stop().await;
    let store = opened(&directory).await;
    let left: u64 = left_in(&store, &uuid, 16).await.iter().sum();
    assert!(left > BACKLOG / 2, "{left} of {BACKLOG} are left after the first 900");
    store.close().await;
    drop(store);
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_target_work_is_tried_singly_until_return() {
    const WAITING: u32 = 40;
    let bed = Bed::new("down").await;
    for number in 0..WAITING {
        let timer = json!({"after": 0, "lane": "orders"});
        assert_eq!(bed.write(&format!("probe/timer/down-{number}"), timer).await.0, 204);
    }
    let line = bed.line("lane-rests").await;
    assert!(line.contains(r#"("mount", "probe/"), ("lane", "orders")"#), "{line}");
    let other = json!({"after": 0, "lane": "billing"});
    assert_eq!(bed.write("probe/timer/soon", other).await.0, 204);
    bed.noted("soon").await;
    // The third rest begins when two attempts were made after the first.
    bed.line(r#"("next", "4000ms")"#).await;
    let is_attempt = |line: &&String| line.contains("timer-delayed") && line.contains("down-");
    let attempts = || bed.log.0.lock().unwrap().iter().filter(is_attempt).count();
    assert!(attempts() < 20, "{} attempts, with {WAITING} that wait", attempts());
    assert_eq!(bed.write("probe/count/back", json!({})).await.0, 204);
    let (before, back) = (attempts(), Instant::now());
    for number in 0..WAITING {
        bed.noted(&format!("down-{number}")).await;
    }
    assert!(back.elapsed() < PATIENCE, "the lane rested after the return: {:?}", back.elapsed());
    // The only attempt at the time may have begun before the target was back.
    assert!(attempts() <= before + 1, "{} attempts, {before} of them before", attempts());
    bed.line("lane-answers-again").await;
    bed.end().await;
}
