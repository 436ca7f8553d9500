//! Many clients change the same thing at once: each client has a turn, and none is refused.

use crate::bed::{Bed, PATIENCE, error, request};
use crate::http::{Server, granted, ok};
use bulkhead_wire::description::Verb;
use bulkhead_wire::secret::Secret;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Clients at once.
const CLIENTS: usize = 64;

/// The write of a client: a path and the fields.
type Wanted = (String, Value);

/// All clients at once, each with one request. Returns their answers.
async fn at_once(bed: &Bed, token: &str, wanted: impl Fn(usize) -> Wanted) -> Vec<(u16, Value)> {
    let start = Arc::new(tokio::sync::Barrier::new(CLIENTS));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (path, fields) = wanted(client);
            let request = request(token, Verb::Write, &path, fields);
            let (service, start) = (Arc::clone(&bed.service), Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                service.handle(request).await.into_bytes()
            })
        })
        .collect();
    let mut answers = Vec::new();
    for client in clients {
        let (status, _, body) = client.await.unwrap();
        answers.push((status, serde_json::from_slice(&body).unwrap_or_default()));
    }
    answers
}

fn refused(answers: &[(u16, Value)]) -> Vec<&(u16, Value)> {
    answers.iter().filter(|(status, _)| *status >= 300).collect()
}

async fn token(bed: &Bed, fields: Value) -> String {
    let (status, answer) = bed.write("auth/token/create", fields).await;
    assert_eq!(status, 200, "{answer}");
    answer["auth"]["client_token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_enables_of_different_mounts_succeed() {
    let bed = Bed::new("contended-enable").await;
    let enable = |client| (format!("sys/mounts/team/{client}/db"), json!({"type": "probe"}));
    assert_eq!(refused(&at_once(&bed, "root", enable).await), Vec::<&(u16, Value)>::new());
    let mounts = bed.read("sys/mounts").await.1;
    let enabled = (0..CLIENTS).filter(|client| mounts.get(format!("team/{client}/db/")).is_some());
    assert_eq!(enabled.count(), CLIENTS);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_enables_of_overlapping_mounts_succeed_once() {
    let bed = Bed::new("overlapping-enable").await;
    let enable = |client| {
        let path = if client % 2 == 0 { "team/a" } else { "team/a/b" };
        (format!("sys/mounts/{path}"), json!({"type": "probe"}))
    };
    let answers = at_once(&bed, "root", enable).await;
    let refused = refused(&answers);
    assert_eq!(refused.len(), CLIENTS - 1);
    for (status, answer) in refused {
        assert_eq!(*status, 400, "{answer}");
        assert!(error(answer).starts_with("path is already in use at team/a/"), "{answer}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writes_to_one_record_lose_nothing() {
    let bed = Bed::new("contended-write").await;
    for round in 1..=3 {
        let answers = at_once(&bed, "root", |_| ("probe/count/one".to_owned(), json!({}))).await;
        assert_eq!(refused(&answers), Vec::<&(u16, Value)>::new());
        assert_eq!(bed.read("probe/note/one").await.1["data"]["note"], round * CLIENTS);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_tunes_of_one_mount_succeed() {
    let bed = Bed::new("contended-tune").await;
    let tune = |client| {
        ("sys/mounts/probe/tune".to_owned(), json!({"description": format!("by {client}")}))
    };
    assert_eq!(refused(&at_once(&bed, "root", tune).await), Vec::<&(u16, Value)>::new());
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_renewals_of_one_token_succeed() {
    let bed = Bed::new("contended-renew").await;
    let token = token(&bed, json!({"ttl": "1h"})).await;
    let renew = |_| ("auth/token/renew-self".to_owned(), json!({"increment": "2h"}));
    assert_eq!(refused(&at_once(&bed, &token, renew).await), Vec::<&(u16, Value)>::new());
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_clients_get_exactly_remaining_token_uses() {
    let bed = Bed::new("contended-uses").await;
    let token = token(&bed, json!({"num_uses": CLIENTS, "ttl": "1h"})).await;
    let look = |_| ("auth/token/lookup-self".to_owned(), json!({}));
    let answers = at_once(&bed, &token, look).await;
    assert_eq!(refused(&answers), Vec::<&(u16, Value)>::new());
    let (status, _) = bed.call_as(&token, Verb::Read, "auth/token/lookup-self", json!({})).await;
    assert_eq!(status, 403);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn component_answering_own_conflict_is_entered_once() {
    let bed = Bed::new("own-conflict").await;
    let (status, answer) = bed.write("probe/conflict", json!({})).await;
    assert_eq!(status, 503, "{answer}");
    assert!(error(&answer).contains("the other side is busy"), "{answer}");
    let entered = |line: &&String| line.contains("conflicting");
    assert_eq!(bed.log.0.lock().unwrap().iter().filter(entered).count(), 1);
    bed.end().await;
}

/// The deadlines that the probe was told, in milliseconds of store time.
fn deadlines(bed: &Bed) -> Vec<u64> {
    let lines = bed.log.0.lock().unwrap();
    let parts = lines.iter().filter_map(|line| line.split_once("(\"deadline\", \""));
    parts.map(|(_, rest)| rest.split('"').next().unwrap().parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_attempts_at_a_request_have_one_deadline() {
    /// Between two attempts.
    const LATER: Duration = Duration::from_millis(1_500);
    let (bed, mut server) = (Bed::new("one-deadline").await, Server::new().await);
    granted(&bed, &[server.grant()]).await;
    let fields = json!({"url": server.url("/"), "method": "GET"});
    let wire_request = request("root", Verb::Write, "probe/fetch-in-time/a", fields);
    let service = Arc::clone(&bed.service);
    let call = tokio::spawn(async move { service.handle(wire_request).await.into_bytes().0 });
    let overtaken = server.next().await;
    assert_eq!(bed.write("probe/count/a", json!({})).await.0, 204);
    tokio::time::sleep(LATER).await;
    overtaken.answer.send(ok("first")).unwrap();
    server.reply(&ok("second")).await;
    assert_eq!(call.await.unwrap(), 200);
    let [first, second] = deadlines(&bed)[..] else { panic!("{:?}", deadlines(&bed)) };
    assert!(second.abs_diff(first) < 1_000, "{first} and {second}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sealing_stops_hanging_component_and_permits_unsealing() {
    let (bed, mut server) = (Bed::new("cut-by-seal").await, Server::new().await);
    granted(&bed, &[server.grant()]).await;
    let fields = json!({"url": server.url("/never"), "method": "GET"});
    let wire_request = request("root", Verb::Write, "probe/fetch/a", fields);
    let service = Arc::clone(&bed.service);
    let call = tokio::spawn(async move { service.handle(wire_request).await.into_bytes() });
    let _unanswered = server.next().await;
    bed.service.stop().await;
    let began = Instant::now();
    bed.service.open_dev(&Secret::new("root")).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let (status, _, body) = tokio::time::timeout(PATIENCE, call).await.unwrap().unwrap();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status, 503, "{answer}");
    assert!(error(&answer).starts_with("Vault is sealed"), "{answer}");
    assert_eq!(bed.read("probe/note/a").await.0, 404, "nothing of it was stored");
    bed.end().await;
}

/// Creates leases and ends the leases together; each end changes the same record. Returns the final
/// count of the record.
async fn end_of_leases(bed: &Bed, names: &str, count: u64) -> u64 {
    for number in 0..count {
        let path = format!("probe/lease/{names}-{number}");
        assert_eq!(bed.write(&path, json!({"ttl": 600})).await.0, 200);
    }
    let (status, answer) = bed.write("sys/leases/revoke-prefix/probe", json!({})).await;
    assert_eq!(status, 204, "{answer}");
    bed.read("probe/note/contended").await.1["data"]["note"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_sharing_record_end_together_without_failures() {
    let bed = Bed::new("contended-ends").await;
    assert_eq!(end_of_leases(&bed, "raced", 20).await, 20);
    for number in 0..20 {
        bed.write(&format!("probe/lease/raced-{number}"), json!({"ttl": 600})).await;
    }
    let (status, answer) = bed.call(Verb::Delete, "sys/mounts/probe", json!({})).await;
    assert_eq!(status, 204, "the mount goes: {answer}");
    let lines = bed.log.0.lock().unwrap().join("\n");
    assert!(!lines.contains("lease-end-delayed"), "{lines}");
    drop(lines);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_sharing_record_end_despite_slow_ends() {
    let bed = Bed::new("contended-slow-ends").await;
    assert_eq!(end_of_leases(&bed, "apart", 8).await, 8);
    let lines = bed.log.0.lock().unwrap().join("\n");
    assert!(!lines.contains("lease-end-delayed"), "{lines}");
    drop(lines);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn due_work_and_renewals_complete_under_constant_contention() {
    const WRITERS: usize = 4;
    let bed = Bed::new("contended-due-work").await;
    let (_, lease) = bed.write("probe/lease/raced", json!({"ttl": 600})).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (service, stop) = (Arc::clone(&bed.service), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut counted = 0;
                while !stop.load(Ordering::Relaxed) {
                    let count = request("root", Verb::Write, "probe/count/contended", json!({}));
                    let (status, _, body) = service.handle(count).await.into_bytes();
                    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&body));
                    counted += 1;
                }
                counted
            })
        })
        .collect();
    bed.write("probe/timer/raced", json!({"after": 0})).await;
    assert_eq!(bed.noted("raced").await, 1, "the first wake lost its race and was not put off");
    let lease = json!({"lease_id": lease["lease_id"]});
    let (status, renewed) = bed.write("sys/leases/renew", lease.clone()).await;
    assert_eq!(status, 200, "{renewed}");
    assert_eq!(bed.write("sys/leases/revoke", lease).await.0, 204);
    stop.store(true, Ordering::Relaxed);
    let mut counted = 0;
    for writer in writers {
        counted += writer.await.unwrap();
    }
    // One of the wake, of the renewal and of the revocation: nothing was lost.
    assert_eq!(bed.read("probe/note/contended").await.1["data"]["note"], counted + 3);
    bed.end().await;
}
