//! Uploaded components between two unsealings: the content of the store is not trusted, and an
//! unloadable plugin keeps nothing else from being served.

use crate::bed::{Bed, error, probe, request, store_options};
use bulkhead_audit::AuditSettings;
use bulkhead_store::{Address, DataDirectory, IndexColumns, Space, Store};
use bulkhead_wire::description::Verb;
use bulkhead_wire::request::{RawBody, Request};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const PROBE: &str = "sys/plugins/catalog/secret/probe";

/// A service without plugins of its own.
pub(crate) async fn bare(directory: PathBuf) -> Bed {
    Bed::with(directory, Vec::new(), AuditSettings::default()).await.unwrap()
}

/// Registers a component.
pub(crate) async fn upload(bed: &Bed, path: &str, component: Vec<u8>) -> (u16, Value) {
    let raw = Some(RawBody::new(component));
    let call = Request { raw, ..request("root", Verb::Write, path, json!({})) };
    let (status, _, body) = bed.service.handle(call).await.into_bytes();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// A bare service with the probe uploaded, mounted at `third/` and counted in once.
pub(crate) async fn counted(name: &str) -> Bed {
    let directory =
        std::env::temp_dir().join(format!("bulkhead-core-{name}-{}", std::process::id()));
    let bed = bare(directory).await;
    let (status, answer) = upload(&bed, PROBE, probe().to_vec()).await;
    assert_eq!(status, 204, "{answer}; if its code is of another build: run `make build`");
    assert_eq!(bed.write("sys/mounts/third", json!({"type": "probe"})).await.0, 204);
    assert_eq!(bed.write("third/count/visits", json!({})).await.0, 204);
    bed
}

/// Writes into the store of a directory without a holder, as anyone with the key could.
pub(crate) async fn tamper(directory: &Path, change: impl AsyncFnOnce(&Arc<Store>)) {
    let data_directory = DataDirectory::hold(store_options(directory)).await.unwrap();
    let store =
        data_directory.open(bulkhead_store::dev_key(&data_directory).unwrap()).await.unwrap();
    change(&store).await;
    store.close().await;
}

pub(crate) async fn keys(store: &Arc<Store>, prefix: &str) -> Vec<String> {
    store.begin().keys(Space::Blob, prefix, "", u32::MAX).await.unwrap()
}

async fn body(store: &Arc<Store>, key: &str) -> Vec<u8> {
    let found = store.begin().get(&Address::new(Space::Blob, key)).await.unwrap();
    found.unwrap().body.to_vec()
}

/// Stores other bytes at `key`. The store can decrypt the bytes, but the bytes are not the
/// originals.
async fn put(store: &Arc<Store>, key: &str, body: Vec<u8>) {
    let mut unit = store.begin();
    unit.put(Address::new(Space::Blob, key), body, IndexColumns::default());
    unit.commit().await.unwrap();
}

/// The row of a timer of the mount that has the only lease.
async fn timer(store: &Arc<Store>) -> Address {
    let lease = store.scan(Space::Lease, "").page().await.unwrap().unwrap().remove(0);
    Address::new(Space::Timer, format!("{}/late", lease.key.split('/').next().unwrap()))
}

/// Writes a timer that is due.
async fn ring(store: &Arc<Store>) {
    let mut unit = store.begin();
    unit.put(
        timer(store).await,
        b"0".to_vec(),
        IndexColumns { due: Some(0), ..IndexColumns::default() },
    );
    unit.commit().await.unwrap();
}

pub(crate) async fn flip(store: &Arc<Store>, key: &str) {
    let mut changed = body(store, key).await;
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    put(store, key, changed).await;
}

/// Returns the counted visits, once the code of the plugin is compiled.
async fn note_once_compiled(bed: &Bed) -> Value {
    let (status, answer) = bed.read("third/note/visits").await;
    if status != 503 {
        return answer["data"]["note"].clone();
    }
    assert!(error(&answer).contains("is being compiled; try again"), "{answer}");
    bed.line("plugin-compiled").await;
    bed.read("third/note/visits").await.1["data"]["note"].clone()
}

/// Opens the service on the remaining directory, and checks that the stored count is served.
async fn serves_after(directory: PathBuf, said: &str) -> PathBuf {
    let bed = bare(directory).await;
    assert_eq!(note_once_compiled(&bed).await, 1);
    bed.line(said).await;
    let directory = bed.stop().await;
    let bed = bare(directory).await;
    assert_eq!(bed.read("third/note/visits").await.1["data"]["note"], 1);
    let lines = bed.log.0.lock().unwrap().join("\n");
    assert!(!lines.contains("compiled-code"), "the component was compiled twice: {lines}");
    bed.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn tampered_compiled_code_is_recompiled_instead_of_loaded() {
    let directory = counted("tampered").await.stop().await;
    tamper(&directory, async |store| flip(store, &keys(store, "code/").await[0]).await).await;
    let directory = serves_after(directory, "compiled-code-not-authentic").await;

    tamper(&directory, async |store| {
        let pieces = keys(store, "code/").await;
        let (first, second) = (body(store, &pieces[0]).await, body(store, &pieces[1]).await);
        put(store, &pieces[0], second).await;
        put(store, &pieces[1], first).await;
    })
    .await;
    let directory = serves_after(directory, "compiled-code-not-authentic").await;

    tamper(&directory, async |store| {
        let mut unit = store.begin();
        unit.delete(Address::new(Space::Blob, keys(store, "code/").await.pop().unwrap()));
        unit.commit().await.unwrap();
    })
    .await;
    let directory = serves_after(directory, "compiled-code-not-authentic").await;

    tamper(&directory, async |store| {
        let row_key = keys(store, "made/").await.remove(0);
        let mut row: Value = serde_json::from_slice(&body(store, &row_key).await).unwrap();
        row["tag"] = json!("0".repeat(64));
        put(store, &row_key, row.to_string().into_bytes()).await;
    })
    .await;
    let directory = serves_after(directory, "compiled-code-not-authentic").await;

    tamper(&directory, async |store| {
        let mut unit = store.begin();
        unit.delete(Address::new(Space::Blob, keys(store, "made/").await.remove(0)));
        unit.commit().await.unwrap();
    })
    .await;
    let directory = serves_after(directory, "compiled-code-of-another-build").await;
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_loaded_once_before_first_call() {
    let directory = counted("idle").await.stop().await;
    let bed = bare(directory).await;
    let loads = || {
        let lines = bed.log.0.lock().unwrap();
        lines.iter().filter(|line| line.contains("plugin-loaded")).count()
    };
    assert_eq!(bed.read(PROBE).await.1["data"]["deprecation_status"], "supported");
    let (_, mount) = bed.read("sys/mounts/third").await;
    assert_eq!(mount["data"]["running_plugin_version"], "1.0.0", "{mount}");
    assert_eq!(bed.write("sys/mounts/other", json!({"type": "probe"})).await.0, 204);
    assert_eq!(bed.call(Verb::Delete, PROBE, json!({})).await.0, 400, "a mount uses it");
    assert_eq!(loads(), 0, "known, mounted and refused without its code");
    let read = || bed.read("third/note/visits");
    for (status, answer) in
        [tokio::join!(read(), read(), read())].map(|(a, b, c)| [a, b, c]).concat()
    {
        assert_eq!((status, &answer["data"]["note"]), (200, &json!(1)), "{answer}");
    }
    assert_eq!(bed.write("other/count/visits", json!({})).await.0, 204);
    assert_eq!(loads(), 1, "first calls that come together load the code once");
    let stored = json!({"source": "stored"});
    assert_eq!(bed.figure("bulkhead_compiled_code_loads_total", stored).await, 1.0);
    bed.end().await;
}

/// Renames the rows of compiled code as rows of `build`, and notes `build` as the opener of the
/// store.
async fn as_built_by(store: &Arc<Store>, build: &str) {
    for key in [keys(store, "made/").await, keys(store, "code/").await].concat() {
        let mut parts: Vec<&str> = key.split('/').collect();
        parts[2] = build;
        let bytes = body(store, &key).await;
        put(store, &parts.join("/"), bytes).await;
    }
    let mut unit = store.begin();
    let row = json!({"present": build}).to_string().into_bytes();
    unit.put(Address::new(Space::Core, "compiler-builds"), row, IndexColumns::default());
    unit.commit().await.unwrap();
}

/// The builds that have compiled code in the store.
async fn builds(store: &Arc<Store>) -> std::collections::BTreeSet<String> {
    let keys = [keys(store, "made/").await, keys(store, "code/").await].concat();
    keys.iter().map(|key| key.split('/').nth(2).unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn previous_build_code_is_kept_and_older_removed() {
    let directory = counted("builds").await.stop().await;
    tamper(&directory, async |store| {
        as_built_by(store, "older").await;
        as_built_by(store, "before").await;
        assert_eq!(builds(store).await.len(), 3);
    })
    .await;
    let directory = bare(directory).await.stop().await;
    tamper(&directory, async |store| {
        let left = builds(store).await;
        assert!(left.contains("before") && !left.contains("older"), "{left:?}");
        assert_eq!(left.len(), 2, "{left:?}");
    })
    .await;
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unloadable_plugin_leaves_only_its_mounts_waiting() {
    let bed = counted("stranded").await;
    let (_, leased) = bed.write("third/lease/kept", json!({"ttl": 600})).await;
    let lease = leased["lease_id"].as_str().unwrap().to_owned();
    let directory = bed.stop().await;
    tamper(&directory, async |store| {
        flip(store, &keys(store, "code/").await[0]).await;
        flip(store, &keys(store, "wasm/").await[0]).await;
        ring(store).await;
    })
    .await;

    let bed = bare(directory).await;
    bed.line("plugin-not-loaded").await;
    bed.line("mount-without-plugin").await;
    waits_for_its_plugin(&bed, &lease).await;

    let directory = bed.stop().await;
    tamper(&directory, async |store| {
        let waits = store.begin().get(&timer(store).await).await.unwrap().unwrap();
        assert!(waits.index.due > Some(0), "the timer was postponed");
    })
    .await;

    let bed = bare(directory).await;
    assert_eq!(upload(&bed, PROBE, probe().to_vec()).await.0, 204);
    assert_eq!(note_once_compiled(&bed).await, 1, "registered again, it serves");
    assert_eq!(bed.write("sys/leases/revoke", json!({"lease_id": lease})).await.0, 204);
    assert_eq!(bed.noted_of("third", "kept").await, "Requested");
    bed.end().await;
}

/// The mount `third` answers that its plugin is missing, keeps `lease`, and hinders nothing else.
async fn waits_for_its_plugin(bed: &Bed, lease: &str) {
    let (status, waits) = bed.read("third/note/visits").await;
    assert_eq!(
        (status, error(&waits).contains("plugin probe of mount third/")),
        (503, true),
        "{waits}"
    );
    assert_eq!(
        bed.call(Verb::Delete, "sys/mounts/third", json!({})).await.0,
        503,
        "its leases are owed"
    );
    let (status, found) = bed.write("sys/leases/lookup", json!({"lease_id": lease})).await;
    assert_eq!((status, &found["data"]["id"]), (200, &json!(lease)), "{found}");
    let below = |path: &'static str| bed.call(Verb::List, path, json!({}));
    assert_eq!(below("sys/leases/lookup").await.1["data"]["keys"], json!(["third/"]));
    assert_eq!(
        below("sys/leases/lookup/third/lease/kept").await.1["data"]["keys"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(bed.write("sys/leases/renew", json!({"lease_id": lease})).await.0, 503);
    let lines = bed.log.0.lock().unwrap().join("\n");
    assert!(
        !lines.contains("due-work-not-stored") && !lines.contains("timer-delayed"),
        "timers ran without their plugin: {lines}"
    );
    assert_eq!(bed.write("sys/mounts/third", json!({"type": "probe"})).await.0, 503);
    let (_, info) = bed.read(PROBE).await;
    assert_eq!(info["data"]["deprecation_status"], "unavailable", "{info}");
    assert_eq!(bed.call(Verb::Delete, PROBE, json!({})).await.0, 400, "a mount that waits uses it");
    assert_eq!(
        bed.write("sys/policies/acl/x", json!({"policy": "path \"x\" {}"})).await.0,
        204,
        "all else is served"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn simultaneous_registrations_of_one_name_keep_one_component() {
    let directory = std::env::temp_dir().join(format!("bulkhead-core-both-{}", std::process::id()));
    let bed = bare(directory).await;
    let noted = [probe(), &[0, 2, 1, b'x']].concat();
    let (one, other) =
        tokio::join!(upload(&bed, PROBE, probe().to_vec()), upload(&bed, PROBE, noted));
    let won = [&one, &other].into_iter().filter(|(status, _)| *status == 204).count();
    assert_eq!(won, 1, "{one:?} {other:?}");
    let directory = bed.stop().await;
    let directory = bare(directory).await.stop().await;
    tamper(&directory, async |store| {
        let digests = keys(store, "wasm/").await;
        let mut digests: Vec<&str> =
            digests.iter().filter_map(|key| key.split('/').nth(1)).collect();
        digests.dedup();
        assert_eq!(digests.len(), 1, "{digests:?}");
    })
    .await;
    std::fs::remove_dir_all(directory).unwrap();
}
