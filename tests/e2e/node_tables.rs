//! Two servers on one PostgreSQL database: a mount, plugin, pin, quota or policy that one node
//! changed serves on the other from the answer on.

use crate::postgres_nodes::Pair;
use crate::versions;
use bulkhead_tests::Client;
use bulkhead_tests::paths::{guest, in_version};
use bulkhead_tests::wait::{StopOnDrop, until_true};
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PROBE: &str = "sys/plugins/catalog/secret/probe";
/// Longest wait for background work.
const SOON: Duration = Duration::from_secs(30);

#[track_caller]
fn enable(root: &Client, path: &str, kind: &str) {
    root.write(&format!("sys/mounts/{path}"), &json!({ "type": kind })).expect(204);
}

#[test]
fn mount_of_one_node_serves_on_other() {
    let pair = Pair::start();
    let [one, other] = pair.roots();
    for round in 0..5 {
        let (maker, user) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        enable(maker, "team", "kv");
        user.write("team/a", &json!({ "round": round })).expect(204);
        maker.write("sys/mounts/team/tune", &json!({ "description": "tuned" })).expect(204);
        assert_eq!(user.read("sys/mounts/team/tune").expect(200).text("description"), "tuned");
        let moved = json!({ "from": "team", "to": "crew" });
        let id = maker.write("sys/remount", &moved).expect(200).text("migration_id").to_owned();
        until_true("the mount is moved", SOON, || {
            let status = user.read(&format!("sys/remount/status/{id}")).expect(200);
            status.body["data"]["migration_info"]["status"] == "success"
        });
        user.read("team/a").expect(404);
        assert_eq!(user.read("crew/a").expect(200).body["data"]["round"], round);
        maker.delete("sys/mounts/crew").expect(204);
        user.read("crew/a").refused(404, "no handler for route");
    }
}

#[test]
fn writes_of_other_node_end_with_their_mount() {
    let pair = Pair::start();
    let [one, other] = pair.roots();
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for writer in 0..4 {
            let (other, stop, written) = (&other, &stop, &written);
            scope.spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let path = format!("team/{writer}-{number}");
                    let answer = other.write(&path, &json!({ "a": 1 }));
                    assert!([204, 404].contains(&answer.status), "{answer:?}");
                    written.fetch_add(u64::from(answer.status == 204), Ordering::Relaxed);
                }
            });
        }
        for _ in 0..8 {
            enable(&one, "team", "kv");
            let mount = one.read("sys/mounts/team").expect(200).text("uuid").to_owned();
            let before = written.load(Ordering::Relaxed);
            until_true("the other node writes", SOON, || {
                written.load(Ordering::Relaxed) > before + 20
            });
            one.delete("sys/mounts/team").expect(204);
            let left = pair
                .database
                .query(&format!("SELECT count(*) FROM bulkhead_record WHERE key LIKE '{mount}/%'"));
            assert_eq!(left.trim(), "0", "rows of a removed mount are left");
        }
    });
}

#[test]
fn plugin_of_one_node_serves_on_other() {
    let pair = Pair::start();
    let [one, other] = pair.roots();
    one.upload(PROBE, &guest("probe")).expect(204);
    enable(&other, "third", "probe");
    other.write("third/count/visits", &json!({})).expect(204);
    other.upload(PROBE, &in_version("probe", "2.0.0")).expect(204);
    one.write("sys/plugins/pins/secret/probe", &json!({ "version": "1.0.0" })).expect(204);
    let pin = other.read("sys/plugins/pins/secret/probe").expect(200);
    assert_eq!(pin.text("version"), "1.0.0");
    other.delete("sys/plugins/pins/secret/probe").expect(204);
    one.read("sys/plugins/pins/secret/probe").expect(404);
    let (stop, served) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for _ in 0..2 {
            let (other, stop, served) = (&other, &stop, &served);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    other.read("third/note/visits").expect(200);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..10 {
            let version = if round % 2 == 0 { "2.0.0" } else { "1.0.0" };
            let before = served.load(Ordering::Relaxed);
            one.write("sys/mounts/third/tune", &json!({ "plugin_version": version })).expect(204);
            let mount = other.read("sys/mounts/third").expect(200);
            assert_eq!(mount.text("running_plugin_version"), version);
            until_true("the other node serves", SOON, || {
                served.load(Ordering::Relaxed) > before + 5
            });
        }
    });
    one.delete("sys/mounts/third").expect(204);
    for version in ["1.0.0", "2.0.0"] {
        one.delete(&format!("{PROBE}?version={version}")).expect(204);
    }
    other.read(PROBE).expect(404);
    other.write("sys/mounts/third", &json!({ "type": "probe" })).expect(400);
}

#[test]
fn requests_on_other_node_wait_for_migration() {
    let pair = Pair::start();
    let [one, other] = pair.roots();
    versions::five_thousand_records(&one);
    other.upload(versions::HOSTILE, &versions::hostile("2.0.0", 7)).expect(204);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let read = || {
            let (mut answered, mut refused) = (0_u64, 0_u64);
            while !stop.load(Ordering::Relaxed) {
                let answer = other.read("third/acts");
                match answer.status {
                    200 => answered += 1,
                    _ => {
                        let refusal = answer.expect(503).errors();
                        let is_named = ["migrates the data", "migrated by another node"];
                        assert!(is_named.iter().any(|name| refusal.contains(name)), "{refusal}");
                        refused += 1;
                    }
                }
            }
            (answered, refused)
        };
        let (reader, begun) = (scope.spawn(read), Instant::now());
        versions::swap(&one, "2.0.0").expect(204);
        other.read("third/acts").expect(200);
        stop.store(true, Ordering::Relaxed);
        let (answered, refused) = reader.join().expect("no other refusal");
        // A request that was inside of the mount when the migration began has to be repeated, and
        // requests wait for 10 s at most.
        let most = 1 + begun.elapsed().as_secs() / 10;
        assert!(answered > 0 && refused <= most, "{answered} answered, {refused} refused");
    });
    let mount = other.read("sys/mounts/third").expect(200);
    assert_eq!(mount.text("running_plugin_version"), "2.0.0");
    assert_eq!(versions::rows(&other), (0, 5_000));
}

#[test]
fn tightened_policy_and_quota_hold_on_other() {
    let pair = Pair::start();
    let [one, other] = pair.roots();
    one.write("secret/a", &json!({ "a": 1 })).expect(204);
    let policy = |rules: &str| json!({ "policy": format!("path \"secret/a\" {{ {rules} }}") });
    let reads = policy("capabilities = [\"read\"]");
    one.write("sys/policies/acl/reader", &reads).expect(204);
    let created = other.write("auth/token/create", &json!({ "policies": ["reader"] })).expect(200);
    let token = created.body["auth"]["client_token"].clone();
    let holders = [0, 1].map(|index| pair.nodes[index].client(token.as_str()));
    for _ in 0..10 {
        holders[1].read("secret/a").expect(200);
        one.write("sys/policies/acl/reader", &policy("capabilities = [\"deny\"]")).expect(204);
        holders[1].read("secret/a").expect(403);
        other.write("sys/policies/acl/reader", &reads).expect(204);
        holders[0].read("secret/a").expect(200);
    }
    let quota = json!({ "path": "secret", "rate": 2, "interval": "1h" });
    one.write("sys/quotas/rate-limit/slow", &quota).expect(204);
    let statuses = [0; 3].map(|_| other.read("secret/a").status);
    assert_eq!(statuses, [200, 200, 429]);
    one.delete("sys/quotas/rate-limit/slow").expect(204);
    other.read("secret/a").expect(200);
    one.write("sys/config/auditing/request-headers/x-team", &json!({ "hmac": true })).expect(204);
    other.read("sys/config/auditing/request-headers/x-team").expect(200);
}
