//! Leases end for each reason, timers wake, begun work is finished, conflicts are run again, and no
//! guest gets away with anything.

use crate::bed::{Bed, error, request, store_options};
use bulkhead_store::{Address, DataDirectory, IndexColumns, Space, Store};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn plugin_receives_reason_of_each_lease_end() {
    let bed = Bed::new("reasons").await;
    let (status, short) = bed.write("probe/lease/short", json!({"ttl": 1})).await;
    assert_eq!((status, short["lease_duration"].as_u64()), (200, Some(1)), "{short}");
    assert_eq!(bed.noted("short").await, "Expired");

    let (_, long) = bed.write("probe/lease/long", json!({"ttl": 600})).await;
    let id = long["lease_id"].as_str().unwrap();
    assert!(id.starts_with("probe/lease/long/"), "{id}");
    assert_eq!(bed.write("sys/leases/revoke", json!({"lease_id": id})).await.0, 204);
    assert_eq!(bed.noted("long").await, "Requested");
    assert_eq!(
        bed.write("sys/leases/revoke", json!({"lease_id": id})).await.0,
        204,
        "gone is revoked"
    );
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
async fn token_end_revokes_its_leases_and_children() {
    let bed = Bed::new("tokens").await;
    let policy = json!({"policy": "path \"probe/*\" { capabilities = [\"read\", \"update\"] }\n\
                                   path \"auth/token/create\" { capabilities = [\"update\"] }"});
    assert_eq!(bed.write("sys/policies/acl/prober", policy).await.0, 204);
    let token = |answer: Value| answer["auth"]["client_token"].as_str().unwrap().to_owned();
    let parent = token(bed.write("auth/token/create", json!({"policies": "prober"})).await.1);
    let child = token(bed.call_as(&parent, Verb::Write, "auth/token/create", json!({})).await.1);
    let (status, leased) =
        bed.call_as(&child, Verb::Write, "probe/lease/of-child", json!({"ttl": 600})).await;
    assert_eq!(status, 200, "{leased}");
    assert_eq!(
        bed.call_as(&child, Verb::Write, "sys/policies/acl/x", json!({"policy": ""})).await.0,
        403
    );

    assert_eq!(bed.write("auth/token/revoke", json!({"token": parent})).await.0, 204);
    assert_eq!(
        bed.call_as(&parent, Verb::Read, "probe/note/x", json!({})).await.0,
        403,
        "refused at once"
    );
    assert_eq!(bed.noted("of-child").await, "TokenEnded");
    assert_eq!(bed.call_as(&child, Verb::Read, "probe/note/x", json!({})).await.0, 403);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_never_outlives_requesting_token() {
    let bed = Bed::new("longest").await;
    let policy = json!({"policy": "path \"*\" { capabilities = [\"update\"] }"});
    bed.write("sys/policies/acl/all", policy).await;
    let (_, answer) =
        bed.write("auth/token/create", json!({"policies": "all", "ttl": "30s"})).await;
    let token = answer["auth"]["client_token"].as_str().unwrap();
    let (_, leased) =
        bed.call_as(token, Verb::Write, "probe/lease/capped", json!({"ttl": 600})).await;
    assert!(leased["lease_duration"].as_u64().unwrap() <= 30, "{leased}");
    let renewal = json!({"lease_id": leased["lease_id"], "increment": 900});
    let (_, renewed) = bed.write("sys/leases/renew", renewal).await;
    assert!(renewed["lease_duration"].as_u64().unwrap() <= 30, "{renewed}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_end_during_lease_renewal_ends_lease() {
    let bed = Bed::new("renewed").await;
    bed.write(
        "sys/policies/acl/all",
        json!({"policy": "path \"*\" { capabilities = [\"update\"] }"}),
    )
    .await;
    let (_, answer) = bed.write("auth/token/create", json!({"policies": "all"})).await;
    let token = answer["auth"]["client_token"].as_str().unwrap();
    let (_, leased) =
        bed.call_as(token, Verb::Write, "probe/lease/slow", json!({"ttl": 600})).await;
    let fields = json!({"lease_id": leased["lease_id"], "increment": 900});
    let (core, renewal) =
        (Arc::clone(&bed.service), request("root", Verb::Write, "sys/leases/renew", fields));
    let renewal = tokio::spawn(async move { core.handle(renewal).await.into_bytes().0 });
    bed.noted("renewing-slow").await;
    // The checkpoint before the note forgot the renewal's reads of lease and token.
    assert_eq!(bed.write("auth/token/revoke", json!({"token": token})).await.0, 204);
    bed.write("probe/count/go-slow", json!({})).await;
    assert_eq!(renewal.await.unwrap(), 400);
    assert_eq!(bed.noted("slow").await, "TokenEnded");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unendable_lease_is_kept_and_retried() {
    let bed = Bed::new("stuck").await;
    let (_, leased) = bed.write("probe/lease/stuck", json!({"ttl": 600})).await;
    let id = json!({"lease_id": leased["lease_id"]});
    let (status, refused) = bed.write("sys/leases/revoke", id.clone()).await;
    assert_eq!(status, 502, "{refused}");
    let (_, lease) = bed.write("sys/leases/lookup", id.clone()).await;
    assert_eq!(lease["data"]["last_error"], "it is stuck", "{lease}");
    let (status, refused) = bed.write("sys/leases/renew", id).await;
    assert_eq!(status, 400, "a lease that is being ended cannot be renewed: {refused}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_wake_again_after_failure_and_restart() {
    let bed = Bed::new("timers").await;
    assert_eq!(bed.write("probe/timer/soon", json!({"after": 0})).await.0, 204);
    assert_eq!(bed.noted("soon").await, 1);
    bed.write("probe/timer/twice", json!({"after": 0})).await;
    assert_eq!(bed.noted("twice").await, 2);
    bed.write("probe/timer/later", json!({"after": 300})).await;
    let directory = bed.stop().await;
    let bed = Bed::open(directory).await;
    assert_eq!(bed.noted("later").await, 1);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wake_may_reschedule_own_key_at_same_time() {
    let bed = Bed::new("same").await;
    for name in ["same", "same-stored"] {
        assert_eq!(bed.write(&format!("probe/timer/{name}"), json!({})).await.0, 204);
    }
    for name in ["same", "same-stored"] {
        bed.noted_as("probe", name, &json!(3)).await;
    }
    let directory = bed.stop().await;
    assert_eq!(left_in(&directory).await.0, 0, "the third wake did not schedule it again");
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn index_declaring_component_sees_record_creation_and_modification() {
    let bed = Bed::new("index").await;
    let place = async |name: &str| {
        let (status, answer) = bed.write(&format!("probe/place/{name}"), json!({})).await;
        assert_eq!(status, 200, "{answer}");
        answer["data"].clone()
    };
    let first = place("a").await["index"].as_u64().unwrap();
    assert_eq!(place("b").await["index"], first + 1);
    let again = json!({"before": [first, first], "index": first + 2, "after": [first, first + 2]});
    assert_eq!(place("a").await, again);
    let (one, other) = tokio::join!(place("c"), place("d"));
    let mut indexes = [one["index"].as_u64().unwrap(), other["index"].as_u64().unwrap()];
    indexes.sort_unstable();
    assert_eq!(indexes, [first + 3, first + 4], "each commit has its own index, without a gap");
    bed.end().await;
}

/// The lane of the timers that hang, and another.
fn in_lane(lane: &str) -> Value {
    json!({"after": 0, "lane": lane})
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_wakes_delay_only_their_own_lane() {
    let bed = Bed::new("lanes").await;
    for number in 0..4 {
        let name = format!("hang-{number}");
        bed.write(&format!("probe/timer/{name}"), in_lane("slow")).await;
        assert_eq!(bed.noted(&name).await, 1);
    }
    bed.write("probe/timer/behind", in_lane("slow")).await;
    bed.write("probe/timer/aside", in_lane("quick")).await;
    assert_eq!(bed.noted("aside").await, 1);
    assert_eq!(bed.read("probe/note/behind").await.0, 404, "four works of a lane run at once");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_wake_pause_depends_on_failure_code() {
    let bed = Bed::new("backoff").await;
    for (name, earliest, latest) in [("refused", 8_000, 12_000), ("away", 800, 1_200)] {
        bed.write(&format!("probe/timer/{name}"), json!({"after": 0})).await;
        let line = bed.line(&format!("/{name}\"")).await;
        let next =
            line.split("(\"next\", \"").nth(1).and_then(|rest| rest.split("ms").next()).unwrap();
        assert!((earliest..=latest).contains(&next.parse::<u64>().unwrap()), "{line}");
    }
    assert_eq!(bed.noted("away").await, 2);
    let (_, shown) = bed.call_as("root", Verb::Read, "sys/metrics", json!({})).await;
    let counted = json!({
        "Name": "bulkhead_mount_failed_wakes_total", "Count": 2, "Labels": { "mount": "probe/" },
    });
    assert!(shown["Counters"].as_array().unwrap().contains(&counted), "{shown}");
    assert_eq!(
        bed.read("probe/note/refused").await.0,
        404,
        "a refusal waits longer than an outage"
    );
    bed.end().await;
}

/// The store of a directory that nobody holds.
async fn opened(directory: &Path) -> Arc<Store> {
    let data_directory = DataDirectory::hold(store_options(directory)).await.unwrap();
    data_directory.open(bulkhead_store::dev_key(&data_directory).unwrap()).await.unwrap()
}

/// Rows of timers, rows of guards among these timers, and open intents in a closed store.
async fn left_in(directory: &Path) -> (u32, usize, usize) {
    let store = opened(directory).await;
    let timers = store.count(Space::Timer, "", 99).await.unwrap();
    let guards = store.scan_owned(Space::Timer, "guard").page().await.unwrap();
    let guards = guards.map_or(0, |page| page.len());
    let data = store.begin().keys(Space::Data, "", "", 999).await.unwrap();
    store.close().await;
    (timers, guards, data.iter().filter(|key| key.contains("/intent/")).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn uncancelled_guard_wakes_plugin_after_call_end() {
    let bed = Bed::new("guards").await;
    assert_eq!(bed.write("probe/guard/left", json!({"how": "left"})).await.0, 204);
    assert_eq!(bed.noted("left").await, 1);
    assert_eq!(bed.write("probe/guard/failed", json!({"how": "failed"})).await.0, 400);
    assert_eq!(bed.noted("failed").await, 1);
    assert_eq!(bed.write("probe/guard/cancelled", json!({"how": "cancelled"})).await.0, 204);
    assert_eq!(bed.write("probe/guard/dropped", json!({"how": "dropped"})).await.0, 400);
    let (status, refused) = bed.write("probe/guard/many", json!({"how": "many"})).await;
    assert_eq!(status, 400, "{refused}");
    assert!(error(&refused).contains("at most 64 keys"), "{refused}");
    for name in ["cancelled", "dropped", "many", "many-1"] {
        assert_eq!(bed.read(&format!("probe/note/{name}")).await.0, 404, "{name}");
    }
    let directory = bed.stop().await;
    assert_eq!(left_in(&directory).await, (0, 0, 0));
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wake_leaving_guard_on_own_key_is_retried() {
    let bed = Bed::new("again").await;
    bed.write("probe/timer/again", json!({"after": 0})).await;
    assert_eq!(bed.noted("again").await, 1, "the writes of the attempt are stored");
    let line = bed.line("/again\"").await;
    assert!(
        line.contains("(\"attempt\", \"1\")") && line.contains("without cancelling the guard"),
        "{line}"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_intent_leaves_neither_record_nor_guard() {
    let bed = Bed::new("intent").await;
    let (status, answer) = bed.write("probe/rotate/a", json!({"candidate": "one"})).await;
    assert_eq!(status, 204, "{answer}");
    assert_eq!(bed.noted("a").await, "one");
    let directory = bed.stop().await;
    assert_eq!(left_in(&directory).await, (0, 0, 0));
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_call_after_checkpoint_is_completed_at_once() {
    let bed = Bed::new("forward").await;
    let (status, lost) =
        bed.write("probe/rotate/b", json!({"candidate": "two", "how": "lost"})).await;
    assert_eq!(status, 502, "{lost}");
    assert_eq!(bed.noted("b").await, "two", "the change was made, so it is rolled forward");
    assert_eq!(bed.noted("recovered-b").await, 1);
    assert_eq!(
        bed.write("probe/rotate/c", json!({"candidate": "three", "how": "unmade"})).await.0,
        502
    );
    assert_eq!(bed.noted("c").await, "three again");
    assert_eq!(bed.noted("outside-c").await, "three again");
    let directory = bed.stop().await;
    assert_eq!(left_in(&directory).await, (0, 0, 0));
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_recovery_keeps_attempt_count_despite_new_guard() {
    let bed = Bed::new("late").await;
    assert_eq!(
        bed.write("probe/rotate/late", json!({"candidate": "four", "how": "lost"})).await.0,
        502
    );
    assert_eq!(bed.noted("recovered-late").await, 3);
    assert_eq!(bed.noted("late").await, "four");
    bed.end().await;
}

/// Starts a change made outside; the change then waits, for `go` or for its end.
async fn waiting(bed: &Bed, name: &str) -> tokio::task::JoinHandle<u16> {
    let fields = json!({"candidate": "five", "how": "waits"});
    let (core, request) = (
        Arc::clone(&bed.service),
        request("root", Verb::Write, &format!("probe/rotate/{name}"), fields),
    );
    let call = tokio::spawn(async move { core.handle(request).await.into_bytes().0 });
    assert_eq!(bed.noted(&format!("outside-{name}")).await, "five");
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn guard_never_wakes_plugin_during_its_call() {
    let bed = Bed::new("running").await;
    let call = waiting(&bed, "d").await;
    let (status, refused) = bed.write("probe/rotate/d", json!({"candidate": "another"})).await;
    assert_eq!(status, 503, "a second change at a time is refused: {refused}");
    // Due timers are woken meanwhile, but not the guard.
    bed.write("probe/timer/meanwhile", json!({"after": 0})).await;
    assert_eq!(bed.noted("meanwhile").await, 1);
    assert_eq!(bed.read("probe/note/recovered-d").await.0, 404);
    bed.write("probe/count/go-d", json!({})).await;
    assert_eq!(call.await.unwrap(), 204);
    assert_eq!(bed.noted("d").await, "five");
    let directory = bed.stop().await;
    assert_eq!(left_in(&directory).await, (0, 0, 0));
    let bed = Bed::open(directory).await;
    assert_eq!(bed.read("probe/note/recovered-d").await.0, 404, "there was nothing to recover");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_dead_process_completes_at_next_start() {
    let bed = Bed::new("dead").await;
    let call = waiting(&bed, "e").await;
    // As in a dying process: the call gets no further, and nobody cleans up.
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(bed.read("probe/note/e").await.0, 404);
    let directory = bed.stop().await;
    assert_eq!(left_in(&directory).await, (1, 1, 1), "the guard is there, and due in minutes only");
    let bed = Bed::open(directory).await;
    assert_eq!(bed.noted("e").await, "five");
    assert_eq!(bed.noted("recovered-e").await, 1);
    let directory = bed.stop().await;
    assert_eq!(left_in(&directory).await, (0, 0, 0));
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn work_interrupted_by_seal_completes_after_unsealing() {
    let bed = Bed::new("cut").await;
    let call = waiting(&bed, "h").await;
    assert_eq!(bed.write("sys/seal", json!({})).await.0, 204);
    let (status, refused) = bed.read("probe/note/h").await;
    assert_eq!((status, error(&refused)), (503, "Vault is sealed"));
    let key = bed.service.dev_unseal_key().await.unwrap();
    let (status, open) = bed.write("sys/unseal", json!({"key": key.expose()})).await;
    assert_eq!((status, &open["sealed"]), (200, &json!(false)), "{open}");
    // The call ended before the service was open again, and only the answer may still be on the
    // way.
    assert_eq!(call.await.unwrap(), 503);
    assert_eq!(bed.noted("h").await, "five");
    assert_eq!(bed.noted("recovered-h").await, 1);
    assert_eq!(
        bed.read("sys/seal-status").await.1["sealed"],
        json!(false),
        "the server stays unsealed"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_enables_of_one_path_succeed_once() {
    let bed = Bed::new("twice").await;
    for number in 0..20 {
        let path = format!("sys/mounts/p{number}");
        let (one, other) = tokio::join!(
            bed.write(&path, json!({"type": "probe"})),
            bed.write(&path, json!({"type": "probe"}))
        );
        let mut statuses = [one.0, other.0];
        statuses.sort_unstable();
        assert_eq!(statuses, [204, 400], "{one:?} {other:?}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_with_change_finished_elsewhere_stores_nothing() {
    let bed = Bed::new("overtaken").await;
    let call = waiting(&bed, "f").await;
    assert_eq!(bed.write("probe/recover/f", json!({})).await.0, 204);
    assert_eq!(bed.noted("f").await, "five");
    assert_eq!(bed.write("probe/rotate/f", json!({"candidate": "six"})).await.0, 204);
    assert_eq!(bed.noted("f").await, "six");
    bed.write("probe/count/go-f", json!({})).await;
    assert_ne!(call.await.unwrap(), 204, "the change with an outdated candidate fails");
    assert_eq!(bed.noted("f").await, "six");
    let directory = bed.stop().await;
    assert_eq!(left_in(&directory).await, (0, 0, 0));
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn confirm_without_intent_fails_despite_effective_candidate() {
    let bed = Bed::new("removed").await;
    let call = waiting(&bed, "g").await;
    assert_eq!(bed.write("probe/recover/g", json!({})).await.0, 204);
    bed.write("probe/count/go-g", json!({})).await;
    assert_eq!(call.await.unwrap(), 503);
    assert_eq!(bed.noted("g").await, "five", "as the other call stored it");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn component_reads_whole_folder_and_detects_change() {
    let bed = Bed::new("folders").await;
    let folder = async || bed.read("probe/folder").await.1["data"].clone();
    assert_eq!(folder().await["notes"], json!({}));
    for name in ["b", "a"] {
        bed.write(&format!("probe/count/{name}"), json!({})).await;
    }
    let before = folder().await;
    assert_eq!(before["notes"], json!({"a": "1", "b": "1"}));
    assert_eq!(folder().await, before);
    bed.write("probe/place/elsewhere", json!({})).await;
    assert_eq!(folder().await["revision"], before["revision"]);
    bed.write("probe/count/a", json!({})).await;
    let after = folder().await;
    assert_eq!(after["notes"], json!({"a": "2", "b": "1"}));
    assert_ne!(after["revision"], before["revision"]);
    bed.end().await;
}

/// Writes another schema into the record of a mount, as an older or newer component would have.
pub(crate) async fn set_schema(directory: &Path, mount: &str, schema: u32) {
    let store = opened(directory).await;
    let address = Address::new(Space::Core, format!("mount/{mount}"));
    let mut unit = store.begin();
    let stored = unit.get(&address).await.unwrap().unwrap();
    let mut record: Value = serde_json::from_slice(&stored.body).unwrap();
    record["schema"] = json!(schema);
    unit.put(address, serde_json::to_vec(&record).unwrap(), IndexColumns::default());
    unit.commit().await.unwrap();
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn older_schema_is_migrated_once_and_newer_refused() {
    let bed = Bed::new("schema").await;
    assert_eq!(bed.read("probe/note/migrated").await.0, 404, "a new mount has nothing to migrate");
    let directory = bed.stop().await;
    set_schema(&directory, "probe/", 0).await;
    let bed = Bed::open(directory).await;
    assert_eq!(bed.noted("migrated").await, 0);
    let directory = bed.stop().await;
    set_schema(&directory, "probe/", 9).await;
    let refused = Bed::try_open(directory.clone()).await.err().unwrap();
    assert_eq!(refused.kind.status(), 503);
    assert!(
        refused.message.contains("newer version of probe (schema 9, this one knows 1)"),
        "{refused}"
    );
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_migrated_in_steps_exactly_once() {
    let bed = Bed::new("steps").await;
    for number in 0..1_100 {
        let path = format!("probe/count/paged{number:04}");
        assert_eq!(bed.write(&path, json!({})).await.0, 204);
    }
    let directory = bed.stop().await;
    set_schema(&directory, "probe/", 0).await;
    let bed = Bed::open(directory).await;
    for number in 0..1_100 {
        assert_eq!(bed.noted(&format!("paged{number:04}")).await, 2, "{number}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn contended_counter_is_exact() {
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
async fn misbehaving_guest_fails_only_its_own_request() {
    let bed = Bed::new("hostile").await;
    let began = Instant::now();
    let (status, answer) = bed.read("probe/loop").await;
    assert_eq!(status, 502, "{answer}");
    assert!(
        error(&answer).contains("plugin probe 1.0.0 (sha256 ")
            && error(&answer).contains("deadline"),
        "{answer}"
    );
    assert!(began.elapsed() < Duration::from_secs(3), "stopped after {:?}", began.elapsed());
    for (path, cause) in
        [("memory", "64 MiB of memory"), ("stack", "was stopped"), ("panic", "was stopped")]
    {
        let (status, answer) = bed.read(&format!("probe/{path}")).await;
        assert_eq!(status, 500, "{path}: {answer}");
        assert!(error(&answer).contains(cause), "{path}: {answer}");
        assert_eq!(
            bed.write("probe/count/after", json!({})).await.0,
            204,
            "the next request after {path}"
        );
    }
    let (status, answer) = bed.read("probe/unmarked").await;
    assert_eq!(status, 500, "{answer}");
    let (status, answer) = bed.read("probe/outside/mount").await;
    assert_eq!(status, 400, "{answer}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn password_fragment_scrubbed_from_errors_warnings_and_log() {
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
async fn longest_mount_prefix_serves_and_overlaps_are_refused() {
    let bed = Bed::new("mounts").await;
    assert_eq!(bed.write("sys/mounts/team/a", json!({"type": "probe"})).await.0, 204);
    assert_eq!(bed.write("sys/mounts/team/ab", json!({"type": "probe"})).await.0, 204);
    bed.write("team/a/count/x", json!({})).await;
    assert_eq!(bed.read("team/a/note/x").await.0, 200);
    assert_eq!(bed.read("team/ab/note/x").await.0, 404, "each mount has its own storage");
    for taken in ["team/a", "team", "team/a/b", "probe"] {
        // A local mount is not the default mount of dev mode, which may be enabled again.
        let fields = json!({"type": "probe", "local": true});
        let (status, refused) = bed.write(&format!("sys/mounts/{taken}"), fields).await;
        assert_eq!(status, 400, "{taken}: {refused}");
        assert!(error(&refused).starts_with("path is already in use at "), "{refused}");
    }
    for reserved in ["sys/x", "auth/token", "cubbyhole"] {
        assert_eq!(
            bed.write(&format!("sys/mounts/{reserved}"), json!({"type": "probe"})).await.0,
            400,
            "{reserved}"
        );
    }
    assert_eq!(bed.write("sys/mounts/other", json!({"type": "nothing"})).await.0, 400);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn component_evaluates_schedules_and_zones_without_clock() {
    let bed = Bed::new("schedules").await;
    let due = async |schedule: &str| {
        let fields = json!({ "rotation_schedule": schedule });
        bed.write("probe/due/1767225600000", fields).await
    };
    assert_eq!(due("0 3 * * *").await.1["data"]["due"], 1_767_236_400_000_u64);
    let (_, answer) = due("CRON_TZ=America/New_York 0 3 * * *").await;
    assert_eq!(answer["data"]["due"], 1_767_254_400_000_u64, "{answer}");
    let (_, answer) = due("CRON_TZ=Africa/Casablanca 0 3 * * *").await;
    assert_eq!(answer["data"]["due"], 1_767_232_800_000_u64, "{answer}");
    for wrong in ["@daily", "0 0 30 2 *", "CRON_TZ=Local 0 3 * * *"] {
        let (status, refused) = due(wrong).await;
        assert_eq!(status, 400, "{refused}");
        assert!(error(&refused).contains("could not parse rotation_schedule"), "{refused}");
    }
    bed.end().await;
}
