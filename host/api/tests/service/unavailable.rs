//! Ways out for a mount with an unloadable version: another version, or the end of the mount.

use crate::bed::{Bed, error, probe};
use crate::uploads::{bare, flip, keys, tamper, upload};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};

const PROBE: &str = "sys/plugins/catalog/secret/probe";

/// The probe in version 2.0.0: its description has the name and the version side by side.
pub(crate) fn newer() -> Vec<u8> {
    let (text, other) = (b"probe1.0.0", b"probe2.0.0");
    let mut component = probe().to_vec();
    let found: Vec<usize> = (0..component.len() - text.len())
        .filter(|start| component[*start..].starts_with(text))
        .collect();
    assert!(!found.is_empty(), "the description has another form");
    for start in found {
        component[start..start + other.len()].copy_from_slice(other);
    }
    component
}

/// A service that can load version 2.0.0 of the probe, but no longer version 1.0.0. Version 1.0.0
/// serves `third/` with a count, `fourth/` and, with a lease, `fifth/`.
async fn stranded(name: &str) -> (Bed, String) {
    let directory =
        std::env::temp_dir().join(format!("bulkhead-core-{name}-{}", std::process::id()));
    let bed = bare(directory).await;
    assert_eq!(upload(&bed, PROBE, probe().to_vec()).await.0, 204);
    let (_, read) = bed.read(PROBE).await;
    let digest = read["data"]["sha256"].as_str().unwrap().to_owned();
    for mount in ["third", "fourth", "fifth"] {
        let mounted = bed.write(&format!("sys/mounts/{mount}"), json!({"type": "probe"})).await;
        assert_eq!(mounted.0, 204);
    }
    assert_eq!(bed.write("third/count/visits", json!({})).await.0, 204);
    let (_, leased) = bed.write("fifth/lease/kept", json!({"ttl": 600})).await;
    let lease = leased["lease_id"].as_str().unwrap().to_owned();
    let (status, answer) = upload(&bed, PROBE, newer()).await;
    assert_eq!(status, 204, "{answer}");
    let directory = bed.stop().await;
    tamper(&directory, async |store| {
        for prefix in ["code", "wasm"] {
            flip(store, &keys(store, &format!("{prefix}/{digest}/")).await[0]).await;
        }
    })
    .await;
    let bed = bare(directory).await;
    // The first call finds that the code is damaged, and the component, too.
    assert_eq!(bed.read("third/note/visits").await.0, 503);
    bed.line("plugin-not-loaded").await;
    for mount in ["third/", "fourth/", "fifth/"] {
        while bed.read("sys/mounts").await.1[mount]["unavailable_reason"] == "" {
            tokio::task::yield_now().await;
        }
    }
    (bed, lease)
}

#[tokio::test(flavor = "multi_thread")]
async fn mount_with_unloadable_version_accepts_another_version() {
    let (bed, _) = stranded("repaired").await;
    let (_, listed) = bed.read("sys/mounts").await;
    let reason = listed["third/"]["unavailable_reason"].as_str().unwrap();
    assert!(reason.contains("register it again"), "{listed}");
    assert_eq!(listed["third/"]["deprecation_status"], "unavailable");
    assert_eq!(listed["third/"]["running_plugin_version"], "1.0.0");
    assert_eq!(listed["third/"]["status"], "unavailable");
    assert_eq!(listed["third/"]["status_reason"], listed["third/"]["unavailable_reason"]);
    assert!(listed["third/"]["status_since"].as_str().unwrap().ends_with('Z'), "{listed}");
    let (_, health) = bed.read("sys/health").await;
    let degraded = health["degraded"].as_array().unwrap();
    let mounts = degraded.iter().find(|one| one["code"] == "mounts-unavailable").unwrap();
    assert!(
        mounts["message"].as_str().unwrap().starts_with("3 mounts are unavailable;"),
        "{health}"
    );
    let tune = async |fields: Value| bed.write("sys/mounts/third/tune", fields).await;
    let (status, refused) = tune(json!({"description": "x"})).await;
    assert_eq!((status, error(&refused).contains("give plugin_version")), (503, true), "{refused}");
    assert_eq!(
        tune(json!({"plugin_version": "1.0.0"})).await.0,
        503,
        "the version cannot be loaded"
    );
    assert_eq!(tune(json!({"plugin_version": "3.0.0"})).await.0, 400);
    assert_eq!(bed.read("third/note/visits").await.0, 503);
    assert_eq!(tune(json!({"plugin_version": "2.0.0"})).await.0, 204);
    assert_eq!(bed.read("third/note/visits").await.1["data"]["note"], 1, "the data are there");
    let (_, read) = bed.read("sys/mounts/third").await;
    assert_eq!(read["data"]["running_plugin_version"], "2.0.0");
    assert_eq!(read["data"]["unavailable_reason"], "");
    let (status, since) = (&read["data"]["status"], &read["data"]["status_since"]);
    assert_eq!((status, since), (&json!("serving"), &json!("")));
    let directory = bed.stop().await;
    let bed = bare(directory).await;
    assert_eq!(bed.read("third/note/visits").await.1["data"]["note"], 1, "after a start, too");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unloadable_version_mount_is_disabled_only_without_leases() {
    let (bed, lease) = stranded("disabled").await;
    let disable =
        async |mount: &str| bed.call(Verb::Delete, &format!("sys/mounts/{mount}"), json!({})).await;
    assert_eq!(disable("fourth").await.0, 204);
    assert_eq!(
        bed.write("sys/mounts/fourth", json!({"type": "probe"})).await.0,
        204,
        "the path is free again"
    );
    assert_eq!(bed.read("fourth/note/visits").await.0, 404, "the newest version serves the path");

    let (status, refused) = disable("fifth").await;
    assert_eq!((status, error(&refused).contains("revoke-force/fifth/")), (503, true), "{refused}");
    let (_, found) = bed.write("sys/leases/lookup", json!({"lease_id": lease})).await;
    assert_eq!(found["data"]["id"], json!(lease), "the lease stays: {found}");
    let (_, listed) = bed.read("sys/mounts").await;
    assert!(listed["fifth/"].is_object(), "the mount stays: {listed}");
    assert_eq!(bed.write("sys/leases/revoke-force/fifth", json!({})).await.0, 204);
    assert_eq!(disable("fifth").await.0, 204);
    let older = json!({"version": "1.0.0"});
    assert_eq!(bed.call(Verb::Delete, PROBE, older.clone()).await.0, 400, "third/ waits for it");
    assert_eq!(disable("third").await.0, 204);
    assert_eq!(bed.call(Verb::Delete, PROBE, older).await.0, 204);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn move_of_mount_with_unloadable_version_terminates() {
    let (bed, lease) = stranded("moved").await;
    let moved = async |from: &str, to: &str| {
        let (status, answer) = bed.write("sys/remount", json!({"from": from, "to": to})).await;
        assert_eq!(status, 200, "{answer}");
        let id = answer["data"]["migration_id"].as_str().unwrap();
        let path = format!("sys/remount/status/{id}");
        loop {
            let info = bed.read(&path).await.1["data"]["migration_info"].clone();
            if info["status"] != "in-progress" {
                break info;
            }
            tokio::task::yield_now().await;
        }
    };
    let failed = moved("fifth", "sixth").await;
    assert_eq!(failed["status"], "failure", "{failed}");
    assert!(failed["error"].as_str().unwrap().contains("not available"), "{failed}");
    let (_, found) = bed.write("sys/leases/lookup", json!({"lease_id": lease})).await;
    assert_eq!(found["data"]["id"], json!(lease), "the lease stays: {found}");
    assert_eq!(moved("third", "elsewhere").await["status"], "success");
    let tuned = bed.write("sys/mounts/elsewhere/tune", json!({"plugin_version": "2.0.0"})).await;
    assert_eq!(tuned.0, 204, "{}", tuned.1);
    assert_eq!(bed.read("elsewhere/note/visits").await.1["data"]["note"], 1);
    bed.end().await;
}
