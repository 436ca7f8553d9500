//! Mounts come, are tuned, move and go, and no step of it is lost when the process dies on the way.

use crate::bed::{Bed, PATIENCE, error, request, store_options};
use bulkhead_store::{Address, DataDirectory, IndexColumns, Space, Store};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const SPACES: [Space; 6] =
    [Space::Core, Space::Data, Space::Token, Space::Lease, Space::Reservation, Space::Timer];

/// A service with a second probe at `other/`, and the uuid of that.
async fn with_other(name: &str) -> (Bed, String) {
    let bed = Bed::new(name).await;
    assert_eq!(bed.write("sys/mounts/other", json!({"type": "probe"})).await.0, 204);
    let uuid = bed.read("sys/mounts/other").await.1["data"]["uuid"].as_str().unwrap().to_owned();
    (bed, uuid)
}

/// The store of a directory that nobody holds.
async fn opened(directory: &Path) -> Arc<Store> {
    let data_directory = DataDirectory::hold(store_options(directory)).await.unwrap();
    data_directory.open(bulkhead_store::dev_key(&data_directory).unwrap()).await.unwrap()
}

/// Every row with `part` in the key, in every space.
async fn rows_with(directory: &Path, part: &str) -> Vec<String> {
    let store = opened(directory).await;
    let mut found = Vec::new();
    for space in SPACES {
        let keys = store.begin().keys(space, "", "", u32::MAX).await.unwrap();
        found.extend(
            keys.into_iter().filter(|key| key.contains(part)).map(|key| format!("{space:?} {key}")),
        );
    }
    store.close().await;
    found
}

/// Fills every space of a mount: data with an index, timers, a guard, leases.
async fn fill_mount(bed: &Bed, mount: &str) {
    for (path, fields) in [
        ("count/a", json!({})),
        ("place/b", json!({})),
        ("timer/later", json!({"after": 3_600_000})),
        ("rotate/c", json!({"candidate": "one"})),
        ("lease/long", json!({"ttl": 600})),
        ("lease/longer", json!({"ttl": 900})),
    ] {
        let (status, answer) = bed.write(&format!("{mount}/{path}"), fields).await;
        assert!(status < 300, "{path}: {answer}");
    }
}

/// Sends a request and does not wait for it.
fn begin(bed: &Bed, verb: Verb, path: &str, fields: Value) -> JoinHandle<(u16, Value)> {
    let (service, request) = (Arc::clone(&bed.service), request("root", verb, path, fields));
    tokio::spawn(async move {
        let (status, _, body) = service.handle(request).await.into_bytes();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    })
}

/// A request to `other/` that waits until a lease is revoked, and the lease.
async fn waiting(bed: &Bed) -> (JoinHandle<(u16, Value)>, Value) {
    let leased = bed.write("other/lease/go-slow", json!({"ttl": 600})).await.1;
    let call =
        begin(bed, Verb::Write, "other/rotate/slow", json!({"candidate": "one", "how": "waits"}));
    until(bed, "other/note/outside-slow", 200).await;
    (call, json!({"lease_id": leased["lease_id"]}))
}

/// Waits until a GET is answered with `status`.
async fn until(bed: &Bed, path: &str, status: u16) -> Value {
    let began = Instant::now();
    loop {
        let (answered, answer) = bed.read(path).await;
        if answered == status {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "{path} never was {status}: {answered} {answer}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for the end of a move.
async fn moved(bed: &Bed, id: &Value) -> Value {
    let began = Instant::now();
    loop {
        let (_, answer) = bed.read(&format!("sys/remount/status/{}", id.as_str().unwrap())).await;
        let info = answer["data"]["migration_info"].clone();
        if info["status"] != "in-progress" {
            return info;
        }
        assert!(began.elapsed() < PATIENCE, "{answer}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_mount_leaves_no_lease_or_row() {
    let (bed, uuid) = with_other("disabled").await;
    fill_mount(&bed, "other").await;
    assert_eq!(bed.write("other/lease/perhaps", json!({"how": "perhaps"})).await.0, 502);
    let leased = bed.write("other/lease/held", json!({"ttl": 600})).await.1;
    assert_eq!(bed.call(Verb::Delete, "sys/mounts/other", json!({})).await.0, 204);
    assert_eq!(
        bed.log.0.lock().unwrap().iter().filter(|line| line.contains("lease-ended")).count(),
        4
    );
    assert_eq!(bed.read("other/note/a").await.0, 404);
    let (status, gone) = bed.read("sys/mounts/other").await;
    assert_eq!((status, error(&gone)), (400, "No secret engine mount at other/"));
    assert_eq!(
        bed.write("sys/leases/lookup", json!({"lease_id": leased["lease_id"]})).await.0,
        400
    );
    assert_eq!(
        bed.call(Verb::Delete, "sys/mounts/other", json!({})).await.0,
        204,
        "gone is disabled"
    );
    assert_eq!(
        bed.write("sys/mounts/other", json!({"type": "probe"})).await.0,
        204,
        "the path is free again"
    );
    assert_eq!(bed.read("other/note/a").await.0, 404, "the other mount has its own storage");
    assert_eq!(bed.call(Verb::Delete, "sys/mounts/other", json!({})).await.0, 204);
    let directory = bed.stop().await;
    assert_eq!(rows_with(&directory, &uuid).await, Vec::<String>::new());
    assert_eq!(rows_with(&directory, "other").await, Vec::<String>::new());
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn removal_waits_for_running_requests_and_admits_none() {
    let (bed, uuid) = with_other("in-flight").await;
    let (call, go) = waiting(&bed).await;
    let disabling = begin(&bed, Verb::Delete, "sys/mounts/other", json!({}));
    let nothing = until(&bed, "other/note/outside-slow", 404).await;
    assert!(error(&nothing).contains("no handler for route"), "{nothing}");
    let (status, taken) = bed.write("sys/mounts/other/x", json!({"type": "probe"})).await;
    assert_eq!(status, 400);
    assert!(
        error(&taken).starts_with("path is already in use at other/; the mount is being removed"),
        "{taken}"
    );
    for (path, fields) in
        [("sys/mounts/other/tune", json!({})), ("sys/remount", json!({"from": "other", "to": "x"}))]
    {
        assert_eq!(bed.write(path, fields).await.0, 400, "{path}");
    }
    let again = begin(&bed, Verb::Delete, "sys/mounts/other", json!({}));
    assert!(!disabling.is_finished() && !call.is_finished());
    assert_eq!(bed.write("sys/leases/revoke", go).await.0, 204, "leases can be ended meanwhile");
    assert_eq!(call.await.unwrap().0, 204, "a running call ends normally");
    assert_eq!(disabling.await.unwrap().0, 204);
    assert_eq!(again.await.unwrap().0, 204);
    let directory = bed.stop().await;
    assert_eq!(rows_with(&directory, &uuid).await, Vec::<String>::new());
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unendable_lease_keeps_its_mount() {
    let (bed, _) = with_other("kept").await;
    fill_mount(&bed, "other").await;
    let stuck = bed.write("other/lease/stuck", json!({"ttl": 600})).await.1;
    let (status, refused) = bed.call(Verb::Delete, "sys/mounts/other", json!({})).await;
    assert_eq!(status, 400, "{refused}");
    for part in ["other/ stays mounted: ", "it is stuck", "sys/leases/revoke-force/other/"] {
        assert!(error(&refused).contains(part), "{part}: {refused}");
    }
    assert_eq!(bed.write("other/count/a", json!({})).await.0, 204, "the mount serves again");
    let (_, lease) = bed.write("sys/leases/lookup", json!({"lease_id": stuck["lease_id"]})).await;
    assert_eq!(lease["data"]["last_error"], "it is stuck", "{lease}");
    let directory = bed.stop().await;
    let bed = Bed::open(directory).await;
    assert_eq!(bed.noted_of("other", "a").await, 2, "the count goes on after a restart");
    bed.end().await;
}

/// Puts another phase into the record of the mount at `path`, as left by a dead process.
async fn set_phase(directory: &Path, path: &str, phase: Value) {
    let store = opened(directory).await;
    let address = Address::new(Space::Core, format!("mount/{path}"));
    let mut unit = store.begin();
    let stored = unit.get(&address).await.unwrap().unwrap();
    let mut record: Value = serde_json::from_slice(&stored.body).unwrap();
    record["phase"] = phase;
    unit.put(address, serde_json::to_vec(&record).unwrap(), IndexColumns::default());
    unit.commit().await.unwrap();
    store.close().await;
}

/// Waits until nothing is stored of `uuid`, through services that are opened and stopped.
async fn erased(directory: PathBuf, uuid: &str) {
    let bed = Bed::open(directory).await;
    let began = Instant::now();
    while bed.write("sys/mounts/other", json!({"type": "probe"})).await.0 != 204 {
        assert!(began.elapsed() < PATIENCE, "{:?}", bed.log.0.lock().unwrap());
        assert_eq!(
            bed.read("other/note/a").await.0,
            404,
            "a mount that is being removed answers 404"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let directory = bed.stop().await;
    assert_eq!(rows_with(&directory, uuid).await, Vec::<String>::new());
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn removal_resumes_after_process_death_at_any_step() {
    for (name, phase) in [("died-ending", "ending"), ("died-erasing", "erasing")] {
        let (bed, uuid) = with_other(name).await;
        fill_mount(&bed, "other").await;
        let directory = bed.stop().await;
        set_phase(&directory, "other/", json!(phase)).await;
        erased(directory, &uuid).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removal_interrupted_by_seal_resumes_after_unsealing() {
    let (bed, uuid) = with_other("cut-removal").await;
    fill_mount(&bed, "other").await;
    let (call, _) = waiting(&bed).await;
    let disabling = begin(&bed, Verb::Delete, "sys/mounts/other", json!({}));
    until(&bed, "other/note/outside-slow", 404).await;
    let directory = bed.stop().await;
    assert_ne!(disabling.await.unwrap().0, 204);
    assert_ne!(call.await.unwrap().0, 204);
    assert!(rows_with(&directory, &uuid).await.len() > 5, "nothing was deleted yet");
    erased(directory, &uuid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_removal_blocked_by_lease_restores_mount() {
    let (bed, _) = with_other("resumed-stuck").await;
    bed.write("other/count/a", json!({})).await;
    bed.write("other/lease/stuck", json!({"ttl": 600})).await;
    let directory = bed.stop().await;
    set_phase(&directory, "other/", json!("ending")).await;
    let bed = Bed::open(directory).await;
    let line = bed.line("mount-not-removed").await;
    assert!(line.contains("unreachable") && !line.contains("it is stuck"), "{line}");
    assert_eq!(bed.noted_of("other", "a").await, 1);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moved_mount_keeps_data_and_loses_leases() {
    let (bed, uuid) = with_other("moved").await;
    fill_mount(&bed, "other").await;
    bed.write("sys/mounts/other/tune", json!({"description": "mine", "max_lease_ttl": "30m"}))
        .await;
    let (status, begun) =
        bed.write("sys/remount", json!({"from": "other/", "to": "team/there"})).await;
    assert_eq!(status, 200, "{begun}");
    assert_eq!(begun["migration_id"], begun["data"]["migration_id"]);
    assert!(begun["warnings"][0].as_str().unwrap().contains("sys/remount/status/"), "{begun}");
    let info = moved(&bed, &begun["data"]["migration_id"]).await;
    let expected = json!({
        "source_mount": "other/", "target_mount": "team/there/", "status": "success", "error": "",
    });
    assert_eq!(info, expected);
    assert_eq!(bed.read("other/note/a").await.0, 404);
    assert_eq!(bed.noted_of("team/there", "a").await, 1);
    assert_eq!(bed.noted_of("team/there", "long").await, "Requested");
    let info = bed.read("sys/mounts/team/there").await.1["data"].clone();
    assert_eq!((&info["uuid"], &info["description"]), (&json!(uuid), &json!("mine")));
    let leased = bed.write("team/there/lease/new", json!({"ttl": 600})).await.1;
    assert!(leased["lease_id"].as_str().unwrap().starts_with("team/there/lease/new/"), "{leased}");
    assert_eq!(
        bed.write("sys/leases/revoke", json!({"lease_id": leased["lease_id"]})).await.0,
        204
    );
    assert_eq!(bed.noted_of("team/there", "new").await, "Requested");
    assert_eq!(
        bed.write("sys/mounts/other", json!({"type": "probe"})).await.0,
        204,
        "the old path is free"
    );
    let directory = bed.stop().await;
    assert_eq!(rows_with(&directory, "mount-target/").await, Vec::<String>::new());
    let bed = Bed::open(directory).await;
    let id = begun["data"]["migration_id"].clone();
    assert_eq!(moved(&bed, &id).await["status"], "success", "the status outlives a restart");
    assert_eq!(bed.noted_of("team/there", "a").await, 1);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn move_blocked_by_lease_fails_leaving_mount_serving() {
    let (bed, _) = with_other("unmoved").await;
    bed.write("other/count/a", json!({})).await;
    bed.write("other/lease/stuck", json!({"ttl": 600})).await;
    let (_, begun) = bed.write("sys/remount", json!({"from": "other", "to": "there"})).await;
    let info = moved(&bed, &begun["data"]["migration_id"]).await;
    assert_eq!(info["status"], "failure", "{info}");
    assert!(info["error"].as_str().unwrap().contains("it is stuck"), "{info}");
    assert_eq!(bed.noted_of("other", "a").await, 1);
    assert_eq!(bed.read("there/note/a").await.0, 404);
    assert_eq!(
        bed.write("sys/mounts/there", json!({"type": "probe"})).await.0,
        204,
        "the other path is free"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_move_paths_stay_reserved_until_move_ends() {
    let (bed, _) = with_other("both").await;
    let (call, go) = waiting(&bed).await;
    let (_, begun) = bed.write("sys/remount", json!({"from": "other", "to": "team/there"})).await;
    for path in ["other/note/outside-slow", "team/there/note/outside-slow"] {
        assert_eq!(bed.read(path).await.0, 404, "{path}");
    }
    for taken in ["other", "other/below", "team", "team/there", "team/there/below"] {
        let (status, refused) =
            bed.write(&format!("sys/mounts/{taken}"), json!({"type": "probe"})).await;
        assert_eq!(status, 400, "{taken}");
        assert!(error(&refused).starts_with("path is already in use at "), "{refused}");
    }
    for (from, to) in [("other", "elsewhere"), ("probe", "team/there"), ("probe", "other/x")] {
        assert_eq!(
            bed.write("sys/remount", json!({"from": from, "to": to})).await.0,
            400,
            "{from} {to}"
        );
    }
    let (status, refused) = bed.call(Verb::Delete, "sys/mounts/other", json!({})).await;
    assert_eq!(status, 400, "{refused}");
    assert!(error(&refused).contains("is being moved to team/there/"), "{refused}");
    assert_eq!(bed.write("sys/leases/revoke", go).await.0, 204);
    assert_eq!(call.await.unwrap().0, 204);
    assert_eq!(moved(&bed, &begun["data"]["migration_id"]).await["status"], "success");
    assert_eq!(bed.noted_of("team/there", "slow").await, "one");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_goes_on_after_the_process_died() {
    let (bed, uuid) = with_other("died-moving").await;
    fill_mount(&bed, "other").await;
    let directory = bed.stop().await;
    set_phase(&directory, "other/", json!({"moving": {"to": "there/", "migration": "m1"}})).await;
    let store = opened(&directory).await;
    let mut unit = store.begin();
    unit.put(
        Address::new(Space::Core, "mount-target/there/"),
        uuid.clone().into_bytes(),
        IndexColumns::default(),
    );
    for (id, began, status) in
        [("m1", store.now(), "in-progress"), ("old", 0, "success"), ("stuck", 0, "in-progress")]
    {
        let migration = json!({
            "source": "other/", "target": "there/", "status": status, "began": began, "error": "",
        });
        unit.put(
            Address::new(Space::Core, format!("migration/{id}")),
            migration.to_string().into(),
            IndexColumns::default(),
        );
    }
    unit.commit().await.unwrap();
    store.close().await;
    let bed = Bed::open(directory).await;
    assert_eq!(moved(&bed, &json!("m1")).await["status"], "success");
    assert_eq!(bed.noted_of("there", "a").await, 1);
    assert_eq!(bed.noted_of("there", "long").await, "Requested");
    assert_eq!(bed.read("sys/remount/status/old").await.0, 200);
    let (_, begun) = bed.write("sys/remount", json!({"from": "there", "to": "other"})).await;
    assert_eq!(moved(&bed, &begun["data"]["migration_id"]).await["status"], "success");
    assert_eq!(bed.noted_of("other", "a").await, 1);
    assert_eq!(
        bed.read("sys/remount/status/old").await.0,
        404,
        "a new move forgets those that ended long ago"
    );
    assert_eq!(bed.read("sys/remount/status/stuck").await.0, 200, "only ended moves are forgotten");
    let directory = bed.stop().await;
    assert_eq!(rows_with(&directory, "mount-target/").await, Vec::<String>::new());
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_tunes_of_different_settings_lose_nothing() {
    let (bed, _) = with_other("tuned").await;
    for round in 0..20 {
        let (description, max) = (format!("round {round}"), 1_000 + round);
        let (one, other) = tokio::join!(
            bed.write("sys/mounts/other/tune", json!({"description": description})),
            bed.write("sys/mounts/other/tune", json!({"max_lease_ttl": max})),
        );
        assert_eq!((one.0, other.0), (204, 204), "{one:?} {other:?}");
        let tuned = bed.read("sys/mounts/other/tune").await.1["data"].clone();
        assert_eq!(
            (&tuned["description"], &tuned["max_lease_ttl"]),
            (&json!(description), &json!(max))
        );
    }
    let directory = bed.stop().await;
    let bed = Bed::open(directory).await;
    let info = bed.read("sys/mounts/other").await.1["data"].clone();
    assert_eq!(
        (&info["description"], &info["config"]["max_lease_ttl"]),
        (&json!("round 19"), &json!(1_019))
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tuned_lifetime_applies_to_next_lease_and_token() {
    let (bed, _) = with_other("tuned-lifetimes").await;
    assert_eq!(bed.write("sys/mounts/other/tune", json!({"max_lease_ttl": "60s"})).await.0, 204);
    let leased = bed.write("other/lease/capped", json!({"ttl": 600})).await.1;
    assert_eq!(leased["lease_duration"], 60, "{leased}");
    assert_eq!(
        bed.write("sys/auth/token/tune", json!({"default_lease_ttl": 90, "max_lease_ttl": 120}))
            .await
            .0,
        204
    );
    let lifetime = async |ttl: Value| {
        let answer =
            bed.write("auth/token/create", json!({"policies": "default", "ttl": ttl})).await.1;
        answer["auth"]["lease_duration"].clone()
    };
    assert_eq!((lifetime(Value::Null).await, lifetime(json!("1h")).await), (json!(90), json!(120)));
    let effective = bed.read("sys/mounts/auth/token/tune").await.1["data"].clone();
    assert_eq!(
        (&effective["default_lease_ttl"], &effective["max_lease_ttl"]),
        (&json!(90), &json!(120))
    );
    let directory = bed.stop().await;
    let bed = Bed::open(directory).await;
    assert_eq!(bed.read("sys/auth/token/tune").await.1["data"]["default_lease_ttl"], 90);
    assert_eq!(
        bed.write(
            "sys/auth/token/tune",
            json!({"default_lease_ttl": "system", "max_lease_ttl": "system"})
        )
        .await
        .0,
        204
    );
    let system = bed.read("sys/auth/token/tune").await.1["data"].clone();
    assert_eq!(
        (&system["default_lease_ttl"], &system["max_lease_ttl"]),
        (&json!(3_600), &json!(7_200))
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_names_of_the_servers_parts_never_change() {
    let bed = Bed::new("builtin").await;
    let names = async |bed: &Bed| {
        let (secrets, auth) = (bed.read("sys/mounts").await.1, bed.read("sys/auth").await.1);
        let of = |info: &Value| json!([info["accessor"], info["uuid"], info["type"]]);
        (of(&secrets["sys/"]), of(&auth["data"]["token/"]))
    };
    let before = names(&bed).await;
    assert!(before.0[0].as_str().unwrap().starts_with("system_"), "{before:?}");
    assert!(before.1[0].as_str().unwrap().starts_with("auth_token_"), "{before:?}");
    assert_ne!(before.0[1], before.1[1]);
    assert_eq!(bed.write("sys/mounts/sys/tune", json!({"description": "ours"})).await.0, 204);
    let directory = bed.stop().await;
    let bed = Bed::open(directory).await;
    assert_eq!(names(&bed).await, before);
    assert_eq!(bed.read("sys/mounts/sys").await.1["data"]["description"], "ours");
    for (verb, path, fields) in [
        (Verb::Delete, "sys/mounts/sys", json!({})),
        (Verb::Delete, "sys/auth/token", json!({})),
        (Verb::Write, "sys/auth/token", json!({"type": "probe"})),
        (Verb::Write, "sys/mounts/sys", json!({"type": "probe"})),
        (Verb::Write, "sys/remount", json!({"from": "sys", "to": "x"})),
        (Verb::Write, "sys/remount", json!({"from": "auth/token", "to": "auth/x"})),
        (Verb::Write, "sys/remount", json!({"from": "probe", "to": "auth/x"})),
        (Verb::Write, "sys/remount", json!({"from": "probe", "to": "sys/x"})),
        (Verb::Write, "sys/mounts/sys/tune", json!({"max_lease_ttl": 5})),
    ] {
        let (status, refused) = bed.call(verb, path, fields.clone()).await;
        assert_eq!(status, 400, "{path} {fields}: {refused}");
    }
    assert_eq!(names(&bed).await, before);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_sees_mounts_allowed_by_its_policies() {
    let (bed, _) = with_other("visible").await;
    bed.write(
        "sys/mounts/public",
        json!({"type": "probe", "config": {"listing_visibility": "unauth"}}),
    )
    .await;
    bed.write(
        "sys/policies/acl/other",
        json!({"policy": "path \"other/note/+\" { capabilities = [\"read\"] }"}),
    )
    .await;
    let created_token = bed
        .write("auth/token/create", json!({"policies": "other", "no_default_policy": true}))
        .await
        .1;
    let token = created_token["auth"]["client_token"].as_str().unwrap();
    let seen = async |token: &str| {
        let (status, answer) =
            bed.call_as(token, Verb::Read, "sys/internal/ui/mounts", json!({})).await;
        assert_eq!(status, 200, "{answer}");
        let names = |class: &str| {
            answer["data"][class].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        (names("secret"), names("auth"), answer["data"].clone())
    };
    let (secret, auth, data) = seen("").await;
    assert_eq!((secret, auth), (vec!["public/".to_owned()], Vec::new()));
    assert_eq!(
        data["secret"]["public/"],
        json!({"type": "probe", "description": "", "options": {}})
    );
    let refused = bed.call_as("bhs.none", Verb::Read, "sys/internal/ui/mounts", json!({})).await;
    assert_eq!(refused.0, 403, "{}", refused.1);
    let (secret, _, data) = seen(token).await;
    assert_eq!(secret, ["other/", "public/"]);
    assert!(
        data["secret"]["other/"]["accessor"].is_string()
            && data["secret"]["public/"]["accessor"].is_null()
    );
    let (secret, auth, _) = seen("root").await;
    assert_eq!((secret.len(), auth.len()), (6, 1), "{secret:?} {auth:?}");

    preflights_are_refused_alike(&bed, token).await;
    bed.end().await;
}

/// `sys/internal/ui/mounts/:path` tells `token` of its mounts, and of no other path whether a mount
/// is there.
async fn preflights_are_refused_alike(bed: &Bed, token: &str) {
    let preflight = async |token: &str, path: &str| {
        bed.call_as(token, Verb::Read, &format!("sys/internal/ui/mounts/{path}"), json!({})).await
    };
    let (status, info) = preflight(token, "other/note/x").await;
    assert_eq!(
        (status, &info["data"]["path"], &info["data"]["type"]),
        (200, &json!("other/"), &json!("probe"))
    );
    for (who, path) in [(token, "probe"), (token, "nowhere"), ("", "public"), ("bhs.none", "other")]
    {
        let (status, refused) = preflight(who, path).await;
        let expected = format!(
            "permission denied: preflight capability check returned 403, please ensure client's \
             policies grant access to path \"{path}/\""
        );
        assert_eq!(
            (status, error(&refused)),
            (403, expected.as_str()),
            "all refusals have the same text"
        );
    }
    assert_eq!(bed.write("sys/seal", json!({})).await.0, 204);
    assert_eq!(preflight("root", "other").await.0, 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_method_types_come_from_catalog() {
    let bed = Bed::new("auth-methods").await;
    for (kind, part) in [
        ("userpass", "there is no auth method \"userpass\"; there are: none"),
        ("probe", "is a kind of secrets engine"),
        ("token", "there is no auth method"),
    ] {
        let (status, refused) = bed.write("sys/auth/mine", json!({"type": kind})).await;
        assert_eq!(status, 400, "{refused}");
        assert!(error(&refused).starts_with("plugin not found in the catalog: "), "{refused}");
        assert!(error(&refused).contains(part), "{refused}");
    }
    for path in ["sys/auth/mine", "sys/auth/mine/tune", "sys/mounts/auth/mine/tune"] {
        let (status, refused) = bed.read(path).await;
        assert_eq!((status, error(&refused)), (400, "No auth engine at mine/"), "{path}");
    }
    assert_eq!(bed.call(Verb::Delete, "sys/auth/mine", json!({})).await.0, 204);
    let policy =
        json!({"policy": "path \"sys/*\" { capabilities = [\"read\", \"update\", \"delete\"] }"});
    bed.write("sys/policies/acl/operator", policy).await;
    let created_token = bed.write("auth/token/create", json!({"policies": "operator"})).await.1;
    let token = created_token["auth"]["client_token"].as_str().unwrap();
    for (verb, path, status) in [
        (Verb::Read, "sys/auth", 200),
        (Verb::Read, "sys/auth/token", 403),
        (Verb::Write, "sys/auth/x", 403),
        (Verb::Delete, "sys/auth/x", 403),
        (Verb::Read, "sys/auth/token/tune", 403),
        (Verb::Write, "sys/auth/token/tune", 403),
        (Verb::Read, "sys/mounts/auth/token/tune", 200),
        (Verb::Write, "sys/remount", 403),
        (Verb::Read, "sys/mounts/probe", 200),
    ] {
        let (answered, answer) =
            bed.call_as(token, verb, path, json!({"type": "x", "from": "a", "to": "b"})).await;
        assert_eq!(answered, status, "{path}: {answer}");
    }
    bed.end().await;
}

/// Enables mounts until there are `most` mounts. Returns the shortest time of the last hundred:
/// other work of the machine slows down most requests, but never all.
async fn enable_up_to(bed: &Bed, from: u32, most: u32) -> Duration {
    let mut quickest = Duration::MAX;
    for number in from..most {
        let path = format!("sys/mounts/area-{}/mount-{number}", number % 100);
        let began = Instant::now();
        assert_eq!(bed.write(&path, json!({"type": "probe"})).await.0, 204);
        if number >= most - 100 {
            quickest = quickest.min(began.elapsed());
        }
    }
    quickest
}

/// An implementation that visits all mounts would take eleven times as long.
#[tokio::test(flavor = "multi_thread")]
async fn mount_enabling_cost_is_independent_of_mount_count() {
    let bed = Bed::new("many-mounts").await;
    enable_up_to(&bed, 0, 110).await;
    let few = enable_up_to(&bed, 110, 220).await;
    let many = enable_up_to(&bed, 220, 2_500).await;
    assert!(many < few * 6, "few mounts: {few:?}; many mounts: {many:?}");
    bed.end().await;
}
