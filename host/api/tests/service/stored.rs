//! Bounds on the stored data of a mount and on the writes of its timers; other mounts are not
//! affected.

use crate::bed::{Bed, error};
use bulkhead_test_database::on_files;
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Timers that write without end.
const FLOODS: u32 = 20;
const PATIENCE: Duration = Duration::from_secs(30);

/// A mount of the probe with these grants.
async fn enable(bed: &Bed, path: &str, grants: &[&str]) {
    let mount = json!({"type": "probe", "grants": grants});
    let (status, answer) = bed.write(&format!("sys/mounts/{path}"), mount).await;
    assert_eq!(status, 204, "{answer}");
}

/// A figure of a mount, as `sys/metrics` tells it.
async fn figure(bed: &Bed, name: &str, mount: &str) -> u64 {
    let (status, answer) = bed.read("sys/metrics").await;
    assert_eq!(status, 200, "{answer}");
    let gauges = answer["Gauges"].as_array().unwrap();
    let is_asked = |gauge: &&Value| {
        gauge["Name"] == format!("bulkhead_{name}") && gauge["Labels"]["mount"] == mount
    };
    let value = gauges.iter().find(is_asked).unwrap_or_else(|| panic!("{name}: {answer}"));
    value["Value"].as_f64().unwrap() as u64
}

/// Stores records until a record is refused. Returns the refusal, and the number of stored records.
async fn fill(bed: &Bed, mount: &str) -> (Value, u32) {
    for number in 0..1_000 {
        let (status, answer) = bed.write(&format!("{mount}/place/{number}"), json!({})).await;
        if status != 200 {
            assert_eq!(status, 429, "{answer}");
            return (answer, number);
        }
    }
    panic!("nothing was refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_full_mount_is_refused_until_limit_raised() {
    let bed = Bed::new("full").await;
    enable(&bed, "small", &["limit:stored=16KiB"]).await;
    let (refused, count) = fill(&bed, "small").await;
    let said = error(&refused);
    let expected = "mount small/ stores";
    let command = "bulkhead secrets tune --grant 'limit:stored=32KiB' small/";
    assert!(said.contains(expected) && said.contains(command), "{said}");
    assert!(count > 20, "{count}");
    let stored = figure(&bed, "mount_stored_bytes", "small/").await;
    assert!((15_000..=16_384).contains(&stored), "{stored}");
    assert_eq!(figure(&bed, "mount_stored_bytes_max", "small/").await, 16_384);
    assert_eq!(figure(&bed, "mount_stored_bytes_max", "probe/").await, 1 << 30);
    assert_eq!(bed.write("probe/place/beside", json!({})).await.0, 200);
    assert_eq!(bed.read("small/note/absent").await.0, 404, "a full mount is still readable");
    let directory = bed.stop().await;
    let bed = Bed::open(directory).await;
    assert_eq!(figure(&bed, "mount_stored_bytes", "small/").await, stored);
    assert_eq!(bed.write("small/place/another", json!({})).await.0, 429, "after a restart, too");
    let more = json!({"grants": ["limit:stored=32KiB"]});
    assert_eq!(bed.write("sys/mounts/small/tune", more).await.0, 204);
    assert_eq!(bed.write("small/place/another", json!({})).await.0, 200);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_mount_still_ends_leases() {
    let bed = Bed::new("full-ends").await;
    enable(&bed, "small", &["limit:stored=16KiB"]).await;
    let (status, leased) = bed.write("small/lease/long", json!({"ttl": 600})).await;
    assert_eq!(status, 200, "{leased}");
    fill(&bed, "small").await;
    assert_eq!(bed.write("small/lease/another", json!({"ttl": 600})).await.0, 429);
    let lease = json!({"lease_id": leased["lease_id"]});
    assert_eq!(bed.write("sys/leases/revoke", lease).await.0, 204);
    assert_eq!(bed.noted_of("small", "long").await, "Requested", "the end itself is stored");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn growing_timer_is_delayed_once_mount_is_full() {
    let bed = Bed::new("flood-more").await;
    enable(&bed, "small", &["limit:stored=2MiB"]).await;
    assert_eq!(bed.write("small/timer/flood-more", json!({"after": 0})).await.0, 204);
    let line = bed.line("timer-delayed").await;
    assert!(line.contains("flood-more") && line.contains("rate-limited"), "{line}");
    assert!(figure(&bed, "mount_stored_bytes", "small/").await <= 2 << 20);
    assert_eq!(bed.write("probe/timer/beside", json!({"after": 0})).await.0, 204);
    bed.noted("beside").await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wake_scheduled_timer_waits_at_least_one_second() {
    let bed = Bed::new("interval").await;
    let began = Instant::now();
    for name in ["same", "same-stored"] {
        assert_eq!(bed.write(&format!("probe/timer/{name}"), json!({})).await.0, 204);
    }
    for name in ["same", "same-stored"] {
        bed.noted_as("probe", name, &json!(3)).await;
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(2), "three times in {took:?}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endlessly_writing_timers_are_delayed_per_mount() {
    let bed = Bed::new("flood").await;
    enable(&bed, "flooding", &[]).await;
    for number in 0..FLOODS {
        let timer = format!("flooding/timer/flood-{number}");
        assert_eq!(bed.write(&timer, json!({"after": 0})).await.0, 204);
    }
    let line = bed.line("timers-delayed").await;
    assert!(line.contains("flooding/"), "{line}");
    let rung = async || {
        let mut rung = 0;
        for number in 0..FLOODS {
            let note = bed.read(&format!("flooding/note/flood-{number}")).await.1;
            rung += note["data"]["note"].as_u64().unwrap_or_default();
        }
        rung
    };
    let (before, began) = (rung().await, Instant::now());
    for number in 0..3 {
        let name = format!("beside-{number}");
        assert_eq!(bed.write(&format!("probe/timer/{name}"), json!({"after": 0})).await.0, 204);
        bed.noted(&name).await;
    }
    // Each rings once a second and writes 12 MB, in a lane of 4 places.
    tokio::time::sleep_until((began + Duration::from_secs(6)).into()).await;
    let more = rung().await - before;
    let share = began.elapsed().as_secs() / 3 + 4 + 4;
    assert!(more <= share, "{more} in {:?}, at most {share}", began.elapsed());
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_mount_returns_disk_space() {
    // PostgreSQL reuses the space by itself.
    let _files = on_files();
    let bed = Bed::new("given-back").await;
    enable(&bed, "large", &[]).await;
    for number in 0..4 {
        let timer = format!("large/timer/flood-more-{number}");
        assert_eq!(bed.write(&timer, json!({"after": 0})).await.0, 204);
    }
    let began = Instant::now();
    while figure(&bed, "mount_stored_bytes", "large/").await < 40_000_000 {
        assert!(began.elapsed() < PATIENCE, "the mount was not filled in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let file = bed.directory.join("bulkhead.db");
    let bytes = || std::fs::metadata(&file).unwrap().len();
    assert_eq!(bed.call(Verb::Delete, "sys/mounts/large", json!({})).await.0, 204);
    let began = Instant::now();
    let log = bed.directory.join("bulkhead.db-wal");
    while bytes() > 8 << 20 || std::fs::metadata(&log).unwrap().len() > 128 << 20 {
        assert!(began.elapsed() < PATIENCE, "{} bytes are left", bytes());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bed.end().await;
}
