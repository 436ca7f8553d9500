//! What core and the sandbox promise, watched through the probe component of `tests/guests`:
//! leases end for each reason, timers wake, conflicts are run again, and no guest gets away with anything.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

use bulkhead_core::log::Log;
use bulkhead_core::{Core, Official, Settings};
use bulkhead_store::{Address, Index, Options, Space, Store};
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::request::Request;
use bulkhead_wire::secret::Secret;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Log for Lines {
    fn line(&self, level: &str, event: &str, pairs: &[(&str, String)]) {
        self.0.lock().unwrap().push(format!("{level} {event} {pairs:?}"));
    }
}

/// A core with the probe mounted at `probe/`, on a directory of its own.
struct Bed {
    core: Arc<Core>,
    directory: PathBuf,
    log: Arc<Lines>,
}

impl Bed {
    async fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("bulkhead-core-{name}-{}", std::process::id()));
        Self::open(directory).await
    }

    async fn open(directory: PathBuf) -> Self {
        Self::try_open(directory).await.unwrap()
    }

    async fn try_open(directory: PathBuf) -> Result<Self, Failure> {
        let log = Arc::new(Lines::default());
        let settings = Settings {
            directory: directory.clone(),
            officials: vec![Official { wasm: probe(), compiled: &[] }],
            root_token: Secret::new("root"),
            default_lease_ttl: 3_600,
            max_lease_ttl: 7_200,
            reported_version: "1.21.0+ent".to_owned(),
            log: Arc::clone(&log) as Arc<dyn Log>,
        };
        Ok(Self { core: Core::start(settings).await?, directory, log })
    }

    async fn call(&self, verb: Verb, path: &str, fields: Value) -> (u16, Value) {
        self.call_as("root", verb, path, fields).await
    }

    async fn call_as(&self, token: &str, verb: Verb, path: &str, fields: Value) -> (u16, Value) {
        let request = request(token, verb, path, fields);
        let (status, _, body) = self.core.handle(request).await.into_bytes();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn write(&self, path: &str, fields: Value) -> (u16, Value) {
        self.call(Verb::Write, path, fields).await
    }

    async fn read(&self, path: &str) -> (u16, Value) {
        self.call(Verb::Read, path, json!({})).await
    }

    /// Waits until the probe noted something under `name`.
    async fn noted(&self, name: &str) -> Value {
        let began = Instant::now();
        loop {
            let (status, answer) = self.read(&format!("probe/note/{name}")).await;
            if status == 200 {
                return answer["data"]["note"].clone();
            }
            assert!(began.elapsed() < PATIENCE, "{name} was never noted; {:?}", self.log.0.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn end(self) {
        self.core.stop().await;
        std::fs::remove_dir_all(self.directory).unwrap();
    }
}

fn request(token: &str, verb: Verb, path: &str, fields: Value) -> Request {
    let fields: Map<String, Value> = fields.as_object().unwrap().clone();
    let (id, path) = ("test".to_owned(), path.to_owned());
    let remote = "127.0.0.1".parse().unwrap();
    Request { id, verb, path, token: Some(Secret::new(token)), fields, body_bytes: 0, remote }
}

fn probe() -> &'static [u8] {
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_path_buf();
    let bytes = std::fs::read(target.join("guests/probe.wasm"));
    bytes.expect("the probe is missing: run `make guests`").leak()
}

fn error(answer: &Value) -> &str {
    answer["errors"][0].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_for_each_reason_and_the_plugin_is_told_which() {
    let bed = Bed::new("reasons").await;
    let (status, short) = bed.write("probe/lease/short", json!({"ttl": 1})).await;
    assert_eq!((status, short["lease_duration"].as_u64()), (200, Some(1)), "{short}");
    assert_eq!(bed.noted("short").await, "Expired");

    let (_, long) = bed.write("probe/lease/long", json!({"ttl": 600})).await;
    let id = long["lease_id"].as_str().unwrap();
    assert!(id.starts_with("probe/lease/long/"), "{id}");
    assert_eq!(bed.write("sys/leases/revoke", json!({"lease_id": id})).await.0, 204);
    assert_eq!(bed.noted("long").await, "Requested");
    assert_eq!(bed.write("sys/leases/revoke", json!({"lease_id": id})).await.0, 204, "gone is revoked");
    assert_eq!(bed.write("sys/leases/lookup", json!({"lease_id": id})).await.0, 400);

    assert_eq!(bed.write("probe/lease/perhaps", json!({"how": "perhaps"})).await.0, 502);
    assert_eq!(bed.noted("perhaps").await, "Undo");
    assert_eq!(bed.write("probe/lease/forgotten", json!({"how": "forget"})).await.0, 204);
    assert_eq!(bed.noted("forgotten").await, "Undo");
    assert_eq!(bed.write("probe/lease/surely", json!({"how": "surely"})).await.0, 400);
    assert_eq!(bed.read("probe/note/surely").await.0, 404, "there was nothing to undo");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leases_and_children_of_a_token_end_with_it() {
    let bed = Bed::new("tokens").await;
    let policy = json!({"policy": "path \"probe/*\" { capabilities = [\"read\", \"update\"] }\n\
                                   path \"auth/token/create\" { capabilities = [\"update\"] }"});
    assert_eq!(bed.write("sys/policies/acl/prober", policy).await.0, 204);
    let token = |answer: Value| answer["auth"]["client_token"].as_str().unwrap().to_owned();
    let parent = token(bed.write("auth/token/create", json!({"policies": "prober"})).await.1);
    let child = token(bed.call_as(&parent, Verb::Write, "auth/token/create", json!({})).await.1);
    let (status, leased) = bed.call_as(&child, Verb::Write, "probe/lease/of-child", json!({"ttl": 600})).await;
    assert_eq!(status, 200, "{leased}");
    assert_eq!(bed.call_as(&child, Verb::Write, "sys/policies/acl/x", json!({"policy": ""})).await.0, 403);

    assert_eq!(bed.write("auth/token/revoke", json!({"token": parent})).await.0, 204);
    assert_eq!(bed.call_as(&parent, Verb::Read, "probe/note/x", json!({})).await.0, 403, "refused at once");
    assert_eq!(bed.noted("of-child").await, "TokenEnded");
    assert_eq!(bed.call_as(&child, Verb::Read, "probe/note/x", json!({})).await.0, 403);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_never_outlives_the_token_that_asked_for_it() {
    let bed = Bed::new("longest").await;
    let policy = json!({"policy": "path \"*\" { capabilities = [\"update\"] }"});
    bed.write("sys/policies/acl/all", policy).await;
    let (_, made) = bed.write("auth/token/create", json!({"policies": "all", "ttl": "30s"})).await;
    let token = made["auth"]["client_token"].as_str().unwrap();
    let (_, leased) = bed.call_as(token, Verb::Write, "probe/lease/capped", json!({"ttl": 600})).await;
    assert!(leased["lease_duration"].as_u64().unwrap() <= 30, "{leased}");
    let renewal = json!({"lease_id": leased["lease_id"], "increment": 900});
    let (_, renewed) = bed.write("sys/leases/renew", renewal).await;
    assert!(renewed["lease_duration"].as_u64().unwrap() <= 30, "{renewed}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_cannot_be_ended_is_kept_and_tried_again() {
    let bed = Bed::new("stuck").await;
    let (_, leased) = bed.write("probe/lease/stuck", json!({"ttl": 600})).await;
    let id = json!({"lease_id": leased["lease_id"]});
    let (status, refused) = bed.write("sys/leases/revoke", id.clone()).await;
    assert_eq!(status, 502, "{refused}");
    let (_, kept) = bed.write("sys/leases/lookup", id.clone()).await;
    assert_eq!(kept["data"]["last_error"], "it is stuck", "{kept}");
    let (status, refused) = bed.write("sys/leases/renew", id).await;
    assert_eq!(status, 400, "a lease that is being ended cannot be renewed: {refused}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_wake_their_plugin_again_after_a_failure_and_after_a_restart() {
    let bed = Bed::new("timers").await;
    assert_eq!(bed.write("probe/timer/soon", json!({"after": 0})).await.0, 204);
    assert_eq!(bed.noted("soon").await, 1);
    bed.write("probe/timer/twice", json!({"after": 0})).await;
    assert_eq!(bed.noted("twice").await, 2);
    bed.write("probe/timer/later", json!({"after": 300})).await;
    bed.core.stop().await;
    let bed = Bed::open(bed.directory).await;
    assert_eq!(bed.noted("later").await, 1);
    bed.end().await;
}

/// Writes another schema into the record of the mount `probe/`, as an older or newer component would have.
async fn set_schema(directory: &Path, schema: u32) {
    let options = Options { directory: directory.to_path_buf() };
    let store = Store::open(options, bulkhead_store::dev_key(directory).unwrap()).await.unwrap();
    let address = Address::new(Space::Core, "mount/probe/");
    let mut unit = store.begin();
    let stored = unit.get(&address).await.unwrap().unwrap();
    let mut record: Value = serde_json::from_slice(&stored.body).unwrap();
    record["schema"] = json!(schema);
    unit.put(address, serde_json::to_vec(&record).unwrap(), Index::default());
    unit.commit().await.unwrap();
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_an_older_schema_is_migrated_once_and_of_a_newer_one_refused() {
    let bed = Bed::new("schema").await;
    assert_eq!(bed.read("probe/note/migrated").await.0, 404, "a new mount has nothing to migrate");
    bed.core.stop().await;
    set_schema(&bed.directory, 0).await;
    let bed = Bed::open(bed.directory).await;
    assert_eq!(bed.noted("migrated").await, 0);
    bed.core.stop().await;
    set_schema(&bed.directory, 9).await;
    let refused = Bed::try_open(bed.directory.clone()).await.err().unwrap();
    assert!(refused.message.contains("newer version of probe (schema 9, this one knows 1)"), "{refused}");
    std::fs::remove_dir_all(bed.directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_many_requests_race_for_is_exact() {
    let bed = Arc::new(Bed::new("race").await);
    let race = |_| {
        let bed = Arc::clone(&bed);
        tokio::spawn(async move {
            let mut counted = 0;
            for _ in 0..10 {
                counted += u64::from(bed.write("probe/count/race", json!({})).await.0 == 204);
            }
            counted
        })
    };
    let racing: Vec<_> = (0..8).map(race).collect();
    let mut counted = 0;
    for racer in racing {
        counted += racer.await.unwrap();
    }
    // A request that lost too often was refused with 503 and counted nothing.
    assert_eq!(bed.noted("race").await, counted);
    assert!(counted >= 8, "{counted}");
    Arc::into_inner(bed).unwrap().end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_misbehaves_fails_its_own_request_and_no_other() {
    let bed = Bed::new("hostile").await;
    let began = Instant::now();
    let (status, answer) = bed.read("probe/loop").await;
    assert_eq!(status, 502, "{answer}");
    assert!(error(&answer).contains("plugin probe 1.0.0 (sha256 ") && error(&answer).contains("deadline"), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(3), "stopped after {:?}", began.elapsed());
    for (path, cause) in [("memory", "64 MiB of memory"), ("stack", "was stopped"), ("panic", "was stopped")] {
        let (status, answer) = bed.read(&format!("probe/{path}")).await;
        assert_eq!(status, 500, "{path}: {answer}");
        assert!(error(&answer).contains(cause), "{path}: {answer}");
        assert_eq!(bed.write("probe/count/after", json!({})).await.0, 204, "the next request after {path}");
    }
    let (status, answer) = bed.read("probe/unmarked").await;
    assert_eq!(status, 500, "{answer}");
    let (status, answer) = bed.read("probe/outside/mount").await;
    assert_eq!(status, 400, "{answer}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_piece_of_a_password_is_scrubbed_from_errors_warnings_and_log() {
    let bed = Bed::new("scrub").await;
    for _ in 0..20 {
        let (status, answer) = bed.read("probe/tell").await;
        assert_eq!((status, error(&answer)), (400, "unrecognised option [secret]"));
    }
    let (_, answer) = bed.read("probe/warn").await;
    assert_eq!(answer["warnings"], json!(["it begins with [secret]"]));
    let lines = bed.log.0.lock().unwrap().join("\n");
    assert_eq!(lines.matches("(\"piece\", \"[secret]\")").count(), 20, "{lines}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_mount_that_is_a_prefix_serves_and_none_may_cover_another() {
    let bed = Bed::new("mounts").await;
    assert_eq!(bed.write("sys/mounts/team/a", json!({"type": "probe"})).await.0, 204);
    assert_eq!(bed.write("sys/mounts/team/ab", json!({"type": "probe"})).await.0, 204);
    bed.write("team/a/count/x", json!({})).await;
    assert_eq!(bed.read("team/a/note/x").await.0, 200);
    assert_eq!(bed.read("team/ab/note/x").await.0, 404, "each mount has storage of its own");
    for taken in ["team/a", "team", "team/a/b", "probe"] {
        let (status, refused) = bed.write(&format!("sys/mounts/{taken}"), json!({"type": "probe"})).await;
        assert_eq!(status, 400, "{taken}: {refused}");
        assert!(error(&refused).starts_with("path is already in use at "), "{refused}");
    }
    for reserved in ["sys/x", "auth/token", "cubbyhole"] {
        assert_eq!(bed.write(&format!("sys/mounts/{reserved}"), json!({"type": "probe"})).await.0, 400, "{reserved}");
    }
    assert_eq!(bed.write("sys/mounts/other", json!({"type": "nothing"})).await.0, 400);
    bed.end().await;
}
