//! Snapshots that the service takes by itself: retention, missed times, failures, and the seal.

use crate::bed::{Bed, PATIENCE};
use bulkhead_core::snapshots::{ScheduledSnapshot, SnapshotName, SnapshotSchedule};
use bulkhead_store::{check_snapshot, inspect_snapshot, read_key_file};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An empty directory for snapshots beside the data directory, and the data directory.
fn directories(name: &str) -> (PathBuf, PathBuf) {
    let beside = |kind: &str| {
        std::env::temp_dir().join(format!("bulkhead-{kind}-{name}-{}", std::process::id()))
    };
    let (saved, data) = (beside("saved"), beside("core"));
    drop(fs::remove_dir_all(&saved));
    fs::create_dir(&saved).unwrap();
    fs::set_permissions(&saved, Permissions::from_mode(0o700)).unwrap();
    (saved, data)
}

fn plan(name: &str, schedule: &str, directory: &Path) -> ScheduledSnapshot {
    ScheduledSnapshot {
        name: SnapshotName::parse(name).unwrap(),
        schedule: SnapshotSchedule::parse(schedule).unwrap(),
        directory: directory.to_owned(),
        retain: 2,
    }
}

/// Returns the names of the files that begin with `start`, in order.
fn files(directory: &Path, start: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(start)).collect();
    names.sort();
    names
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Bed {
    /// Waits until the log has `count` lines that contain each part.
    async fn lines_with(&self, count: usize, parts: [&str; 2]) {
        until(parts[1], async || {
            let lines = self.log.0.lock().unwrap();
            let found = lines.iter().filter(|line| parts.iter().all(|part| line.contains(part)));
            found.count() >= count
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_snapshots_are_complete_and_retained() {
    let (saved, data) = directories("retained");
    fs::write(saved.join("often-notes.txt"), "").unwrap();
    // A killed process left the file.
    fs::write(saved.join("often-2020-01-01T00-00-00Z.snap.unfinished"), "").unwrap();
    let bed = Bed::scheduled(data, vec![plan("often", "every 1s", &saved)]).await;
    bed.write("sys/policies/acl/a", json!({ "policy": "path \"a\" {}" })).await;
    bed.lines_with(4, ["info snapshot-saved", "(\"deleted\", \"1\")"]).await;
    let data = bed.stop().await;
    let mut names = files(&saved, "");
    assert_eq!(names.pop().unwrap(), "often-notes.txt");
    assert_eq!(names.len(), 2, "{names:?}");
    for name in names {
        let file = saved.join(name);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(inspect_snapshot(&file).unwrap().manifest.records > 0);
        let keys = read_key_file(&data.join("dev-seal.key")).unwrap();
        let report = check_snapshot(&file, keys, &mut |_| {}).await.unwrap();
        assert!(report.damages.is_empty() && report.opened == Some(report.records), "{report:?}");
    }
    fs::remove_dir_all(&saved).unwrap();
    fs::remove_dir_all(&data).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_snapshot_is_taken_once_after_opening() {
    let (saved, mut data) = directories("missed");
    let plans = || vec![plan("yearly", "0 0 1 1 *", &saved), plan("often", "every 1s", &saved)];
    let old = "yearly-2020-06-01T00-00-00Z.snap";
    fs::write(saved.join(old), "").unwrap();
    let bed = Bed::scheduled(data, plans()).await;
    bed.lines_with(1, ["info snapshot-saved", "yearly-"]).await;
    data = bed.stop().await;
    let after_first = files(&saved, "yearly-");
    assert!(after_first.len() == 2 && after_first[0] == old, "{after_first:?}");
    let bed = Bed::scheduled(data, plans()).await;
    bed.lines_with(2, ["info snapshot-saved", "often-"]).await;
    assert_eq!(files(&saved, "yearly-"), after_first);
    bed.end().await;
    fs::remove_dir_all(&saved).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_snapshot_degrades_health_until_success() {
    let (saved, data) = directories("failing");
    let bed = Bed::scheduled(data, vec![plan("often", "every 1s", &saved)]).await;
    bed.lines_with(1, ["info snapshot-saved", "often-"]).await;
    fs::set_permissions(&saved, Permissions::from_mode(0o755)).unwrap();
    bed.lines_with(1, ["error snapshot-failed", "open to others"]).await;
    bed.lines_with(1, ["warn health-degraded", "snapshot-failing"]).await;
    let (status, health) = bed.read("sys/health").await;
    assert_eq!((status, &health["writes"]), (200, &json!(true)));
    let condition = &health["degraded"][0];
    assert_eq!(condition["code"], "snapshot-failing", "{health}");
    let message = condition["message"].as_str().unwrap();
    assert!(!message.contains('/') && !message.contains("often"), "{message}");
    assert_eq!(files(&saved, ""), files(&saved, "often-"));
    fs::set_permissions(&saved, Permissions::from_mode(0o700)).unwrap();
    bed.lines_with(1, ["info health-restored", "snapshot-failing"]).await;
    let (_, health) = bed.read("sys/health").await;
    assert_eq!(health["degraded"], Value::Null);
    bed.end().await;
    fs::remove_dir_all(&saved).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_during_snapshot_leaves_no_file() {
    let (saved, data) = directories("stopped");
    // Old data make the snapshot take long enough for the stop.
    let bed = Bed::scheduled(data, Vec::new()).await;
    for _ in 0..12 {
        let (_, created) = bed.write("auth/token/create", json!({})).await;
        let token = created["auth"]["client_token"].as_str().unwrap();
        for name in ["a", "b", "c", "d"] {
            let value = json!({ "value": "x".repeat(900_000) });
            let path = format!("cubbyhole/{name}");
            let (status, answer) = bed.call_as(token, Verb::Write, &path, value).await;
            assert_eq!(status, 204, "{answer}");
        }
    }
    let data = bed.stop().await;
    let bed = Bed::scheduled(data, vec![plan("once", "0 0 1 1 *", &saved)]).await;
    until("the snapshot has begun", async || !files(&saved, "once-").is_empty()).await;
    let log = bed.log.clone();
    let data = bed.stop().await;
    let left = files(&saved, "");
    let lines = log.0.lock().unwrap();
    let is_saved = lines.iter().any(|line| line.contains("snapshot-saved"));
    assert_eq!(left.len(), usize::from(is_saved), "{left:?}: {lines:?}");
    assert!(left.iter().all(|name| name.ends_with(".snap")), "{left:?}");
    assert!(!lines.iter().any(|line| line.contains("snapshot-failed")), "{lines:?}");
    fs::remove_dir_all(&saved).unwrap();
    fs::remove_dir_all(&data).unwrap();
}
