//! Many leases at once: found below a path, ended there in spite of failures, counted when nobody
//! can end them, and repaired when nobody would.

use crate::bed::{Bed, error, request, store_options};
use bulkhead_store::{Address, DataDirectory, IndexColumns, Space, Store};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Makes a lease of an hour at `<mount>/lease/<name>` and gives its id.
async fn leased(bed: &Bed, mount: &str, name: &str) -> String {
    let (status, leased) = bed.write(&format!("{mount}/lease/{name}"), json!({"ttl": 3_600})).await;
    assert_eq!(status, 200, "{leased}");
    leased["lease_id"].as_str().unwrap().to_owned()
}

/// Returns the answer to a look-up of the lease; `None` if the lease does not exist.
async fn looked_up(bed: &Bed, id: &str) -> Option<Value> {
    let (status, answer) = bed.write("sys/leases/lookup", json!({"lease_id": id})).await;
    assert!(status == 200 || error(&answer).starts_with("invalid lease"), "{answer}");
    (status == 200).then(|| answer["data"].clone())
}

async fn is_alive(bed: &Bed, id: &str) -> bool {
    looked_up(bed, id).await.is_some()
}

/// Waits until the lease is gone.
async fn gone(bed: &Bed, id: &str) {
    let began = Instant::now();
    while is_alive(bed, id).await {
        assert!(
            began.elapsed() < crate::bed::PATIENCE,
            "{id} does not end; {:?}",
            bed.log.0.lock().unwrap()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn listed(bed: &Bed, path: &str, query: Value) -> Vec<String> {
    let (status, answer) = bed.call(Verb::List, path, query).await;
    assert!(status == 200 || (status == 404 && answer == json!({"errors": []})), "{answer}");
    serde_json::from_value(answer["data"]["keys"].clone()).unwrap_or_default()
}

/// The store of a directory that nobody holds.
async fn opened(directory: &Path) -> Arc<Store> {
    let data_directory = DataDirectory::hold(store_options(directory)).await.unwrap();
    data_directory.open(bulkhead_store::dev_key(&data_directory).unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn prefix_revocation_ends_leases_below_path_only() {
    let bed = Bed::new("prefix").await;
    for mount in ["team/a", "team/ab"] {
        assert_eq!(
            bed.write(&format!("sys/mounts/{mount}"), json!({"type": "probe"})).await.0,
            204
        );
    }
    let (reader, reader2) =
        (leased(&bed, "probe", "reader").await, leased(&bed, "probe", "reader2").await);
    let (writer, twin) =
        (leased(&bed, "probe", "writer").await, leased(&bed, "probe", "writer").await);
    let (a, ab) = (leased(&bed, "team/a", "x").await, leased(&bed, "team/ab", "x").await);
    // Clients send the path once more in the body.
    let revoke = async |path: &str| {
        bed.write(path, json!({"prefix": path.split_once("prefix/").unwrap().1})).await.0
    };

    for beside in [
        "probe/leas",
        "pro",
        "probe/lease/read",
        "probe/lease/reader/x",
        "nothing/mounted",
        "sys",
        "tea",
    ] {
        assert_eq!(revoke(&format!("sys/leases/revoke-prefix/{beside}")).await, 204, "{beside}");
    }
    for id in [&reader, &reader2, &writer, &twin, &a, &ab] {
        assert!(is_alive(&bed, id).await, "{id}");
    }
    assert_eq!(revoke("sys/leases/revoke-prefix/probe/lease/reader").await, 204);
    assert!(!is_alive(&bed, &reader).await && is_alive(&bed, &reader2).await);
    assert_eq!(bed.noted("reader").await, "Requested");

    assert_eq!(
        revoke(&format!("sys/leases/revoke-prefix/{writer}")).await,
        204,
        "the id of one lease"
    );
    assert!(!is_alive(&bed, &writer).await && is_alive(&bed, &twin).await);
    assert_eq!(revoke("sys/revoke-prefix/team/a").await, 204);
    assert!(!is_alive(&bed, &a).await && is_alive(&bed, &ab).await);
    assert_eq!(revoke("sys/leases/revoke-prefix/team").await, 204, "a folder of mounts");
    assert!(!is_alive(&bed, &ab).await && is_alive(&bed, &twin).await);
    assert_eq!(revoke("sys/leases/revoke-prefix/probe").await, 204);
    assert!(!is_alive(&bed, &reader2).await && !is_alive(&bed, &twin).await);
    assert_eq!(
        bed.write("sys/leases/revoke-prefix", json!({"prefix": "probe"})).await.0,
        404,
        "the path names it"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoke_prefix_takes_prefix_from_path_not_body() {
    let bed = Bed::new("prefix-path").await;
    let other = leased(&bed, "probe", "other").await;
    let (_, answer) =
        bed.write("sys/leases/revoke-prefix/nothing", json!({"prefix": "probe"})).await;
    assert!(
        answer["warnings"][0].as_str().unwrap().contains("captured from its path: [prefix]"),
        "{answer}"
    );
    assert!(is_alive(&bed, &other).await, "the path wins over the body");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unrevocable_leases_stay_until_forced_revocation() {
    let bed = Bed::new("force").await;
    let (stuck, other) =
        (leased(&bed, "probe", "stuck-a").await, leased(&bed, "probe", "free").await);
    let (status, refused) = bed.write("sys/leases/revoke-prefix/probe", json!({})).await;
    assert_eq!(status, 502, "{refused}");
    assert!(
        error(&refused)
            .starts_with("leases that could not be ended: 1; the first, because: it is stuck")
    );
    assert!(!is_alive(&bed, &other).await, "a failed revocation does not stop the others");
    assert_eq!(looked_up(&bed, &stuck).await.unwrap()["last_error"], "it is stuck");

    leased(&bed, "probe", "never-b").await;
    let (status, refused) =
        bed.write("sys/leases/revoke-prefix/probe/lease/never-b", json!({})).await;
    assert_eq!(status, 400, "a refusal is not a reason to come back: {refused}");

    assert_eq!(bed.write("sys/leases/revoke-force/probe/lease", json!({})).await.0, 204);
    assert!(!is_alive(&bed, &stuck).await);
    assert!(bed.line("lease-forgotten").await.contains("probe/lease/"));
    assert_eq!(listed(&bed, "sys/leases/lookup", json!({})).await, Vec::<String>::new());
    assert_eq!(bed.write("sys/revoke-force/probe", json!({})).await.0, 204, "nothing left");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_lease_blocks_no_others_and_needs_force() {
    let bed = Bed::new("unreadable").await;
    for _ in 0..3 {
        leased(&bed, "probe", "x").await;
    }
    let directory = bed.stop().await;
    let store = opened(&directory).await;
    let mut unit = store.begin();
    let first = unit.keys(Space::Lease, "", "", 1).await.unwrap().remove(0);
    let address = Address::new(Space::Lease, first.as_str());
    let index = unit.get(&address).await.unwrap().unwrap().index;
    unit.put(address, b"no lease".to_vec(), index);
    unit.commit().await.unwrap();
    store.close().await;

    let bed = Bed::open(directory).await;
    assert_eq!(listed(&bed, "sys/leases/lookup/probe/lease/x", json!({})).await.len(), 2);
    let (status, answer) = bed.write("sys/leases/revoke-prefix/probe", json!({})).await;
    assert_eq!(status, 500, "{answer}");
    assert!(error(&answer).starts_with("leases that could not be ended: 1;"), "{answer}");
    assert_eq!(listed(&bed, "sys/leases/lookup", json!({})).await, ["probe/"]);
    assert_eq!(bed.write("sys/leases/revoke-force/probe", json!({})).await.0, 204);
    assert_eq!(listed(&bed, "sys/leases/lookup", json!({})).await, Vec::<String>::new());
    bed.line("lease-unreadable").await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn asynchronous_revocation_answers_202_and_ends_leases() {
    let bed = Bed::new("async").await;
    let (one, below) = (leased(&bed, "probe", "one").await, leased(&bed, "probe", "below").await);
    let forced = leased(&bed, "probe", "stuck-forced").await;
    let ask = async |path: &str, id: Value| {
        let (status, answer) = bed.write(path, json!({"lease_id": id, "sync": false})).await;
        assert_eq!(
            (status, answer["warnings"].as_array().map(Vec::len)),
            (202, Some(1)),
            "{path}: {answer}"
        );
    };
    ask("sys/leases/revoke", json!(one)).await;
    gone(&bed, &one).await;
    ask("sys/leases/revoke-prefix/probe/lease/below", Value::Null).await;
    gone(&bed, &below).await;
    ask("sys/leases/revoke-force/probe", Value::Null).await;
    gone(&bed, &forced).await;
    assert_eq!(
        bed.write("sys/revoke", json!({"lease_id": one, "sync": false})).await.0,
        204,
        "gone is revoked"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_one_lane_end_in_parallel() {
    const LEASES: u32 = 80;
    let bed = Bed::new("many").await;
    for number in 0..LEASES {
        leased(&bed, "probe", &format!("tarry-{number}")).await;
    }
    let began = Instant::now();
    assert_eq!(bed.write("sys/leases/revoke-prefix/probe", json!({})).await.0, 204);
    let one_by_one = Duration::from_millis(100) * LEASES;
    assert!(began.elapsed() < one_by_one * 2 / 3, "{:?}", began.elapsed());
    assert_eq!(listed(&bed, "sys/leases/lookup", json!({})).await, Vec::<String>::new());
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_in_creation_under_revoked_prefix_is_withheld() {
    let bed = Bed::new("making").await;
    let fields = json!({"ttl": 600, "how": "waits"});
    let (service, making) =
        (Arc::clone(&bed.service), request("root", Verb::Write, "probe/lease/late", fields));
    let making = tokio::spawn(async move { service.handle(making).await.into_bytes().0 });
    bed.noted("making-late").await;
    // Answered once every lease below is due, also a lease in the making.
    assert_eq!(bed.write("sys/leases/revoke-prefix/probe", json!({"sync": false})).await.0, 202);
    bed.write("probe/count/go-late", json!({})).await;
    assert_eq!(making.await.unwrap(), 503);
    assert_eq!(bed.noted("late").await, "Undo");
    assert_eq!(bed.write("sys/leases/revoke-prefix/probe", json!({})).await.0, 204);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_for_hanging_target_does_not_prevent_sealing() {
    let bed = Bed::new("sealing").await;
    leased(&bed, "probe", "hang-a").await;
    let call = request("root", Verb::Write, "sys/leases/revoke-prefix/probe", json!({}));
    let service = Arc::clone(&bed.service);
    let waiting = tokio::spawn(async move { service.handle(call).await.into_bytes() });
    // The lease is due as soon as the reason can be seen.
    let id = &listed(&bed, "sys/leases/lookup/probe/lease/hang-a", json!({})).await[0];
    let began = Instant::now();
    while looked_up(&bed, &format!("probe/lease/hang-a/{id}")).await.unwrap()["renewable"] == true {
        assert!(began.elapsed() < crate::bed::PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bed.service.stop().await;
    let (status, _, body) = waiting.await.unwrap();
    assert_eq!(status, 503, "{}", String::from_utf8_lossy(&body));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_listing_is_sorted_paged_and_by_folder() {
    let bed = Bed::new("listing").await;
    assert_eq!(listed(&bed, "sys/leases/lookup", json!({})).await, Vec::<String>::new());
    for mount in ["team/a", "team/ab"] {
        assert_eq!(
            bed.write(&format!("sys/mounts/{mount}"), json!({"type": "probe"})).await.0,
            204
        );
        leased(&bed, mount, "x").await;
    }
    // More than a page of a folder: the listing steps over the folder instead of walking the
    // folder.
    for _ in 0..120 {
        leased(&bed, "probe", "many").await;
    }
    let mut ids = Vec::new();
    for name in ["b", "a.b", "a-b", "a", "a"] {
        ids.push(leased(&bed, "probe", name).await);
    }
    assert_eq!(listed(&bed, "sys/leases/lookup", json!({})).await, ["probe/", "team/"]);
    assert_eq!(listed(&bed, "sys/leases/lookup/team", json!({})).await, ["a/", "ab/"]);
    assert_eq!(listed(&bed, "sys/leases/lookup/team/a", json!({})).await, ["lease/"]);
    let folders = ["a-b/", "a.b/", "a/", "b/", "many/"];
    assert_eq!(listed(&bed, "sys/leases/lookup/probe/lease", json!({})).await, folders);
    let mut last: Vec<&str> = ids[3..].iter().map(|id| id.rsplit('/').next().unwrap()).collect();
    last.sort_unstable();
    assert_eq!(listed(&bed, "sys/leases/lookup/probe/lease/a", json!({})).await, last);
    for nothing in
        ["probe/lease/c", "probe/leas", "tea", "nowhere", "auth/token", "probe/lease/a/b"]
    {
        let path = format!("sys/leases/lookup/{nothing}");
        assert_eq!(listed(&bed, &path, json!({})).await, Vec::<String>::new(), "{nothing}");
    }

    let page = async |after: &str| {
        listed(&bed, "sys/leases/lookup/probe/lease", json!({"after": after, "limit": "2"})).await
    };
    assert_eq!(page("").await, folders[..2]);
    assert_eq!(page("a.b/").await, folders[2..4]);
    assert_eq!(page("b/").await, folders[4..]);
    let all = listed(&bed, "sys/leases/lookup/probe/lease/many", json!({})).await;
    assert!(all.len() == 120 && all.is_sorted(), "{}", all.len());
    let query = json!({"after": all[49], "limit": "100"});
    assert_eq!(listed(&bed, "sys/leases/lookup/probe/lease/many", query).await, all[50..]);
    let (status, refused) =
        bed.call(Verb::List, "sys/leases/lookup", json!({"limit": "all"})).await;
    assert_eq!(status, 400, "{refused}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixth_refusal_makes_lease_irrevocable_with_daily_retry() {
    let bed = Bed::new("irrevocable").await;
    let id = leased(&bed, "probe", "never-ends").await;
    let irrevocable = json!({"type": "irrevocable"});
    for attempt in 1..=6 {
        let (_, count) = bed.call(Verb::Read, "sys/leases/count", irrevocable.clone()).await;
        assert_eq!(
            count["data"],
            json!({"lease_count": 0, "counts": {}}),
            "before attempt {attempt}"
        );
        assert_eq!(bed.write("sys/leases/revoke", json!({"lease_id": id})).await.0, 400);
    }
    assert_eq!(looked_up(&bed, &id).await.unwrap()["irrevocable"], true);
    let accessor =
        bed.read("sys/mounts/probe").await.1["data"]["accessor"].as_str().unwrap().to_owned();
    let counted = json!({"lease_count": 1, "counts": {accessor: 1}});
    assert_eq!(
        bed.call(Verb::Read, "sys/leases/count", irrevocable.clone()).await.1["data"],
        counted
    );
    let error = "ü".repeat(240);
    let listed = json!({"lease_count": 1, "leases": [{"lease_id": id, "error": error}]});
    assert_eq!(bed.call(Verb::Read, "sys/leases", irrevocable.clone()).await.1["data"], listed);

    let directory = bed.stop().await;
    let store = opened(&directory).await;
    let found = store.scan_owned(Space::Lease, "irrevocable").page().await.unwrap().unwrap();
    let record = store.begin().get(&found[0]).await.unwrap().unwrap();
    let hours = (record.index.due.unwrap() - store.now()) / 3_600_000;
    assert!((23..=34).contains(&hours), "due in {hours} hours");
    store.close().await;

    let bed = Bed::open(directory).await;
    assert_eq!(
        bed.write("sys/leases/revoke", json!({"lease_id": id})).await.0,
        400,
        "tried at once, and kept"
    );
    let counted = bed.call(Verb::Read, "sys/leases/count", irrevocable.clone()).await.1;
    assert_eq!(counted["data"]["lease_count"], 1);
    bed.write("probe/count/go-never-ends", json!({})).await;
    assert_eq!(bed.write("sys/leases/revoke", json!({"lease_id": id})).await.0, 204);
    assert_eq!(
        bed.call(Verb::Read, "sys/leases/count", irrevocable).await.1["data"]["lease_count"],
        0
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_irrevocable_leases_are_counted_and_limit_applies() {
    let bed = Bed::new("types").await;
    for path in ["sys/leases/count", "sys/leases"] {
        for wrong in [
            json!({}),
            json!({"type": "expired"}),
            json!({"type": ""}),
            json!({"type": ["irrevocable"]}),
        ] {
            let (status, refused) = bed.call(Verb::Read, path, wrong.clone()).await;
            assert_eq!(status, 400, "{path} {wrong}: {refused}");
        }
    }
    for number in 0..3 {
        let id = leased(&bed, "probe", &format!("never-{number}")).await;
        for _ in 0..6 {
            bed.write("sys/leases/revoke", json!({"lease_id": id})).await;
        }
    }
    let list = async |limit: Value| {
        let (status, answer) = bed
            .call(Verb::Read, "sys/leases", json!({"type": "irrevocable", "limit": limit}))
            .await;
        (status, answer["data"]["leases"].as_array().map(Vec::len), answer["warnings"].clone())
    };
    assert_eq!(list(json!("2")).await, (200, Some(2), Value::Null));
    assert_eq!(list(json!("none")).await, (200, Some(3), Value::Null));
    assert_eq!(list(json!("0")).await.0, 400);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_lease_is_refused_without_further_facts() {
    let bed = Bed::new("no-lease").await;
    let long = format!("probe/lease/{}", "x".repeat(5_000));
    let unknown = [
        "x",
        "/",
        "//",
        "..",
        "probe",
        "probe/",
        "probe/lease/x",
        "probe/../sys/x",
        "nowhere/x",
        "ü/日本",
        &long,
    ];
    for id in unknown {
        let ask = async |path: &str| bed.write(path, json!({"lease_id": id})).await;
        let (status, refused) = ask("sys/leases/lookup").await;
        assert_eq!(
            (status, error(&refused).starts_with("invalid lease")),
            (400, true),
            "{id}: {refused}"
        );
        let (status, refused) = ask("sys/leases/renew").await;
        assert_eq!(
            (status, error(&refused).starts_with("lease not found")),
            (400, true),
            "{id}: {refused}"
        );
        assert_eq!(ask("sys/leases/revoke").await.0, 204, "{id}");
    }
    for path in
        ["sys/leases/lookup", "sys/leases/renew", "sys/leases/revoke", "sys/renew", "sys/revoke"]
    {
        let (status, refused) = bed.write(path, json!({"lease_id": ""})).await;
        assert_eq!(
            (status, error(&refused).starts_with("lease_id is required")),
            (400, true),
            "{path}: {refused}"
        );
    }
    let (status, refused) = bed.write("sys/leases/renew/auth/token/create/h0123", json!({})).await;
    assert_eq!(status, 400);
    assert!(
        error(&refused).starts_with("tokens cannot be renewed through this endpoint"),
        "{refused}"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn creating_path_revocation_ends_tokens_and_their_leases() {
    let bed = Bed::new("made-at").await;
    bed.write(
        "sys/policies/acl/all",
        json!({"policy": "path \"*\" { capabilities = [\"read\", \"update\"] }"}),
    )
    .await;
    let (_, answer) = bed.write("auth/token/create", json!({"policies": "all", "ttl": "1h"})).await;
    let token = answer["auth"]["client_token"].as_str().unwrap();
    let (status, leased) =
        bed.call_as(token, Verb::Write, "probe/lease/of-token", json!({"ttl": 600})).await;
    assert_eq!(status, 200, "{leased}");
    for beside in ["auth/token/creat", "auth/token/create/role", "auth/userpass"] {
        assert_eq!(
            bed.write(&format!("sys/leases/revoke-prefix/{beside}"), json!({})).await.0,
            204
        );
        assert_eq!(
            bed.call_as(token, Verb::Write, "probe/count/x", json!({})).await.0,
            204,
            "{beside}"
        );
    }
    assert_eq!(bed.write("sys/leases/revoke-prefix/auth", json!({})).await.0, 204);
    assert_eq!(
        bed.call_as(token, Verb::Write, "probe/count/x", json!({})).await.0,
        403,
        "refused at once"
    );
    assert_eq!(bed.noted("of-token").await, "TokenEnded");
    assert_eq!(bed.read("sys/mounts").await.0, 200, "a token that never expires has no lease");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_leases_are_listed_at_creating_path() {
    let bed = Bed::new("token-leases").await;
    let (_, answer) = bed.write("auth/token/create", json!({"ttl": "1h"})).await;
    let (_, child) = bed.write("auth/token/create-orphan", json!({"ttl": "2h"})).await;
    let names = async |path: &str| {
        let (status, listed) = bed.call(Verb::List, path, json!({})).await;
        assert_eq!(status, 200, "{path}: {listed}");
        listed["data"]["keys"].clone()
    };
    assert!(names("sys/leases/lookup").await.as_array().unwrap().contains(&json!("auth/")));
    assert_eq!(names("sys/leases/lookup/auth").await, json!(["token/"]));
    let folders = json!(["create-orphan/", "create/"]);
    assert_eq!(names("sys/leases/lookup/auth/token").await, folders);
    let keys = names("sys/leases/lookup/auth/token/create").await;
    let id = format!("auth/token/create/{}", keys[0].as_str().unwrap());
    let (status, shown) = bed.write("sys/leases/lookup", json!({"lease_id": id})).await;
    let data = &shown["data"];
    assert_eq!(
        (status, &data["id"], &data["path"]),
        (200, &json!(id), &json!("auth/token/create"))
    );
    assert!((3_590..=3_600).contains(&data["ttl"].as_u64().unwrap()), "{data}");
    assert!(data["expire_time"].is_string() && data["renewable"] == true, "{data}");
    for secret in ["client_token", "accessor"] {
        let secret = answer["auth"][secret].as_str().unwrap();
        assert!(!shown.to_string().contains(secret), "{shown}");
    }
    // The key of one path is not a lease of another path.
    let elsewhere = id.replace("create", "create-orphan");
    assert_eq!(bed.write("sys/leases/lookup", json!({"lease_id": elsewhere})).await.0, 400);
    assert_eq!(bed.write("sys/leases/revoke", json!({"lease_id": elsewhere})).await.0, 204);
    assert_eq!(bed.write("sys/leases/renew", json!({"lease_id": id})).await.0, 400);
    let token = answer["auth"]["client_token"].as_str().unwrap();
    let own = async |token: &str| {
        bed.call_as(token, Verb::Read, "auth/token/lookup-self", json!({})).await.0
    };
    assert_eq!(own(token).await, 200);
    assert_eq!(bed.write("sys/leases/revoke", json!({"lease_id": id})).await.0, 204);
    assert_eq!(own(token).await, 403, "refused at once");
    assert_eq!(bed.write("sys/leases/lookup", json!({"lease_id": id})).await.0, 400);
    let (status, _) = bed.call(Verb::List, "sys/leases/lookup/auth/token/create", json!({})).await;
    assert_eq!(status, 404, "a root token without an end has no lease");
    let force = bed.write("sys/leases/revoke-force/auth/token/create-orphan", json!({})).await;
    assert_eq!(force.0, 204);
    assert_eq!(own(child["auth"]["client_token"].as_str().unwrap()).await, 403);
    bed.end().await;
}

/// More mounts than a writing commit may rely on: two reads each.
const MANY_MOUNTS: usize = 12_500;

#[tokio::test(flavor = "multi_thread")]
async fn tidy_works_beyond_mount_limit_of_commit() {
    let bed = Bed::new("tidy-many").await;
    assert_eq!(bed.write("sys/mounts/lost", json!({"type": "probe"})).await.0, 204);
    leased(&bed, "lost", "x").await;
    let directory = bed.stop().await;
    let store = opened(&directory).await;
    let probe = Address::new(Space::Core, "mount/probe/");
    let record = store.begin().get(&probe).await.unwrap().unwrap();
    let mut body: Value = serde_json::from_slice(&record.body).unwrap();
    for first in (0..MANY_MOUNTS).step_by(1_000) {
        let mut unit = store.begin();
        for number in first..MANY_MOUNTS.min(first + 1_000) {
            body["uuid"] = json!(format!("uuid-{number}"));
            let address = Address::new(Space::Core, format!("mount/many/{number}/"));
            unit.put(address, serde_json::to_vec(&body).unwrap(), IndexColumns::default());
        }
        unit.commit().await.unwrap();
    }
    let mut unit = store.begin();
    unit.delete(Address::new(Space::Core, "mount/lost/"));
    unit.commit().await.unwrap();
    store.close().await;
    drop(store);
    let bed = Bed::open(directory).await;
    assert_eq!(bed.write("sys/leases/tidy", json!({})).await.0, 202);
    let line = bed.line("tidied").await;
    assert!(line.contains("leases-tidied") && line.contains(r#"("mount-gone", "1")"#), "{line}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_tidy_ends_tokenless_and_forgets_mountless_leases() {
    let bed = Bed::new("tidy").await;
    assert_eq!(bed.write("sys/mounts/lost", json!({"type": "probe"})).await.0, 204);
    let (orphan, live_lease) =
        (leased(&bed, "probe", "orphan").await, leased(&bed, "probe", "kept").await);
    leased(&bed, "lost", "x").await;
    let directory = bed.stop().await;
    let store = opened(&directory).await;
    let mut unit = store.begin();
    for key in unit.keys(Space::Lease, "", "", 9).await.unwrap() {
        let address = Address::new(Space::Lease, key.as_str());
        let record = unit.get(&address).await.unwrap().unwrap();
        let mut body: Value = serde_json::from_slice(&record.body).unwrap();
        if body["id"] == json!(orphan) {
            body["token"] = json!("0123");
        }
        let index = if body["id"] == json!(live_lease) {
            IndexColumns { due: None, ..record.index }
        } else {
            record.index
        };
        unit.put(address, serde_json::to_vec(&body).unwrap(), index);
    }
    unit.delete(Address::new(Space::Core, "mount/lost/"));
    unit.commit().await.unwrap();
    store.close().await;

    let bed = Bed::open(directory).await;
    let (status, answer) = bed.write("sys/leases/tidy", json!({})).await;
    assert_eq!((status, answer["warnings"].as_array().map(Vec::len)), (202, Some(1)), "{answer}");
    let line = bed.line("leases-tidied").await;
    for pair in [
        r#"("looked-at", "3")"#,
        r#"("token-gone", "1")"#,
        r#"("never-due", "1")"#,
        r#"("mount-gone", "1")"#,
    ] {
        assert!(line.contains(pair), "{line}");
    }
    assert_eq!(bed.noted("orphan").await, "TokenEnded");
    assert!(is_alive(&bed, &live_lease).await);
    let directory = bed.stop().await;
    let store = opened(&directory).await;
    let keys = store.begin().keys(Space::Lease, "", "", 9).await.unwrap();
    assert_eq!(keys.len(), 1, "{keys:?}");
    let left =
        store.begin().get(&Address::new(Space::Lease, keys[0].as_str())).await.unwrap().unwrap();
    assert!(left.index.due.is_some_and(|due| due > store.now()));
    store.close().await;
    std::fs::remove_dir_all(directory).unwrap();
}
