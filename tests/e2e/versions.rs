//! Plugin versions: a mount swaps from version to version and keeps its data and leases, and loses
//! no request.

use crate::world::World;
use bulkhead_tests::operators::open;
use bulkhead_tests::paths::{guest, in_version, with_text};
use bulkhead_tests::wait::{StopOnDrop, until_true};
use bulkhead_tests::{Answer, Client};
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PROBE: &str = "sys/plugins/catalog/secret/probe";
pub(crate) const HOSTILE: &str = "sys/plugins/catalog/secret/hostile";
/// The hostile guest's version and schema in its description.
const OF_HOSTILE: &str = "\"version\":\"1.0.0\",\"schema\":2";

/// Longest wait for background work.
const SOON: Duration = Duration::from_secs(20);

/// The hostile guest with the given version and schema number.
pub(crate) fn hostile(version: &str, schema: u32) -> Vec<u8> {
    let other = format!("\"version\":\"{version}\",\"schema\":{schema}");
    with_text(guest("hostile"), OF_HOSTILE, &other)
}

/// A world with two versions of the probe; the older version serves `third/`.
fn two_probes() -> World {
    let world = World::empty();
    world.root.upload(PROBE, &guest("probe")).expect(204);
    world.root.upload(PROBE, &in_version("probe", "2.0.0")).expect(204);
    enable(&world.root, "probe", "1.0.0");
    world
}

/// Mounts the plugin at `third/` with this version.
#[track_caller]
fn enable(root: &Client, kind: &str, version: &str) {
    let fields = json!({ "type": kind, "config": { "plugin_version": version } });
    root.write("sys/mounts/third", &fields).expect(204);
}

/// Requests this version for the plugin of `third/`.
pub(crate) fn swap(root: &Client, version: &str) -> Answer {
    root.write("sys/mounts/third/tune", &json!({ "plugin_version": version }))
}

/// Returns the requested version and the running version of `third/`.
#[track_caller]
fn versions(root: &Client) -> (String, String) {
    let mount = root.read("sys/mounts/third").expect(200);
    (mount.text("plugin_version").to_owned(), mount.text("running_plugin_version").to_owned())
}

/// The result of [`versions`] if requested and running version are the same.
fn both(version: &str) -> (String, String) {
    (version.to_owned(), version.to_owned())
}

#[test]
fn swapped_mount_keeps_data_leases_and_timers() {
    let world = two_probes();
    let root = &world.root;
    assert_eq!(versions(root), both("1.0.0"));
    root.write("third/count/visits", &json!({})).expect(204);
    let lease = root.write("third/lease/made", &json!({ "how": "ok", "ttl": 3600 })).expect(200);
    root.write("third/timer/later", &json!({ "after": 1_500 })).expect(204);
    swap(root, "2.0.0").expect(204);
    assert_eq!(versions(root), both("2.0.0"));
    root.write("third/count/visits", &json!({})).expect(204);
    assert_eq!(note(root, "visits"), json!(2));
    root.write("sys/leases/revoke", &json!({ "lease_id": lease.lease() })).expect(204);
    root.read("third/note/made").expect(200);
    until_true("the timer of the older version wakes the newer", SOON, || {
        root.read("third/note/later").status == 200
    });
    swap(root, "v1.0.0").expect(204);
    assert_eq!(
        versions(root),
        ("v1.0.0".to_owned(), "1.0.0".to_owned()),
        "the version is shown as written"
    );
    assert_eq!(note(root, "visits"), json!(2));
}

#[track_caller]
fn note(root: &Client, name: &str) -> Value {
    root.read(&format!("third/note/{name}")).expect(200).body["data"]["note"].clone()
}

#[test]
fn the_version_of_a_mount_survives_a_restart() {
    let (mut server, operators) = open();
    let root = operators.root(&server);
    root.upload(PROBE, &guest("probe")).expect(204);
    root.upload(PROBE, &in_version("probe", "2.0.0")).expect(204);
    enable(&root, "probe", "1.0.0");
    root.write("sys/mounts/newest", &json!({ "type": "probe" })).expect(204);
    server.kill();
    server.start_again();
    operators.unseal(&server);
    let root = operators.root(&server);
    assert_eq!(versions(&root), both("1.0.0"));
    let newest = root.read("sys/mounts/newest").expect(200);
    assert_eq!(
        (newest.text("plugin_version"), newest.text("running_plugin_version")),
        ("", "2.0.0")
    );
}

/// Number of requests of a caller that sends one after the other.
#[derive(Default)]
struct CallerProgress {
    sent: AtomicU64,
    answered: AtomicU64,
}

impl CallerProgress {
    /// Adds one to a counter at the probe until `stop`.
    fn count(&self, (root, path): (&Client, &str), stop: &AtomicBool) {
        while !stop.load(Ordering::SeqCst) {
            self.sent.fetch_add(1, Ordering::SeqCst);
            root.write(path, &json!({})).expect(204);
            self.answered.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Runs `swap`, and returns whether a request was sent after its begin and answered before its end.
fn meets_a_request(callers: &[CallerProgress], swap: impl FnOnce()) -> bool {
    let sent: Vec<u64> = callers.iter().map(|one| one.sent.load(Ordering::SeqCst)).collect();
    swap();
    let mut both = callers.iter().zip(sent);
    both.any(|(one, sent)| one.answered.load(Ordering::SeqCst) > sent)
}

/// Number of swaps, and the most swaps if no swap met a request before.
const SWAPS: usize = 20;
const MOST_SWAPS: usize = 500;

#[test]
fn repeated_swaps_lose_no_request() {
    let world = two_probes();
    let (root, stop) = (&world.root, AtomicBool::new(false));
    let callers: [CallerProgress; 4] = Default::default();
    let met = thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for (number, caller) in callers.iter().enumerate() {
            let (path, stop) = (format!("third/count/{number}"), &stop);
            scope.spawn(move || caller.count((root, path.as_str()), stop));
        }
        let mut met = 0;
        for round in 0..MOST_SWAPS {
            if round >= SWAPS && met > 0 {
                break;
            }
            let next = ["2.0.0", "1.0.0"][round % 2];
            met += usize::from(meets_a_request(&callers, || drop(swap(root, next).expect(204))));
        }
        met
    });
    assert!(met > 0, "no request was sent and answered during any of {MOST_SWAPS} swaps");
    for (number, caller) in callers.into_iter().enumerate() {
        assert_eq!(note(root, &number.to_string()), json!(caller.answered.into_inner()));
    }
}

/// Reads until the data are migrated, and returns whether the reader saw the data before and after.
/// `readers` counts the readers that saw the data before.
fn read_until_migrated(root: &Client, stop: &AtomicBool, readers: &AtomicU64) -> bool {
    let mut saw_before = false;
    while !stop.load(Ordering::Relaxed) {
        if root.read("third/acts").expect(200).body["data"]["migrated"] == json!(true) {
            return saw_before;
        }
        if !saw_before {
            readers.fetch_add(1, Ordering::Relaxed);
        }
        saw_before = true;
    }
    false
}

#[test]
fn schema_migration_makes_requests_wait_and_forbids_downgrade() {
    let world = World::empty();
    let root = &world.root;
    root.upload(HOSTILE, &hostile("1.0.0", 2)).expect(204);
    root.upload(HOSTILE, &hostile("2.0.0", 3)).expect(204);
    enable(root, "hostile", "1.0.0");
    assert_eq!(root.read("third/acts").expect(200).body["data"]["migrated"], json!(false));
    let (stop, readers) = (AtomicBool::new(false), AtomicU64::new(0));
    // Each reader sends one request after the other, so that its requests span the migration.
    let spanned = thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let reading: Vec<_> =
            (0..4).map(|_| scope.spawn(|| read_until_migrated(root, &stop, &readers))).collect();
        until_true("each reader is answered", SOON, || readers.load(Ordering::Relaxed) == 4);
        swap(root, "2.0.0").expect(204);
        let ended = reading.into_iter().map(|reader| reader.join().expect("no refused request"));
        ended.collect::<Vec<_>>()
    });
    assert_eq!(spanned, [true; 4], "each reader saw the data before and after the migration");
    assert_eq!(versions(root), both("2.0.0"));
    assert_eq!(root.read("third/acts").expect(200).body["data"]["migrated"], json!(true));
    let refused = swap(root, "1.0.0").expect(400);
    for part in ["third/", "schema 3", "version 1.0.0", "up to 2"] {
        assert!(refused.errors().contains(part), "{refused:?}");
    }
    assert_eq!(versions(root), both("2.0.0"));
}

#[test]
fn a_failed_migration_keeps_the_previous_version() {
    let world = World::empty();
    let root = &world.root;
    root.upload(HOSTILE, &hostile("1.0.0", 4)).expect(204);
    root.upload(HOSTILE, &hostile("2.0.0", 5)).expect(204);
    enable(root, "hostile", "1.0.0");
    let fields = json!({ "plugin_version": "2.0.0", "description": "new" });
    let fields = fields.to_string();
    let refused = root.attempt("POST", "sys/mounts/third/tune", fields.as_bytes()).unwrap();
    assert_eq!(refused.status, 500, "{refused:?}");
    for part in ["plugin hostile 2.0.0", "panicked", "the mount is served as before"] {
        assert!(refused.errors().contains(part), "{refused:?}");
    }
    assert_eq!(versions(root), both("1.0.0"));
    root.read("third/acts").expect(200);
}

#[test]
fn crashing_version_is_replaced_by_previous_version() {
    let world = World::empty();
    let root = &world.root;
    root.upload(HOSTILE, &hostile("1.0.0", 2)).expect(204);
    root.upload(HOSTILE, &hostile("2.0.0", 2)).expect(204);
    enable(root, "hostile", "1.0.0");
    swap(root, "2.0.0").expect(204);
    until_true("the version before serves again", SOON, || {
        root.attempt("GET", "third/panic", b"").unwrap();
        versions(root) == both("1.0.0")
    });
    root.read("third/acts").expect(200);
    assert!(world.bulkhead.printed().contains("event=plugin-rolled-back"));
}

#[test]
fn missing_versions_and_changed_bytes_are_refused() {
    let world = two_probes();
    let root = &world.root;
    for (version, why) in [("3.0.0", "1.0.0, 2.0.0"), ("newest", "\"newest\""), ("^1", "\"^1\"")] {
        let refused = swap(root, version).expect(400);
        assert!(refused.errors().contains(why), "{refused:?}");
        let fields = json!({ "type": "probe", "config": { "plugin_version": version } });
        let refused = root.write("sys/mounts/other", &fields).expect(400);
        assert!(refused.errors().contains(why), "{refused:?}");
    }
    assert_eq!(versions(root), both("1.0.0"));
    swap(root, "1.0.0").expect(200);
    let other_bytes = [in_version("probe", "2.0.0"), vec![0, 2, 1, b'x']].concat();
    let refused = root.upload(PROBE, &other_bytes).expect(400);
    assert!(refused.errors().contains("the bytes of a version never change"), "{refused:?}");
    let refused = root.upload(&format!("{PROBE}?version=9.9.9"), &in_version("probe", "3.0.0"));
    assert!(refused.expect(400).errors().contains("3.0.0"));
}

/// Swaps once `start` opens, and returns the answer and the time from request to answer.
fn swap_at(start: &Barrier, root: &Client, version: &str) -> (Answer, Range<Instant>) {
    start.wait();
    let began = Instant::now();
    let answer = swap(root, version);
    (answer, began..Instant::now())
}

#[test]
fn concurrent_swaps_are_sequential_or_refused() {
    let world = two_probes();
    let root = &world.root;
    root.upload(PROBE, &in_version("probe", "3.0.0")).expect(204);
    let mut overlaps = 0;
    for _ in 0..10 {
        let start = Barrier::new(2);
        let [(one, time), (other, other_time)] = thread::scope(|scope| {
            let start = &start;
            let both = ["2.0.0", "3.0.0"]
                .map(|version| scope.spawn(move || swap_at(start, root, version)));
            both.map(|one| one.join().unwrap())
        });
        let is_overlap = time.start < other_time.end && other_time.start < time.end;
        overlaps += usize::from(is_overlap);
        let answers = [one, other];
        let done = answers.iter().filter(|answer| answer.status == 204).count();
        assert!(done >= 1, "{answers:?}");
        for refused in answers.iter().filter(|answer| answer.status != 204) {
            assert_eq!(refused.status, 503, "{refused:?}");
            assert!(refused.errors().contains("try again"), "{refused:?}");
        }
        let (configured, running) = versions(root);
        assert_eq!(configured, running, "the version that was stored last serves");
        swap(root, "1.0.0").expect(204);
    }
    assert!(overlaps > 0, "no two swaps were under way at the same time");
}

#[test]
fn catalog_shows_every_version_and_keeps_used_version() {
    let world = two_probes();
    let root = &world.root;
    let listed = root.read("sys/plugins/catalog").expect(200);
    let names = listed.body["data"]["secret"].as_array().unwrap();
    assert_eq!(names.iter().filter(|name| **name == json!("probe")).count(), 1);
    let detailed = listed.body["data"]["detailed"].as_array().unwrap();
    let probes = detailed.iter().filter(|plugin| plugin["name"] == json!("probe"));
    let numbers: Vec<&Value> = probes.map(|plugin| &plugin["version"]).collect();
    assert_eq!(numbers, ["1.0.0", "2.0.0"]);
    assert_eq!(root.read(PROBE).expect(200).text("version"), "2.0.0");
    let one = root.read(&format!("{PROBE}?version=v1.0.0")).expect(200);
    assert_eq!(one.text("version"), "1.0.0");
    root.read(&format!("{PROBE}?version=3.0.0")).expect(404);

    let refused = root.delete(PROBE).expect(400);
    assert!(refused.errors().contains("1.0.0, 2.0.0"), "{refused:?}");
    root.delete(&format!("{PROBE}?version=3.0.0")).expect(204);
    let refused = root.delete(&format!("{PROBE}?version=1.0.0")).expect(400);
    assert!(refused.errors().contains("third/"), "{refused:?}");
    swap(root, "2.0.0").expect(204);
    root.delete(&format!("{PROBE}?version=1.0.0")).expect(204);
    let refused = root.delete(PROBE).expect(400);
    assert!(refused.errors().contains("in use by the mount third/"), "{refused:?}");
    assert_eq!(versions(root), both("2.0.0"));
}

/// The hostile guest with the given version and schema 2, which also reads schema 3.
fn tolerant(version: &str) -> Vec<u8> {
    let more = ",\"reads_schema_up_to\":3";
    let room = format!("{OF_HOSTILE}{}", " ".repeat(more.len()));
    let other = format!("\"version\":\"{version}\",\"schema\":2{more}");
    with_text(guest("hostile"), &room, &other)
}

#[test]
fn mount_can_downgrade_to_version_reading_its_schema() {
    let world = World::empty();
    let root = &world.root;
    root.upload(HOSTILE, &tolerant("1.0.0")).expect(204);
    root.upload(HOSTILE, &hostile("2.0.0", 3)).expect(204);
    enable(root, "hostile", "1.0.0");
    swap(root, "2.0.0").expect(204);
    swap(root, "1.0.0").expect(204);
    assert_eq!(root.read("third/acts").expect(200).body["data"]["migrated"], json!(true));
    swap(root, "2.0.0").expect(204);
}

#[test]
fn pin_decides_for_every_mount_without_override() {
    const PIN: &str = "sys/plugins/pins/secret/probe";
    let world = two_probes();
    let root = &world.root;
    let pinned = json!({ "version": "v1.0.0" });
    root.write(PIN, &pinned).expect(204);
    assert_eq!(
        root.read(PIN).expect(200).text("version"),
        "v1.0.0",
        "the version is shown as written"
    );
    let all = root.read("sys/plugins/pins").expect(200);
    let expected = json!([{ "name": "probe", "type": "secret", "version": "v1.0.0" }]);
    assert_eq!(all.body["data"]["pinned_versions"], expected);

    let mount = |path: &str, config: Value| {
        let fields = json!({ "type": "probe", "config": config });
        root.write(&format!("sys/mounts/{path}"), &fields)
    };
    let running = |path: &str| {
        let mount = root.read(&format!("sys/mounts/{path}")).expect(200);
        mount.text("running_plugin_version").to_owned()
    };
    mount("open", json!({})).expect(204);
    assert_eq!(running("open"), "1.0.0", "the pin, and not the newest version");
    let refused = mount("other", json!({ "plugin_version": "2.0.0" })).expect(400);
    assert!(refused.errors().contains("override_pinned_version=true"), "{refused:?}");
    let refused = mount("other", json!({ "override_pinned_version": true })).expect(400);
    assert!(refused.errors().contains("give plugin_version"), "{refused:?}");
    let over = json!({ "plugin_version": "2.0.0", "override_pinned_version": true });
    mount("other", over.clone()).expect(204);
    assert_eq!(running("other"), "2.0.0");
    let refused = swap(root, "2.0.0").expect(400);
    assert!(refused.errors().contains("version 1.0.0 of probe is pinned"), "{refused:?}");
    root.write("sys/mounts/third/tune", &over).expect(204);
    assert_eq!(versions(root), both("2.0.0"));

    root.write(PIN, &json!({ "version": "2.0.0" })).expect(204);
    assert_eq!(running("open"), "1.0.0", "a pin waits for the reload");
    let reload = root.write("sys/plugins/reload/secret/probe", &json!({})).expect(200);
    assert_eq!(running("open"), "2.0.0");
    let id = reload.text("reload_id");
    let status = format!("sys/plugins/reload/backend/status?reload_id={id}");
    assert_eq!(root.read(&status).expect(200).body["data"]["results"]["local"]["error"], json!(""));

    root.write(PIN, &pinned).expect(204);
    let named = json!({ "mounts": ["open", "sys/other/"] });
    root.write("sys/plugins/reload/backend", &named).expect(200);
    assert_eq!((running("open"), running("other")), ("1.0.0".to_owned(), "2.0.0".to_owned()));
    root.delete(PIN).expect(204);
    root.read(PIN).expect(404);
    root.write("sys/plugins/reload/backend", &json!({ "plugin": "probe" })).expect(200);
    assert_eq!(running("open"), "2.0.0", "the newest version, without a pin");
}

#[test]
fn a_pin_reaches_mounts_with_own_versions() {
    const PIN: &str = "sys/plugins/pins/secret/probe";
    let world = two_probes();
    let root = &world.root;
    let reload = || root.write("sys/plugins/reload/secret/probe", &json!({})).expect(200);
    let pair = |configured: &str, running: &str| (configured.to_owned(), running.to_owned());
    root.write(PIN, &json!({ "version": "2.0.0" })).expect(204);
    let repeated = swap(root, "1.0.0").expect(200);
    let warned = "the next reload, which chooses version 2.0.0";
    assert!(repeated.warnings().contains(warned), "{repeated:?}");
    assert_eq!(versions(root), both("1.0.0"), "a pin waits for the reload");
    reload();
    assert_eq!(versions(root), pair("1.0.0", "2.0.0"));
    root.write("sys/mounts/third/tune", &json!({ "description": "d" })).expect(204);
    swap(root, "1.0.0").expect(200);
    assert_eq!(versions(root), pair("1.0.0", "2.0.0"), "a repeated choice moves nothing");

    let over = json!({ "plugin_version": "1.0.0", "override_pinned_version": true });
    root.write("sys/mounts/third/tune", &over).expect(204);
    reload();
    assert_eq!(versions(root), both("1.0.0"), "the override comes before the pin");
    let lifted = json!({ "override_pinned_version": false });
    root.write("sys/mounts/third/tune", &lifted).expect(204);
    assert_eq!(versions(root), pair("1.0.0", "2.0.0"), "without the override, the pin decides");
    root.delete(PIN).expect(204);
    reload();
    assert_eq!(versions(root), both("1.0.0"), "without the pin, the own version counts again");
}

#[test]
fn an_empty_version_clears_a_mounts_choice() {
    let world = two_probes();
    let root = &world.root;
    let cleared = |running: &str| (String::new(), running.to_owned());
    swap(root, "").expect(204);
    assert_eq!(versions(root), cleared("2.0.0"), "the newest version");
    swap(root, "1.0.0").expect(204);
    root.write("sys/plugins/pins/secret/probe", &json!({ "version": "1.0.0" })).expect(204);
    let over = json!({ "plugin_version": "2.0.0", "override_pinned_version": true });
    root.write("sys/mounts/third/tune", &over).expect(204);
    swap(root, "").expect(204);
    assert_eq!(versions(root), cleared("1.0.0"), "the pin, and no override");
    let tuned = root.read("sys/mounts/third/tune").expect(200);
    assert_eq!(tuned.body["data"]["override_pinned_version"], json!(false));
    root.delete("sys/plugins/pins/secret/probe").expect(204);
    let answer = swap(root, "").expect(200);
    assert!(
        answer.warnings().contains("the next reload, which chooses version 2.0.0"),
        "{answer:?}"
    );
    assert_eq!(versions(root), cleared("1.0.0"), "an empty choice that stays empty moves nothing");
}

#[test]
fn pin_survives_restart_and_keeps_version_in_catalog() {
    let (mut server, operators) = open();
    let root = operators.root(&server);
    root.upload(PROBE, &guest("probe")).expect(204);
    root.upload(PROBE, &in_version("probe", "2.0.0")).expect(204);
    root.write("sys/plugins/pins/secret/probe", &json!({ "version": "1.0.0" })).expect(204);
    server.kill();
    server.start_again();
    operators.unseal(&server);
    let root = operators.root(&server);
    root.write("sys/mounts/third", &json!({ "type": "probe" })).expect(204);
    assert_eq!(versions(&root), (String::new(), "1.0.0".to_owned()));
    swap(&root, "1.0.0").expect(204);
    root.delete("sys/mounts/third").expect(204);
    let refused = root.delete(&format!("{PROBE}?version=1.0.0")).expect(400);
    assert!(refused.errors().contains("is pinned"), "{refused:?}");
    root.delete("sys/plugins/pins/secret/probe").expect(204);
    root.delete(&format!("{PROBE}?version=1.0.0")).expect(204);
}

#[test]
fn bad_pins_and_reloads_are_refused_with_remedy() {
    let world = two_probes();
    let root = &world.root;
    for (path, fields, why) in [
        ("pins/secret/probe", json!({}), "version is required"),
        ("pins/secret/probe", json!({ "version": "3.0.0" }), "1.0.0, 2.0.0"),
        ("pins/secret/absent", json!({ "version": "1.0.0" }), "register the plugin"),
        ("pins/secret/database", json!({ "version": "1.0.0" }), "database"),
        ("pins/engine/probe", json!({ "version": "1.0.0" }), "secret, database and auth"),
        ("reload/backend", json!({}), "give plugin or mounts"),
        ("reload/backend", json!({ "plugin": "probe", "mounts": ["third"] }), "not both"),
        ("reload/backend", json!({ "plugin": "database" }), "built in"),
        ("reload/backend", json!({ "plugin": "absent" }), "\"absent\""),
        ("reload/backend", json!({ "mounts": ["third", "nowhere"] }), "\"nowhere\""),
        ("reload/backend", json!({ "mounts": ["third"], "scope": "galaxy" }), "\"galaxy\""),
        ("runtimes/catalog/container/x", json!({}), "no container runtime"),
    ] {
        let refused = root.write(&format!("sys/plugins/{path}"), &fields).expect(400);
        assert!(refused.errors().contains(why), "{path} {fields}: {refused:?}");
    }
    let absent = root.write("sys/plugins/reload/secret/absent", &json!({})).expect(200);
    assert!(absent.body["warnings"][0].as_str().unwrap().contains("nothing was reloaded"));
    root.read("sys/plugins/reload/backend/status?reload_id=x").expect(404);
    assert_eq!(
        root.read("sys/plugins/runtimes/catalog").expect(200).body["data"]["runtimes"],
        json!([])
    );
    for tuned in [
        json!({ "plugin_rollback": "later" }),
        json!({ "plugin_probation": "0s" }),
        json!({ "plugin_probation": "25h" }),
        json!({ "plugin_version": "2.0.0", "plugin_name": "other" }),
    ] {
        root.write("sys/mounts/third/tune", &tuned).expect(400);
    }
    assert_eq!(versions(root), both("1.0.0"));
    let same = swap(root, "1.0.0").expect(200);
    assert!(same.body["warnings"][0].as_str().unwrap().contains("serves the mount already"));
}

#[test]
fn a_rollback_is_shown_at_the_mount() {
    let world = World::empty();
    let root = &world.root;
    for version in ["1.0.0", "2.0.0"] {
        root.upload(HOSTILE, &hostile(version, 2)).expect(204);
    }
    root.upload(HOSTILE, &hostile("3.0.0", 3)).expect(204);
    enable(root, "hostile", "1.0.0");
    let state = || {
        let mount = root.read("sys/mounts/third").expect(200);
        mount.body["data"]["plugin_rollback_state"].clone()
    };
    assert_eq!(state(), Value::Null);
    let condition = || {
        let mount = root.read("sys/mounts/third").expect(200);
        let health = root.read("sys/health").expect(200);
        let codes: Vec<Value> = health.body["degraded"]
            .as_array()
            .map(|all| all.iter().map(|one| one["code"].clone()).collect())
            .unwrap_or_default();
        (mount.text("status").to_owned(), mount.text("status_reason").to_owned(), json!(codes))
    };
    assert_eq!(condition(), ("serving".to_owned(), String::new(), json!([])));
    let crash_until = |status: &str| {
        until_true("the rollback is shown", SOON, || {
            root.attempt("GET", "third/panic", b"").unwrap();
            state()["status"] == json!(status)
        });
    };
    swap(root, "2.0.0").expect(204);
    let (word, reason, codes) = condition();
    assert_eq!((word.as_str(), codes), ("on-probation", json!(["mounts-on-probation"])));
    assert!(reason.contains("crashes bring version 1.0.0 back"), "{reason}");
    crash_until("rolled-back");
    let (word, reason, codes) = condition();
    assert_eq!((word.as_str(), codes), ("rolled-back", json!(["mounts-rolled-back"])));
    assert!(reason.starts_with("version 1.0.0 serves instead of version 2.0.0"), "{reason}");
    let rolled_back = state();
    assert_eq!((&rolled_back["from"], &rolled_back["to"]), (&json!("2.0.0"), &json!("1.0.0")));
    assert!(rolled_back["reason"].as_str().unwrap().contains("crashed 4 times"), "{rolled_back}");
    let metrics = root.read("sys/metrics").expect(200);
    let gauges = metrics.body["Gauges"].as_array().unwrap();
    let rollback = gauges.iter().find(|one| one["Name"] == "bulkhead_mount_plugin_rollback");
    let labels = json!({ "mount": "third/", "status": "rolled-back" });
    assert_eq!(rollback.expect("the metric is there")["Labels"], labels);
    swap(root, "3.0.0").expect(204);
    assert_eq!(state(), Value::Null, "the next swap forgets the last rollback");
    crash_until("failed");
    // The mount rests first, for the breaker is open.
    let (word, _, codes) = condition();
    assert!(["resting", "rollback-failed"].contains(&word.as_str()), "{word}");
    assert_eq!(codes, json!([format!("mounts-{word}")]));
    assert_eq!(versions(root), both("3.0.0"));
    assert!(state()["reason"].as_str().unwrap().contains("schemas up to 2"), "{}", state());
}

#[test]
fn mount_without_rollback_keeps_crashing_version() {
    let world = World::empty();
    let root = &world.root;
    for version in ["1.0.0", "2.0.0"] {
        root.upload(HOSTILE, &hostile(version, 2)).expect(204);
    }
    enable(root, "hostile", "1.0.0");
    let tuned = json!({ "plugin_rollback": "off", "plugin_version": "2.0.0" });
    root.write("sys/mounts/third/tune", &tuned).expect(204);
    until_true("the mount rests", SOON, || {
        root.attempt("GET", "third/panic", b"").unwrap().status == 503
    });
    assert_eq!(versions(root), both("2.0.0"));
    root.write("sys/plugins/reload/backend", &json!({ "mounts": ["third"] })).expect(200);
    root.read("third/acts").expect(200);
}

#[test]
fn a_probation_continues_after_a_restart() {
    let (mut server, operators) = open();
    let root = operators.root(&server);
    for version in ["1.0.0", "2.0.0"] {
        root.upload(HOSTILE, &hostile(version, 2)).expect(204);
    }
    enable(&root, "hostile", "1.0.0");
    swap(&root, "2.0.0").expect(204);
    server.kill();
    server.start_again();
    operators.unseal(&server);
    let root = operators.root(&server);
    assert_eq!(versions(&root), both("2.0.0"));
    until_true("the version before serves again", SOON, || {
        root.attempt("GET", "third/panic", b"").unwrap();
        versions(&root) == both("1.0.0")
    });
}

/// The hostile guest with the given version, and a deadline of nine seconds instead of one.
fn patient(version: &str) -> Vec<u8> {
    with_text(hostile(version, 2), ",\"deadline\":1", ",\"deadline\":9")
}

#[test]
fn looping_version_is_replaced_before_call_deadline() {
    let world = World::empty();
    let root = &world.root;
    for version in ["1.0.0", "2.0.0"] {
        root.upload(HOSTILE, &patient(version)).expect(204);
    }
    enable(root, "hostile", "1.0.0");
    swap(root, "2.0.0").expect(204);
    let looped = root.attempt("GET", "third/endless-loop", b"").unwrap();
    assert!(looped.errors().contains("computed for more than 1 s"), "{looped:?}");
    until_true("the version before serves again", SOON, || {
        root.attempt("GET", "third/endless-loop", b"").unwrap();
        versions(root) == both("1.0.0")
    });
    root.read("third/acts").expect(200);
}

#[test]
fn a_shorter_deadline_applies_only_during_probation() {
    let world = World::empty();
    let root = &world.root;
    for version in ["1.0.0", "2.0.0"] {
        root.upload(HOSTILE, &patient(version)).expect(204);
    }
    enable(root, "hostile", "1.0.0");
    let tuned = json!({
        "plugin_version": "2.0.0",
        "plugin_probation": "1s",
        "add_grants": ["limit:deadline=3s"],
    });
    root.write("sys/mounts/third/tune", &tuned).expect(204);
    until_true("the probation is over", SOON, || {
        let looped = root.attempt("GET", "third/endless-loop", b"").unwrap();
        looped.errors().contains("ran past its deadline")
    });
    assert_eq!(versions(root), both("2.0.0"));
}

/// The hostile guest with the given version and schema 7; its migration fails at that record.
fn failing_at(version: &str, record: &str) -> Vec<u8> {
    let at = format!("a-step-fails-at={record}");
    with_text(hostile(version, 7), "a-step-fails-at=none.", &at)
}

/// Mounts version 1.0.0 of the hostile guest with 5,000 records of schema 6.
pub(crate) fn five_thousand_records(root: &Client) {
    root.upload(HOSTILE, &hostile("1.0.0", 6)).expect(204);
    enable(root, "hostile", "1.0.0");
    for _ in 0..5 {
        root.read("third/fill").expect(200);
    }
    assert_eq!(rows(root), (5_000, 0));
}

/// The number of records of the older and of the newer schema.
#[track_caller]
pub(crate) fn rows(root: &Client) -> (u64, u64) {
    let rows = root.read("third/rows").expect(200);
    let count = |schema: &str| rows.body["data"][schema].as_u64().expect("a number");
    (count("old"), count("new"))
}

#[test]
fn five_thousand_records_migrate_stepwise_while_requests_wait() {
    let world = World::empty();
    let root = &world.root;
    five_thousand_records(root);
    root.upload(HOSTILE, &hostile("2.0.0", 7)).expect(204);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                root.read("third/acts").expect(200);
            }
        });
        swap(root, "2.0.0").expect(204);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(versions(root), both("2.0.0"));
    assert_eq!(rows(root), (0, 5_000));
    assert!(world.bulkhead.printed().contains("event=migration-in-steps"));
    let refused = swap(root, "1.0.0").expect(400);
    assert!(refused.errors().contains("have schema 7"), "{refused:?}");
}

#[test]
fn a_repaired_version_completes_a_failed_migration() {
    let (mut server, operators) = open();
    let root = operators.root(&server);
    five_thousand_records(&root);
    root.upload(HOSTILE, &failing_at("2.0.0", "02700")).expect(204);
    let tuned = json!({ "plugin_version": "2.0.0" }).to_string();
    let failed = root.attempt("POST", "sys/mounts/third/tune", tuned.as_bytes()).unwrap();
    assert_eq!(failed.status, 500, "{failed:?}");
    for part in ["the record 02700 is broken", "the mount is unavailable until"] {
        assert!(failed.errors().contains(part), "{failed:?}");
    }
    let check_unavailable = |root: &Client| {
        let refused = root.attempt("GET", "third/acts", b"").unwrap();
        assert_eq!(refused.status, 503, "{refused:?}");
        assert!(refused.errors().contains("the record 02700 is broken"), "{refused:?}");
        let mount = root.read("sys/mounts/third").expect(200);
        assert_eq!(mount.text("status"), "migration-unfinished", "{mount:?}");
        assert!(mount.text("status_reason").contains("02700 is broken"), "{mount:?}");
        let health = root.read("sys/health").expect(200).body["degraded"].clone();
        assert_eq!(health[0]["code"], "mounts-migration-unfinished", "{health}");
        let refused = swap(root, "1.0.0").expect(400);
        for part in ["between schema 6 and schema 7", "5 steps", "writes schema 6"] {
            assert!(refused.errors().contains(part), "{refused:?}");
        }
    };
    check_unavailable(&root);
    server.kill();
    server.start_again();
    operators.unseal(&server);
    let root = operators.root(&server);
    until_true("the migration goes on and fails again", SOON, || {
        let mount = root.read("sys/mounts/third").expect(200);
        mount.text("unavailable_reason").contains("the record 02700 is broken")
    });
    check_unavailable(&root);
    let move_away = json!({ "from": "third", "to": "fourth" });
    let refused = root.write("sys/remount", &move_away).expect(400);
    assert!(refused.errors().contains("finish the migration"), "{refused:?}");
    root.upload(HOSTILE, &failing_at("2.0.0", "02700")).expect(204);
    check_unavailable(&root);
    root.upload(HOSTILE, &hostile("2.0.1", 7)).expect(204);
    swap(&root, "2.0.1").expect(204);
    assert_eq!(versions(&root), both("2.0.1"));
    assert_eq!(rows(&root), (0, 5_000));
}

#[test]
fn failed_first_migration_step_keeps_previous_version() {
    let world = World::empty();
    let root = &world.root;
    five_thousand_records(root);
    root.upload(HOSTILE, &failing_at("2.0.0", "00100")).expect(204);
    let tuned = json!({ "plugin_version": "2.0.0" }).to_string();
    let failed = root.attempt("POST", "sys/mounts/third/tune", tuned.as_bytes()).unwrap();
    assert_eq!(failed.status, 500, "{failed:?}");
    assert!(failed.errors().contains("the mount is served as before"), "{failed:?}");
    assert_eq!((versions(root), rows(root)), (both("1.0.0"), (5_000, 0)));
}
