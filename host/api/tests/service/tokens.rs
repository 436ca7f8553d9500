//! Tokens are used as often as allowed, end with their maker, and give out nothing that the maker
//! lacks.

use crate::bed::{Bed, PATIENCE, error, request, store_options};
use bulkhead_store::{DataDirectory, IndexColumns, Space, Store};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// May do everything by policy, but for sudo.
const ALL: &str = r#"path "*" { capabilities = ["create", "read", "update", "delete", "list"] }"#;
/// The same, with sudo.
const SUDO: &str =
    r#"path "*" { capabilities = ["create", "read", "update", "delete", "list", "sudo"] }"#;
const OWN: &str = "auth/token/lookup-self";

/// A bed with the policies `all` and `sudo`.
async fn bed(name: &str) -> Bed {
    let bed = Bed::new(name).await;
    for (policy, rules) in [("all", ALL), ("sudo", SUDO)] {
        assert_eq!(
            bed.write(&format!("sys/policies/acl/{policy}"), json!({"policy": rules})).await.0,
            204
        );
    }
    bed
}

fn token_of(answer: &Value) -> String {
    answer["auth"]["client_token"]
        .as_str()
        .unwrap_or_else(|| panic!("no token: {answer}"))
        .to_owned()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

impl Bed {
    async fn as_who(&self, who: &str, path: &str, fields: Value) -> (u16, Value) {
        self.call_as(who, Verb::Write, path, fields).await
    }

    /// Creates a token as the caller `who`, and returns the whole answer.
    async fn made_by(&self, who: &str, fields: Value) -> Value {
        let (status, answer) = self.as_who(who, "auth/token/create", fields).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    async fn token(&self, fields: Value) -> String {
        token_of(&self.made_by("root", fields).await)
    }

    async fn child_of(&self, parent: &str) -> String {
        token_of(&self.made_by(parent, json!({})).await)
    }

    /// Status of a request with the token.
    async fn status_of(&self, token: &str) -> u16 {
        self.call_as(token, Verb::Read, OWN, json!({})).await.0
    }

    /// Returns the look-up of the token by itself.
    async fn seen(&self, token: &str) -> Value {
        let (status, answer) = self.call_as(token, Verb::Read, OWN, json!({})).await;
        assert_eq!(status, 200, "{answer}");
        answer["data"].clone()
    }

    #[track_caller]
    fn refused((status, answer): &(u16, Value), expected: u16, why: &str) {
        assert_eq!(*status, expected, "{answer}");
        assert!(error(answer).contains(why), "{why} is not in {answer}");
    }

    /// Waits until the row of the token with this accessor is gone.
    async fn cleared(&self, accessor: &Value) {
        let began = Instant::now();
        // Ending an ending token gives no warning; ending an absent token gives a warning.
        while self.write("auth/token/revoke-accessor", json!({"accessor": accessor})).await.0 != 200
        {
            assert!(began.elapsed() < PATIENCE, "{accessor} is still there");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The store of a closed directory.
async fn opened(directory: &Path) -> Arc<Store> {
    let data_directory = DataDirectory::hold(store_options(directory)).await.unwrap();
    data_directory.open(bulkhead_store::dev_key(&data_directory).unwrap()).await.unwrap()
}

/// Changes the stored records of tokens in a closed store. `change` returns the new due time of the
/// row, if any.
async fn edit_tokens(
    directory: &Path,
    change: impl Fn(&mut Value) -> Option<IndexColumns>,
) -> usize {
    let store = opened(directory).await;
    let mut unit = store.begin();
    let mut changed = 0;
    for key in unit.keys(Space::Token, "", "", 1_000).await.unwrap() {
        let address = bulkhead_store::Address::new(Space::Token, key);
        let record = unit.get(&address).await.unwrap().unwrap();
        let mut body: Value = serde_json::from_slice(&record.body).unwrap();
        if let Some(index) = change(&mut body) {
            unit.put(address, body.to_string().into_bytes(), index);
            changed += 1;
        }
    }
    unit.commit().await.unwrap();
    store.close().await;
    changed
}

async fn rows_of_tokens(directory: &Path) -> usize {
    let store = opened(directory).await;
    let rows = store.begin().keys(Space::Token, "", "", 1_000).await.unwrap().len();
    store.close().await;
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_get_exactly_ten_token_uses() {
    let bed = bed("uses").await;
    let answer = bed.made_by("root", json!({"policies": "all", "num_uses": 10})).await;
    assert_eq!(answer["auth"]["num_uses"], 10);
    let token = token_of(&answer);
    let requests = (0..100).map(|number| {
        let (service, token) = (Arc::clone(&bed.service), token.clone());
        // Writes, reads and denied requests all count as uses.
        let path = ["probe/count/uses", OWN, "probe/note/none"][number % 3];
        let verb = if number % 3 == 0 { Verb::Write } else { Verb::Read };
        tokio::spawn(async move {
            service.handle(request(&token, verb, path, json!({}))).await.into_bytes().0
        })
    });
    let requests: Vec<_> = requests.collect();
    let mut refused = 0;
    for request in requests {
        refused += usize::from(request.await.unwrap() == 403);
    }
    assert_eq!(refused, 90);
    let (_, listed) = bed.call(Verb::List, "auth/token/accessors", json!({})).await;
    assert!(
        !listed["data"]["keys"].as_array().unwrap().contains(&answer["auth"]["accessor"]),
        "{listed}"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_requests_consume_uses_and_reruns_count_once() {
    let bed = bed("denied").await;
    let narrow = r#"path "auth/token/lookup-self" { capabilities = ["read"] }"#;
    bed.write("sys/policies/acl/narrow", json!({"policy": narrow})).await;
    let token =
        bed.token(json!({"policies": "narrow", "no_default_policy": true, "num_uses": 4})).await;
    assert_eq!(bed.seen(&token).await["num_uses"], 3);
    assert_eq!(bed.as_who(&token, "probe/count/denied", json!({})).await.0, 403);
    assert_eq!(bed.as_who(&token, "no/such/mount", json!({})).await.0, 403);
    assert_eq!(bed.seen(&token).await["num_uses"], 0, "no use is left for other requests");
    assert_eq!(bed.status_of(&token).await, 403);

    // Ten requests that increment the same record conflict and run again.
    let token = bed.token(json!({"policies": "all", "num_uses": 11})).await;
    let counting = (0..10).map(|_| bed.as_who(&token, "probe/count/again", json!({})));
    for (status, answer) in futures_of(counting).await {
        assert_eq!(status, 204, "{answer}");
    }
    assert_eq!(bed.seen(&token).await["num_uses"], 0);
    assert_eq!(bed.noted("again").await, 10);
    bed.end().await;
}

/// Polls all futures concurrently.
async fn futures_of<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in &mut running {
            if output.is_none()
                && let std::task::Poll::Ready(done) = future.as_mut().poll(context)
            {
                *output = Some(done);
            }
        }
        if running.iter().all(|(_, output)| output.is_some()) {
            return std::task::Poll::Ready(());
        }
        std::task::Poll::Pending
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn last_use_never_creates_secret() {
    let bed = bed("last-use").await;
    let token = bed.token(json!({"policies": "all", "num_uses": 2})).await;
    let (status, leased) = bed.as_who(&token, "probe/lease/first", json!({"ttl": 600})).await;
    assert_eq!(status, 200, "{leased}");
    let refused = bed.as_who(&token, "probe/lease/last", json!({"ttl": 600})).await;
    Bed::refused(&refused, 400, "token had one use left");
    assert_eq!(bed.noted("first").await, "TokenEnded", "the token ended with its last use");
    assert_eq!(bed.read("probe/note/last").await.0, 404, "nothing was made");
    assert_eq!(bed.status_of(&token).await, 403);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn last_use_serves_write_renewal_and_self_lookup() {
    let bed = bed("last-works").await;
    let token = bed.token(json!({"policies": "all", "num_uses": 1})).await;
    assert_eq!(bed.as_who(&token, "probe/count/last", json!({})).await.0, 204);
    let token = bed.token(json!({"policies": "all", "num_uses": 1})).await;
    assert_eq!(bed.as_who(&token, "auth/token/renew-self", json!({})).await.0, 200);
    assert_eq!(bed.status_of(&token).await, 403, "a renewal gives no new uses");
    let token = bed.token(json!({"policies": "all", "num_uses": 1})).await;
    assert_eq!(bed.as_who(&token, "auth/token/lookup", json!({"token": token})).await.0, 200);
    let token = bed.token(json!({"policies": "all", "num_uses": 1})).await;
    assert_eq!(bed.as_who(&token, "auth/token/revoke-self", json!({})).await.0, 204);
    let token = bed.token(json!({"policies": "all", "num_uses": 2})).await;
    let refused = bed.as_who(&token, "auth/token/create", json!({})).await;
    Bed::refused(&refused, 400, "uses are counted");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn last_use_request_does_not_interrupt_earlier_request() {
    let bed = bed("slow-use").await;
    let answer = bed.made_by("root", json!({"policies": "all", "num_uses": 3})).await;
    let token = token_of(&answer);
    assert_eq!(bed.as_who(&token, "probe/lease/early", json!({"ttl": 600})).await.0, 200);
    let (service, slow) = (Arc::clone(&bed.service), token.clone());
    let waits = json!({"candidate": "x", "how": "waits"});
    let slow = tokio::spawn(async move {
        let call = request(&slow, Verb::Write, "probe/rotate/slow-use", waits);
        service.handle(call).await.into_bytes().0
    });
    let began = Instant::now();
    let accessor = json!({"accessor": answer["auth"]["accessor"]});
    loop {
        let (_, seen) = bed.write("auth/token/lookup-accessor", accessor.clone()).await;
        if seen["data"]["num_uses"] == 1 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{seen}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(bed.status_of(&token).await, 200, "the last use");
    assert_eq!(bed.status_of(&token).await, 403);
    assert_eq!(bed.read("probe/note/early").await.0, 404, "a request is under way");
    bed.write("probe/count/go-slow-use", json!({})).await;
    let status = slow.await.unwrap();
    assert!(status < 300, "the earlier request still commits: {status}");
    assert_eq!(bed.noted("early").await, "TokenEnded", "the last to leave ended it");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_with_aborted_last_use_ends_when_due() {
    let bed = bed("died").await;
    let answer = bed.made_by("root", json!({"policies": "all", "num_uses": 2})).await;
    let token = token_of(&answer);
    assert_eq!(bed.as_who(&token, "probe/lease/of-the-dead", json!({"ttl": 600})).await.0, 200);
    // A dropped request leaves the same state as a dead process: the request never ends.
    let call = bed.service.handle(request(&token, Verb::Read, "probe/loop", json!({})));
    assert!(tokio::time::timeout(Duration::from_millis(200), call).await.is_err());
    assert_eq!(bed.status_of(&token).await, 403, "no other begins");
    let directory = bed.stop().await;
    let long_ago = |record: &mut Value| {
        record["used_up"].as_u64()?;
        record["used_up"] = json!(1);
        Some(IndexColumns {
            due: Some(1),
            owner: record["parent"].as_str().unwrap_or_default().into(),
            ..IndexColumns::default()
        })
    };
    assert_eq!(
        edit_tokens(&directory, long_ago).await,
        1,
        "a used-up token is due without a request"
    );
    let bed = Bed::open(directory).await;
    assert_eq!(bed.noted("of-the-dead").await, "TokenEnded");
    bed.cleared(&answer["auth"]["accessor"]).await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_tree_is_refused_once_root_is_revoked() {
    let bed = bed("tree").await;
    let answer = bed.made_by("root", json!({"policies": "all"})).await;
    let top = token_of(&answer);
    let mut generation = vec![top.clone()];
    let mut all = Vec::new();
    for width in [3, 2, 2] {
        let mut next = Vec::new();
        for parent in &generation {
            for _ in 0..width {
                next.push(bed.child_of(parent).await);
            }
        }
        all.extend(next.clone());
        generation = next;
    }
    let deepest = all.last().unwrap();
    assert_eq!(bed.as_who(deepest, "probe/lease/deepest", json!({"ttl": 600})).await.0, 200);
    let batch = token_of(&bed.made_by(deepest, json!({"type": "batch", "ttl": "10m"})).await);
    assert_eq!(bed.as_who(&batch, "probe/lease/of-batch", json!({"ttl": 600})).await.0, 200);
    let orphan = token_of(
        &bed.as_who("root", "auth/token/create-orphan", json!({"policies": "all"})).await.1,
    );

    assert_eq!(bed.write("auth/token/revoke", json!({"token": top})).await.0, 204);
    for token in all.iter().chain([&top, &batch]) {
        assert_eq!(bed.status_of(token).await, 403);
    }
    assert_eq!(bed.status_of(&orphan).await, 200);
    assert_eq!(bed.noted("deepest").await, "TokenEnded");
    assert_eq!(bed.noted("of-batch").await, "TokenEnded");
    assert_eq!(
        bed.write("auth/token/revoke", json!({"token": top})).await.0,
        204,
        "gone is revoked"
    );
    bed.cleared(&answer["auth"]["accessor"]).await;
    let directory = bed.stop().await;
    assert_eq!(rows_of_tokens(&directory).await, 2, "root and the orphan");
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_revocation_completes_in_next_process() {
    let bed = bed("half-way").await;
    let top = bed.token(json!({"policies": "all", "display_name": "top"})).await;
    let middle = token_of(&bed.made_by(&top, json!({"display_name": "middle"})).await);
    let deepest = bed.child_of(&middle).await;
    let directory = bed.stop().await;
    let mark = |record: &mut Value| {
        (record["display_name"] == "token-top").then(|| {
            record["ended"] = json!("with-children");
            let owner = record["parent"].as_str().unwrap().to_owned();
            IndexColumns { due: Some(0), owner, ..IndexColumns::default() }
        })
    };
    assert_eq!(edit_tokens(&directory, mark).await, 1);
    let bed = Bed::open(directory).await;
    let began = Instant::now();
    for token in [&top, &middle, &deepest] {
        while bed.status_of(token).await != 403 {
            assert!(began.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mutual_parent_tokens_still_end() {
    let bed = bed("cycle").await;
    let first = bed.token(json!({"policies": "all", "display_name": "first"})).await;
    let second = token_of(&bed.made_by(&first, json!({"display_name": "second"})).await);
    let third = token_of(&bed.made_by(&second, json!({"display_name": "third"})).await);
    let directory = bed.stop().await;
    let key_of_second = std::sync::Mutex::new(String::new());
    let look = |record: &mut Value| {
        if record["display_name"] == "token-third" {
            *key_of_second.lock().unwrap() = text(&record["parent"]);
        }
        None
    };
    edit_tokens(&directory, look).await;
    let close = |record: &mut Value| {
        (record["display_name"] == "token-first").then(|| {
            let owner = key_of_second.lock().unwrap().clone();
            record["parent"] = json!(owner);
            IndexColumns {
                due: record["expires"].as_u64().map(|expires| expires * 1000),
                owner,
                ..IndexColumns::default()
            }
        })
    };
    assert_eq!(edit_tokens(&directory, close).await, 1);
    let bed = Bed::open(directory).await;
    assert_eq!(bed.write("auth/token/revoke", json!({"token": second})).await.0, 204);
    for token in [&first, &second, &third] {
        assert_eq!(bed.status_of(token).await, 403);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orphaning_revocation_keeps_children_as_orphans() {
    let bed = bed("alone").await;
    let parent = bed.token(json!({"policies": "all"})).await;
    let accessor = bed.seen(&parent).await["accessor"].clone();
    let child = bed.child_of(&parent).await;
    let grandchild = bed.child_of(&child).await;
    let batch = token_of(&bed.made_by(&parent, json!({"type": "batch", "ttl": "10m"})).await);
    let by_all = bed.as_who(&child, "auth/token/revoke-orphan", json!({"token": parent})).await;
    Bed::refused(&by_all, 403, "sudo");
    assert_eq!(bed.write("auth/token/revoke-orphan", json!({"token": parent})).await.0, 204);
    assert_eq!((bed.status_of(&parent).await, bed.status_of(&batch).await), (403, 403));
    assert_eq!(bed.seen(&child).await["orphan"], true);
    assert_eq!(bed.seen(&grandchild).await["orphan"], false);
    assert_eq!(bed.write("auth/token/revoke", json!({"token": child})).await.0, 204);
    assert_eq!(bed.status_of(&grandchild).await, 403);
    bed.cleared(&accessor).await;
    assert_eq!(
        bed.write("auth/token/revoke-orphan", json!({"token": parent})).await.0,
        400,
        "a token that is gone has no children to leave"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn child_created_during_parent_revocation_does_not_survive() {
    let bed = bed("meanwhile").await;
    for _ in 0..20 {
        let parent = bed.token(json!({"policies": "all"})).await;
        let makers = (0..4).map(|_| bed.as_who(&parent, "auth/token/create", json!({})));
        let revoked = bed.write("auth/token/revoke", json!({"token": parent}));
        let (answers, (revoked, _)) = tokio::join!(futures_of(makers), revoked);
        assert_eq!(revoked, 204);
        for (status, answer) in answers {
            assert!(status == 200 || status == 403, "{answer}");
            if status == 200 {
                assert_eq!(bed.status_of(&token_of(&answer)).await, 403);
            }
        }
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recreated_parent_token_does_not_revive_batch_token() {
    let bed = bed("namesake").await;
    let named = json!({"id": "shift-leader", "policies": ["all"], "ttl": 900});
    bed.made_by("root", named.clone()).await;
    let batch = token_of(&bed.made_by("shift-leader", json!({"type": "batch"})).await);
    assert_eq!(bed.status_of(&batch).await, 200);
    let creation_time = bed.seen(&batch).await["creation_time"].as_u64().unwrap();
    assert_eq!(bed.write("auth/token/revoke", json!({"token": "shift-leader"})).await.0, 204);
    // The time of issue, in whole seconds, distinguishes the new token from the old token.
    let again = loop {
        let (status, answer) = bed.write("auth/token/create", named.clone()).await;
        if status == 200
            && bed.seen("shift-leader").await["creation_time"].as_u64().unwrap() > creation_time
        {
            break answer;
        }
        assert_eq!(bed.write("auth/token/revoke", json!({"token": "shift-leader"})).await.0, 204);
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(token_of(&again), "shift-leader");
    assert_eq!((bed.status_of("shift-leader").await, bed.status_of(&batch).await), (200, 403));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_token_survives_rotations_and_restarts_without_row() {
    let bed = bed("batch").await;
    let before = bed.call(Verb::List, "auth/token/accessors", json!({})).await.1;
    let answer = bed
        .made_by(
            "root",
            json!({"type": "batch", "policies": "all", "meta": {"team": "db"}, "ttl": 900}),
        )
        .await;
    let token = token_of(&answer);
    assert!(token.starts_with("bhb."), "scanners look for the prefix");
    let auth = &answer["auth"];
    assert_eq!(
        (&auth["accessor"], &auth["renewable"], &auth["token_type"]),
        (&json!(""), &json!(false), &json!("batch"))
    );
    assert_eq!((&auth["lease_duration"], &auth["orphan"]), (&json!(900), &json!(false)));
    assert_eq!(
        bed.call(Verb::List, "auth/token/accessors", json!({})).await.1["data"],
        before["data"]
    );
    assert_eq!(bed.write("sys/rotate", json!({})).await.0, 204);
    assert_eq!(bed.write("sys/rotate", json!({})).await.0, 204);
    let bed = Bed::open(bed.stop().await).await;
    let seen = bed.seen(&token).await;
    assert_eq!(
        (&seen["type"], &seen["accessor"], &seen["renewable"]),
        (&json!("batch"), &json!(""), &json!(false))
    );
    assert_eq!(
        (&seen["policies"], &seen["meta"]),
        (&json!(["all", "default"]), &json!({"team": "db"}))
    );
    assert_eq!(
        bed.write("auth/token/lookup", json!({"token": token})).await.1["data"]["id"],
        json!(token)
    );
    assert_eq!(bed.as_who(&token, "probe/count/by-batch", json!({})).await.0, 204);
    for (path, why) in [
        ("auth/token/revoke", "batch tokens cannot be revoked"),
        ("auth/token/revoke-orphan", "batch tokens cannot be revoked"),
        ("auth/token/renew", "batch tokens cannot be renewed"),
    ] {
        Bed::refused(&bed.write(path, json!({"token": token})).await, 400, why);
    }
    let own = bed.as_who(&token, "auth/token/renew-self", json!({})).await;
    Bed::refused(&own, 400, "batch tokens cannot be renewed");
    let own = bed.as_who(&token, "auth/token/revoke-self", json!({})).await;
    Bed::refused(&own, 400, "batch tokens cannot be revoked");
    let child = bed.as_who(&token, "auth/token/create", json!({})).await;
    Bed::refused(&child, 400, "batch tokens cannot create more tokens");
    let short = bed.token(json!({"type": "batch", "policies": "all", "ttl": 1})).await;
    let began = Instant::now();
    while bed.status_of(&short).await != 403 {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_and_foreign_tokens_get_identical_refusals() {
    let (bed, other) = (bed("forged").await, bed("foreign").await);
    let foreign = other.token(json!({"type": "batch", "policies": "all"})).await;
    let own = bed.token(json!({"type": "batch", "policies": "all"})).await;
    let service = bed.token(json!({"policies": "all"})).await;
    let last = if own.ends_with('A') { "B" } else { "A" };
    let forged = [
        foreign.clone(),
        own[..own.len() - 1].to_owned(),
        format!("{}{last}", &own[..own.len() - 1]),
        format!("{own}A"),
        own.replacen("bhb.", "bhs.", 1),
        service.replacen("bhs.", "bhb.", 1),
        "bhb.".to_owned(),
        "bhs.".to_owned(),
        format!("bhs.{}", "A".repeat(8 << 10)),
        format!("bhb.{}", "A".repeat(8 << 10)),
        "x".repeat(1 << 20),
        "bhs.\u{fc}".to_owned(),
        "bhs.\0".to_owned(),
        " ".to_owned(),
    ];
    let (_, answer) = bed.call_as("bhs.nobody", Verb::Read, OWN, json!({})).await;
    for token in &forged {
        let (status, refused) = bed.call_as(token, Verb::Read, OWN, json!({})).await;
        assert_eq!((status, &refused), (403, &answer), "{}", &token[..token.len().min(40)]);
        let named = bed.write("auth/token/lookup", json!({"token": token})).await;
        Bed::refused(&named, 403, "bad token");
        Bed::refused(
            &bed.write("auth/token/renew", json!({"token": token})).await,
            400,
            "bad token",
        );
        assert_eq!(bed.write("auth/token/revoke", json!({"token": token})).await.0, 204);
    }
    assert_eq!((bed.status_of(&own).await, other.status_of(&foreign).await), (200, 200));
    assert_eq!(bed.status_of(&service).await, 200);
    other.end().await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_token_leases_end_with_token_or_parent() {
    let bed = bed("batch-leases").await;
    let parent = bed.token(json!({"policies": "all"})).await;
    let child = token_of(&bed.made_by(&parent, json!({"type": "batch", "ttl": 60})).await);
    let fields = json!({"policies": "all", "type": "batch", "no_parent": true, "ttl": 60});
    let orphan = bed.token(fields).await;
    for (token, name) in [(&child, "child"), (&orphan, "orphan")] {
        let (status, leased) =
            bed.as_who(token, &format!("probe/lease/{name}"), json!({"ttl": 600})).await;
        assert_eq!(status, 200, "{leased}");
        assert!(leased["lease_duration"].as_u64().unwrap() <= 60, "{leased}");
        let renewal = json!({"lease_id": leased["lease_id"], "increment": 900});
        let (status, renewed) = bed.write("sys/leases/renew", renewal).await;
        assert!(status == 200 && renewed["lease_duration"].as_u64().unwrap() <= 60, "{renewed}");
    }
    assert_eq!(bed.write("auth/token/revoke", json!({"token": parent})).await.0, 204);
    assert_eq!(bed.noted("child").await, "TokenEnded");
    assert_eq!(bed.read("probe/note/orphan").await.0, 404);
    assert_eq!(bed.status_of(&orphan).await, 200);
    let short =
        bed.token(json!({"policies": "all", "type": "batch", "no_parent": true, "ttl": 2})).await;
    assert_eq!(bed.as_who(&short, "probe/lease/short", json!({"ttl": 600})).await.0, 200);
    assert_eq!(bed.noted("short").await, "Expired");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_bind_token_and_children_except_eternal_tokens() {
    let bed = bed("cidrs").await;
    let role =
        json!({"allowed_policies": "all,root", "token_bound_cidrs": "10.0.0.0/8, 2001:db8::1"});
    assert_eq!(bed.write("auth/token/roles/near", role).await.0, 204);
    let (_, answer) = bed.write("auth/token/create/near", json!({"policies": "all"})).await;
    let token = token_of(&answer);
    let from = async |token: &str, remote: &str, path: &str| {
        let verb = if path == OWN { Verb::Read } else { Verb::Write };
        let mut request = request(token, verb, path, json!({}));
        request.remote = remote.parse().unwrap();
        let (status, _, body) = bed.service.handle(request).await.into_bytes();
        (status, serde_json::from_slice::<Value>(&body).unwrap_or_default())
    };
    for (remote, expected) in [
        ("10.1.2.3", 200),
        ("::ffff:10.1.2.3", 200),
        ("2001:db8::1", 200),
        ("11.0.0.1", 403),
        ("2001:db8::2", 403),
        ("127.0.0.1", 403),
    ] {
        assert_eq!(from(&token, remote, OWN).await.0, expected, "{remote}");
    }
    let (_, seen) = from(&token, "10.0.0.1", OWN).await;
    assert_eq!(seen["data"]["bound_cidrs"], json!(["10.0.0.0/8", "2001:db8::1"]));
    let child = token_of(&from(&token, "10.0.0.1", "auth/token/create").await.1);
    assert_eq!(
        (from(&child, "10.0.0.1", OWN).await.0, from(&child, "11.0.0.1", OWN).await.0),
        (200, 403)
    );
    let eternal = bed.write("auth/token/create/near", json!({"policies": "root"})).await;
    Bed::refused(&eternal, 400, "never expires");
    let of_batch = json!({"policies": "all", "type": "batch"});
    let batch = token_of(&bed.write("auth/token/create/near", of_batch).await.1);
    assert_eq!(
        (from(&batch, "10.0.0.1", OWN).await.0, from(&batch, "11.0.0.1", OWN).await.0),
        (200, 403)
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_lifetime_is_capped_with_warning() {
    let bed = bed("lifetimes").await;
    let answer = bed.made_by("root", json!({"policies": "all"})).await;
    assert_eq!(
        (&answer["auth"]["lease_duration"], &answer["auth"]["renewable"]),
        (&json!(3600), &json!(true))
    );
    let answer = bed.made_by("root", json!({"policies": "all", "lease": "10m"})).await;
    assert_eq!(answer["auth"]["lease_duration"], 600);
    let answer = bed.made_by("root", json!({"policies": "all", "ttl": "30d"})).await;
    assert_eq!(answer["auth"]["lease_duration"], 7200);
    assert!(
        answer["warnings"][0].as_str().unwrap().contains("the mount's maximum of 2h"),
        "{answer}"
    );

    let answer =
        bed.made_by("root", json!({"policies": "all", "ttl": 60, "explicit_max_ttl": 90})).await;
    let token = token_of(&answer);
    let (_, renewed) =
        bed.as_who(&token, "auth/token/renew-self", json!({"increment": "1h"})).await;
    assert!(renewed["auth"]["lease_duration"].as_u64().unwrap() <= 90, "{renewed}");
    assert!(renewed["warnings"][0].as_str().unwrap().contains("explicit_max_ttl"), "{renewed}");
    assert_eq!(bed.seen(&token).await["explicit_max_ttl"], 90);

    let token = bed.token(json!({"policies": "all", "period": "1h", "ttl": 60})).await;
    assert_eq!(bed.seen(&token).await["period"], 3600);
    for increment in [0, 60, 90_000] {
        let (_, renewed) =
            bed.write("auth/token/renew", json!({"token": token, "increment": increment})).await;
        assert_eq!(renewed["auth"]["lease_duration"], 3600, "{renewed}");
    }
    let answer = bed
        .made_by("root", json!({"policies": "all", "period": "10h", "explicit_max_ttl": "1h"}))
        .await;
    assert!(answer["auth"]["lease_duration"].as_u64().unwrap() <= 3600, "{answer}");

    let eternal = bed.made_by("root", json!({})).await;
    assert_eq!(
        (&eternal["auth"]["lease_duration"], &eternal["auth"]["renewable"]),
        (&json!(0), &json!(false))
    );
    assert_eq!(bed.seen(&token_of(&eternal)).await["expire_time"], Value::Null);
    let mortal = bed.token(json!({"ttl": 60})).await;
    Bed::refused(
        &bed.as_who(&mortal, "auth/token/create", json!({})).await,
        400,
        "root token that expires",
    );
    assert_eq!(bed.as_who(&mortal, "auth/token/create", json!({"ttl": 30})).await.0, 200);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_outlives_stated_ttl_by_under_one_second() {
    let bed = bed("lived").await;
    for number in 0..6_u64 {
        // At several moments of a second; the late moments lost most.
        tokio::time::sleep(Duration::from_millis(number * 170)).await;
        let kind = if number % 2 == 0 { "service" } else { "batch" };
        let fields = json!({"policies": "all", "ttl": 1, "type": kind});
        let mut began = Instant::now();
        let answer = bed.made_by("root", fields).await;
        let token = token_of(&answer);
        let mut stated_ttl = answer["auth"]["lease_duration"].as_u64().unwrap();
        if number == 4 {
            began = Instant::now();
            let (status, renewed) =
                bed.as_who(&token, "auth/token/renew-self", json!({"increment": 2})).await;
            assert_eq!(status, 200, "{renewed}");
            stated_ttl = renewed["auth"]["lease_duration"].as_u64().unwrap();
        }
        // Before the last served request: a slow test makes no token older.
        let mut lived = began.elapsed();
        loop {
            let elapsed = began.elapsed();
            if bed.status_of(&token).await != 200 {
                break;
            }
            lived = elapsed;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (stated_ttl, gone) = (Duration::from_secs(stated_ttl), began.elapsed());
        assert!(gone >= stated_ttl, "{kind}: {gone:?} of {stated_ttl:?}");
        assert!(lived < stated_ttl + Duration::from_secs(1), "{kind}: {lived:?} of {stated_ttl:?}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_warning_names_granted_ttl() {
    let bed = bed("renewal-warning").await;
    let token = bed.token(json!({"policies": "all", "ttl": 600})).await;
    let (status, lease_answer) = bed.as_who(&token, "probe/lease/short", json!({"ttl": 60})).await;
    assert_eq!(status, 200, "{lease_answer}");
    let fields = json!({"lease_id": lease_answer["lease_id"], "increment": "25h"});
    let lease = bed.as_who(&token, "sys/leases/renew", fields).await.1;
    let own = bed.as_who(&token, "auth/token/renew-self", json!({"increment": "25h"})).await.1;
    for (answer, granted) in
        [(&lease, &lease["lease_duration"]), (&own, &own["auth"]["lease_duration"])]
    {
        let granted = bulkhead_wire::duration::show(granted.as_u64().unwrap());
        let warnings = answer["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), 1, "{answer}");
        let warning = warnings[0].as_str().unwrap();
        assert!(warning.ends_with(&format!("; {granted} were granted")), "{granted}: {warning}");
    }
    assert!(lease["lease_duration"].as_u64().unwrap() <= 600, "{lease}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn non_renewable_lease_renewal_is_refused_with_reason() {
    let bed = bed("renewals").await;
    let fixed = bed.token(json!({"policies": "all", "renewable": false})).await;
    let refused = bed.as_who(&fixed, "auth/token/renew-self", json!({"increment": null})).await;
    Bed::refused(&refused, 400, "lease is not renewable");
    Bed::refused(
        &bed.write("auth/token/renew-self", json!({})).await,
        400,
        "lease is not renewable",
    );
    let token = bed.token(json!({"policies": "all", "ttl": 60})).await;
    for increment in [json!(-5), json!("-5s"), json!("9999999999999999999h"), json!("soon")] {
        let refused =
            bed.as_who(&token, "auth/token/renew-self", json!({"increment": increment})).await;
        Bed::refused(&refused, 400, "increment");
    }
    let (status, renewed) =
        bed.as_who(&token, "auth/token/renew-self", json!({"increment": 900})).await;
    assert_eq!(
        (status, &renewed["auth"]["lease_duration"], &renewed["data"]),
        (200, &json!(900), &Value::Null)
    );
    let (_, again) = bed.as_who(&token, "auth/token/renew-self", json!({})).await;
    assert_eq!(again["auth"]["lease_duration"], 900, "the time that was granted last");
    let seen = bed.seen(&token).await;
    assert!(seen["last_renewal"].is_string() && seen["last_renewal_time"].is_u64(), "{seen}");
    assert_eq!((&seen["creation_ttl"], seen["issue_time"].is_string()), (&json!(60), true));

    assert_eq!(bed.write("auth/token/roles/short", json!({"token_period": "10m"})).await.0, 204);
    let (_, answer) = bed.write("auth/token/create/short", json!({"policies": "all"})).await;
    let by_role = token_of(&answer);
    assert_eq!(answer["auth"]["lease_duration"], 600);
    let now = bed.write("auth/token/roles/short", json!({"token_period": "5m"})).await;
    assert_eq!(now.0, 204);
    let (_, renewed) = bed.as_who(&by_role, "auth/token/renew-self", json!({})).await;
    assert_eq!(renewed["auth"]["lease_duration"], 300, "the role's period is read again");
    assert_eq!(bed.seen(&by_role).await["period"], 300);
    bed.call(Verb::Delete, "auth/token/roles/short", json!({})).await;
    let refused = bed.as_who(&by_role, "auth/token/renew-self", json!({})).await;
    Bed::refused(&refused, 400, "does not exist any more");
    assert_eq!(bed.status_of(&by_role).await, 200);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_keeps_to_narrowed_token_role() {
    let bed = bed("narrowed").await;
    let role = async |fields: Value| {
        assert_eq!(bed.write("auth/token/roles/near", fields).await.0, 204);
    };
    role(json!({"token_bound_cidrs": "127.0.0.0/8,10.0.0.0/8"})).await;
    let (_, answer) = bed.write("auth/token/create/near", json!({"policies": "all"})).await;
    let token = token_of(&answer);
    let child = token_of(&bed.as_who(&token, "auth/token/create", json!({})).await.1);
    let renew = async |token: &str| bed.as_who(token, "auth/token/renew-self", json!({})).await;
    role(json!({"token_bound_cidrs": "127.0.0.1"})).await;
    for token in [&token, &child] {
        assert_eq!(renew(token).await.0, 200);
        assert_eq!(bed.seen(token).await["bound_cidrs"], json!(["127.0.0.1"]));
    }
    role(json!({"token_bound_cidrs": ""})).await;
    assert_eq!(renew(&token).await.0, 200);
    assert_eq!(bed.seen(&token).await["bound_cidrs"], json!(["127.0.0.1"]), "not widened");
    role(json!({"token_bound_cidrs": "10.0.0.0/8"})).await;
    Bed::refused(&renew(&token).await, 400, "10.0.0.0/8 by now");
    for (narrowed, why) in [
        (json!({"token_bound_cidrs": "", "allowed_policies": "other"}), "policy \"all\" by now"),
        (json!({"allowed_policies": "", "disallowed_policies": "all"}), "policy \"all\" by now"),
        (json!({"disallowed_policies": "", "renewable": false}), "renewed by now"),
    ] {
        role(narrowed).await;
        Bed::refused(&renew(&token).await, 400, why);
    }
    role(json!({"renewable": true, "allowed_policies": "all"})).await;
    assert_eq!(renew(&token).await.0, 200, "the policy default needs no place in the list");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accessors_name_tokens_without_giving_them_away() {
    let bed = bed("accessors").await;
    let answer = bed.made_by("root", json!({"policies": "all", "ttl": 60})).await;
    let (token, accessor) = (token_of(&answer), text(&answer["auth"]["accessor"]));
    assert!(
        accessor.len() == 24 && accessor.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "{accessor}"
    );
    let named = json!({"accessor": accessor});
    let (_, seen) = bed.write("auth/token/lookup-accessor", named.clone()).await;
    assert_eq!((&seen["data"]["id"], &seen["data"]["accessor"]), (&json!(""), &json!(accessor)));
    let renewal = json!({"accessor": accessor, "increment": 600});
    let (_, renewed) = bed.write("auth/token/renew-accessor", renewal).await;
    assert_eq!(
        (&renewed["auth"]["client_token"], &renewed["auth"]["lease_duration"]),
        (&json!(""), &json!(600))
    );
    for path in [&accessor, "bhs.", &token[4..28]] {
        assert_eq!(bed.status_of(path).await, 403, "an accessor is not a token");
    }
    let (_, listed) = bed.call(Verb::List, "auth/token/accessors", json!({})).await;
    let keys = listed["data"]["keys"].as_array().unwrap();
    assert!(
        keys.len() == 2 && keys.contains(&json!(accessor)) && keys.is_sorted_by_key(text),
        "{listed}"
    );
    let by_all = bed.call_as(&token, Verb::List, "auth/token/accessors", json!({})).await;
    Bed::refused(&by_all, 403, "sudo");
    assert_eq!(bed.write("auth/token/revoke-accessor", named.clone()).await.0, 204);
    assert_eq!(bed.status_of(&token).await, 403);
    bed.cleared(&json!(accessor)).await;
    let (status, unknown) = bed.write("auth/token/revoke-accessor", named.clone()).await;
    assert!(
        status == 200 && unknown["warnings"][0].as_str().unwrap().contains("accessor"),
        "{unknown}"
    );
    for path in ["auth/token/lookup-accessor", "auth/token/renew-accessor"] {
        Bed::refused(&bed.write(path, named.clone()).await, 400, "invalid accessor");
        Bed::refused(&bed.write(path, json!({})).await, 400, "accessor is required");
        let hostile = bed.write(path, json!({"accessor": "../".repeat(8)})).await;
        Bed::refused(&hostile, 400, "invalid accessor");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_ids_periods_and_foreign_policies_require_sudo() {
    let bed = bed("sudo").await;
    let (plain, sudo) =
        (bed.token(json!({"policies": "all"})).await, bed.token(json!({"policies": "sudo"})).await);
    for (fields, why) in [
        (
            json!({"id": "my-own"}),
            "id needs a root token, or the capability sudo on auth/token/create",
        ),
        (json!({"period": "1h"}), "period needs"),
        (json!({"no_parent": true}), "no_parent needs"),
        (json!({"policies": "sudo"}), "child policies must be subset of parent"),
    ] {
        Bed::refused(&bed.as_who(&plain, "auth/token/create", fields.clone()).await, 400, why);
        let (status, answer) = bed.as_who(&sudo, "auth/token/create", fields).await;
        assert_eq!(status, 200, "{answer}");
    }
    let (_, created_token) = bed.as_who(&plain, "auth/token/create-orphan", json!({})).await;
    assert_eq!(created_token["auth"]["orphan"], true, "only the path decides about the right");
    let (_, created_token) =
        bed.as_who(&sudo, "auth/token/create-orphan", json!({"role_name": "ignored"})).await;
    assert_eq!(created_token["auth"]["orphan"], true);
    assert_eq!(bed.seen(&token_of(&created_token)).await["path"], "auth/token/create-orphan");
    Bed::refused(
        &bed.as_who(&sudo, "auth/token/create", json!({"policies": "root"})).await,
        400,
        "root",
    );

    assert_eq!(bed.status_of("my-own").await, 200);
    let taken = bed.as_who(&sudo, "auth/token/create", json!({"id": "my-own"})).await;
    Bed::refused(&taken, 400, "choose another");
    let (_, chosen) =
        bed.write("auth/token/create", json!({"id": "another", "policies": "all"})).await;
    assert!(chosen["warnings"][0].as_str().unwrap().contains("hard to guess"), "{chosen}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unsatisfiable_token_request_is_refused_without_effect() {
    let bed = bed("refusals").await;
    let before = bed.call(Verb::List, "auth/token/accessors", json!({})).await.1["data"].clone();
    for (fields, why) in [
        (json!({"type": "recovery"}), "neither service nor batch"),
        (json!({"type": "batch", "policies": "root"}), "batch tokens cannot be root tokens"),
        (json!({"type": "batch"}), "batch tokens cannot be root tokens"),
        (
            json!({"type": "batch", "policies": "all", "period": 60}),
            "batch tokens cannot have a period",
        ),
        (json!({"type": "batch", "policies": "all", "explicit_max_ttl": 60}), "explicit_max_ttl"),
        (json!({"type": "batch", "policies": "all", "num_uses": 1}), "num_uses"),
        (json!({"type": "batch", "policies": "all", "id": "mine"}), "cannot have an id"),
        (
            json!({"type": "batch", "policies": "all", "meta": {"long": "x".repeat(7_000)}}),
            "into a header",
        ),
        (json!({"num_uses": -1}), "num_uses -1 is negative"),
        (json!({"num_uses": "many"}), "num_uses"),
        (json!({"ttl": -5}), "ttl"),
        (json!({"ttl": "-5s"}), "ttl"),
        (json!({"ttl": "99999999999999999999"}), "ttl"),
        (json!({"period": "-1h"}), "period"),
        (json!({"explicit_max_ttl": "400y"}), "explicit_max_ttl"),
        (json!({"id": "bhs.mine"}), "dot"),
        (json!({"id": "hvs.mine"}), "dot"),
        (json!({"id": "mine and yours"}), "printable"),
        (json!({"id": "root"}), "choose another"),
        (json!({"entity_alias": "somebody"}), "allowed_entity_aliases"),
        (json!({"bound_cidrs": "10.0.0.0/8"}), "token_bound_cidrs"),
        (json!({"policies": "all,root"}), "cannot be combined"),
        (json!({"policies": "response-wrapping"}), "cannot be given out"),
        (json!({"policies": {"a": 1}}), "policies"),
        (json!({"display_name": "x".repeat(300)}), "display_name has 300 bytes"),
    ] {
        Bed::refused(&bed.write("auth/token/create", fields).await, 400, why);
    }
    Bed::refused(&bed.write("auth/token/create/nobody", json!({})).await, 400, "unknown role");
    assert_eq!(bed.call(Verb::List, "auth/token/accessors", json!({})).await.1["data"], before);
    let nulls =
        json!({"policies": "all", "id": null, "num_uses": null, "ttl": null, "entity_alias": null});
    assert_eq!(bed.write("auth/token/create", nulls).await.0, 200);
    let nothing = json!({
        "no_parent": false, "no_default_policy": false, "renewable": true, "num_uses": 0,
        "display_name": "token", "type": "service", "entity_alias": "", "period": "",
        "policies": ["none-yet"],
    });
    let (_, answer) = bed.write("auth/token/create", nothing).await;
    assert_eq!(answer["warnings"], json!(["Policy \"none-yet\" does not exist"]), "{answer}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_role_sets_token_properties() {
    let bed = bed("roles").await;
    let absent = bed.read("auth/token/roles/worker").await;
    assert_eq!((absent.0, &absent.1["errors"]), (404, &json!([])));
    assert_eq!(bed.call(Verb::List, "auth/token/roles", json!({})).await.0, 404);
    let role = json!({
        "allowed_policies": ["Sudo", "all"], "disallowed_policies_glob": "*-admin", "orphan": true,
        "path_suffix": "nightly", "token_num_uses": 5, "explicit_max_ttl": "1h", "renewable": false,
    });
    assert_eq!(bed.write("auth/token/roles/worker", role).await.0, 204);
    let (_, read) = bed.read("auth/token/roles/worker").await;
    assert_eq!(
        read["data"],
        json!({
            "name": "worker", "allowed_policies": ["all", "sudo"], "disallowed_policies": [],
            "allowed_policies_glob": [], "disallowed_policies_glob": ["*-admin"],
            "allowed_entity_aliases": [], "orphan": true,
            "renewable": false, "path_suffix": "nightly", "token_bound_cidrs": [],
            "token_explicit_max_ttl": 3600, "explicit_max_ttl": 3600, "token_period": 0,
            "period": 0, "token_type": "default-service",
            "token_no_default_policy": false, "token_num_uses": 5,
        })
    );
    let plain = bed.token(json!({"policies": "all"})).await;
    let (_, answer) =
        bed.as_who(&plain, "auth/token/create/worker", json!({"num_uses": 9, "ttl": "2h"})).await;
    let auth = &answer["auth"];
    assert_eq!(
        (&auth["policies"], &auth["num_uses"]),
        (&json!(["all", "default", "sudo"]), &json!(5)),
        "{answer}"
    );
    assert_eq!(
        (&auth["orphan"], &auth["renewable"], &auth["lease_duration"]),
        (&json!(true), &json!(false), &json!(3600))
    );
    let seen = bed.seen(&token_of(&answer)).await;
    assert_eq!(
        (&seen["path"], &seen["role"]),
        (&json!("auth/token/create/worker/nightly"), &json!("worker"))
    );
    assert_eq!((&seen["explicit_max_ttl"], &seen["num_uses"]), (&json!(3600), &json!(4)));
    let refused =
        bed.as_who(&plain, "auth/token/create/worker", json!({"policies": "other"})).await;
    Bed::refused(&refused, 400, "not among those");
    let refused = bed.as_who(&plain, "auth/token/create/worker", json!({"type": "batch"})).await;
    Bed::refused(&refused, 400, "batch tokens cannot have");
    edit_and_delete_worker(&bed).await;
    bed.end().await;
}

/// Edits the token role `worker`, and deletes it twice.
async fn edit_and_delete_worker(bed: &Bed) {
    // Omitted fields stay (decision A6), and the new name of a field replaces the old name.
    assert_eq!(
        bed.write(
            "auth/token/roles/worker",
            json!({"token_explicit_max_ttl": 60, "orphan": false})
        )
        .await
        .0,
        204
    );
    let (_, read) = bed.read("auth/token/roles/worker").await;
    assert_eq!(
        (&read["data"]["token_explicit_max_ttl"], &read["data"]["explicit_max_ttl"]),
        (&json!(60), &json!(0))
    );
    assert_eq!(
        (&read["data"]["orphan"], &read["data"]["path_suffix"]),
        (&json!(false), &json!("nightly"))
    );
    assert_eq!(
        bed.call(Verb::List, "auth/token/roles", json!({})).await.1["data"]["keys"],
        json!(["worker"])
    );
    assert_eq!(bed.call(Verb::Delete, "auth/token/roles/worker", json!({})).await.0, 204);
    assert_eq!(bed.call(Verb::Delete, "auth/token/roles/worker", json!({})).await.0, 204);
    assert_eq!(bed.read("auth/token/roles/worker").await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_token_role_is_refused_and_not_stored() {
    let bed = bed("bad-roles").await;
    for (role, why) in [
        (json!({"token_type": "hsm"}), "token_type \"hsm\""),
        (json!({"token_type": "batch"}), "must be orphan"),
        (json!({"token_type": "batch", "orphan": true}), "cannot be renewable"),
        (
            json!({"token_type": "batch", "orphan": true, "renewable": false, "period": 5}),
            "token_period",
        ),
        (json!({"token_num_uses": -1}), "token_num_uses -1 is negative"),
        (json!({"token_period": -1}), "token_period"),
        (json!({"token_explicit_max_ttl": "300y"}), "token_explicit_max_ttl"),
        (json!({"token_bound_cidrs": "10.0.0.0/33"}), "error parsing address"),
        (json!({"bound_cidrs": ["nowhere"]}), "error parsing address"),
        (json!({"path_suffix": "a/../b"}), "path_suffix"),
        (json!({"allowed_policies": "a\nb"}), "allowed_policies"),
    ] {
        Bed::refused(&bed.write("auth/token/roles/bad", role).await, 400, why);
        assert_eq!(bed.read("auth/token/roles/bad").await.0, 404);
    }
    for name in ["-", "a%2Fb", "a b"] {
        assert_eq!(
            bed.write(&format!("auth/token/roles/{name}"), json!({})).await.0,
            404,
            "{name}"
        );
    }
    let (status, long) = bed.write("auth/token/roles/long", json!({"token_period": "30d"})).await;
    assert!(
        status == 200
            && long["warnings"][0].as_str().unwrap().contains("the mount's maximum of 2h"),
        "{long}"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn role_create_and_update_rights_are_separate() {
    let bed = bed("existence").await;
    for (policy, capability) in [("creates", "create"), ("updates", "update")] {
        let rules = format!("path \"auth/token/roles/*\" {{ capabilities = [\"{capability}\"] }}");
        bed.write(&format!("sys/policies/acl/{policy}"), json!({"policy": rules})).await;
    }
    let (creates, updates) = (
        bed.token(json!({"policies": "creates"})).await,
        bed.token(json!({"policies": "updates"})).await,
    );
    assert_eq!(bed.as_who(&updates, "auth/token/roles/one", json!({})).await.0, 403);
    assert_eq!(bed.as_who(&creates, "auth/token/roles/one", json!({})).await.0, 204);
    assert_eq!(bed.as_who(&creates, "auth/token/roles/one", json!({})).await.0, 403);
    assert_eq!(bed.as_who(&updates, "auth/token/roles/one", json!({})).await.0, 204);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_tidy_ends_tokens_with_lost_revocation_only() {
    let bed = bed("tidy").await;
    let parent = bed.token(json!({"policies": "all", "display_name": "parent"})).await;
    let child = bed.child_of(&parent).await;
    let mut lost = Vec::new();
    for name in ["abandoned", "expired", "marked"] {
        lost.push(bed.made_by("root", json!({"policies": "all", "display_name": name})).await);
    }
    let directory = bed.stop().await;
    let lose = |record: &mut Value| {
        match record["display_name"].as_str()? {
            "token-abandoned" => record["parent"] = json!("0".repeat(64)),
            "token-expired" => record["expires"] = json!(1),
            "token-marked" => record["ended"] = json!("with-children"),
            _ => return None,
        }
        Some(IndexColumns { due: None, owner: text(&record["parent"]), ..IndexColumns::default() })
    };
    assert_eq!(edit_tokens(&directory, lose).await, 3);
    let bed = Bed::open(directory).await;
    assert_eq!(bed.status_of(&token_of(&lost[0])).await, 200, "the outcome is not known yet");
    let (status, answer) = bed.write("auth/token/tidy", json!({})).await;
    assert!(
        status == 202 && answer["warnings"][0].as_str().unwrap().contains("has started"),
        "{answer}"
    );
    let line = bed.line("token-tidy").await;
    assert!(line.contains("(\"ended\", \"3\")"), "{line}");
    for answer in &lost {
        assert_eq!(bed.status_of(&token_of(answer)).await, 403);
    }
    assert_eq!((bed.status_of(&parent).await, bed.status_of(&child).await), (200, 200));
    assert_eq!(bed.write("auth/token/tidy", json!({})).await.0, 202, "the first one is over");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_appear_in_no_log_or_message() {
    let bed = bed("told").await;
    let canary = "canary-token-7f3a";
    let created_token = bed
        .write("auth/token/create", json!({"id": canary, "policies": "all", "num_uses": 3}))
        .await;
    assert_eq!(created_token.0, 200);
    let answers = [
        bed.write("auth/token/create", json!({"id": canary})).await.1,
        bed.write("auth/token/create", json!({"id": format!("{canary}.")})).await.1,
        bed.write("auth/token/create", json!({"id": [canary, canary]})).await.1,
        bed.write("auth/token/lookup", json!({"token": format!("{canary}x")})).await.1,
        bed.as_who(canary, "probe/nothing", json!({})).await.1,
        bed.write("auth/token/revoke", json!({"token": canary})).await.1,
        bed.as_who(canary, OWN, json!({})).await.1,
    ];
    for answer in &answers {
        assert!(!answer.to_string().contains("canary"), "{answer}");
    }
    assert!(bed.log.0.lock().unwrap().iter().all(|line| !line.contains("canary")));
    bed.end().await;
}
