//! Blocking reads.

use super::{bed, id, role, secret, token};
use bulkhead_tests::metrics;
use bulkhead_tests::scheduler::{PlainAnswer, PlainRequest, Scheduler};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Longest time for a wake-up on a busy machine.
const SOON: Duration = Duration::from_secs(5);

/// Sends a blocking read with `token`.
pub(super) fn wait_for(scheduler: &Scheduler, path: &str, token: &str, index: u64) -> TcpStream {
    let and = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{and}index={index}&wait=20s");
    PlainRequest::new("GET", &path).with_token(token).begin(scheduler.address())
}

pub(super) fn await_parked(scheduler: &Scheduler, count: usize) {
    bulkhead_tests::wait::until_true("the requests are parked", Duration::from_secs(20), || {
        parked(scheduler) == count
    });
}

pub(super) fn parked(scheduler: &Scheduler) -> usize {
    gauge(scheduler, "bulkhead_core_parked_requests")
}

/// Returns the value of a host metric.
pub(super) fn gauge(scheduler: &Scheduler, name: &str) -> usize {
    let count = metrics::count(&metrics::scrape(&scheduler.server), &format!("{name}{{}}"));
    usize::try_from(count).expect("a small count")
}

#[track_caller]
fn receive_soon(stream: TcpStream) -> PlainAnswer {
    let began = Instant::now();
    let answer = PlainAnswer::receive(stream);
    assert!(began.elapsed() < SOON, "{:?}: {}", began.elapsed(), answer.text());
    answer
}

#[test]
fn blocking_read_waits_for_own_change_only() {
    let scheduler = bed();
    let (one, other) = (role(&scheduler, "one"), role(&scheduler, "other"));
    let management = scheduler.management.clone();
    let list = scheduler.manage("GET", "/v1/acl/roles", &Value::Null);
    let of_one = wait_for(
        &scheduler,
        &format!("/v1/acl/role/{}", id(&one)),
        &management,
        one["ModifyIndex"].as_u64().expect("an index"),
    );
    let by_name = wait_for(
        &scheduler,
        "/v1/acl/role/name/one",
        &management,
        one["ModifyIndex"].as_u64().expect("an index"),
    );
    let of_all = wait_for(&scheduler, "/v1/acl/roles", &management, list.index());
    await_parked(&scheduler, 3);
    // Policies and tokens are in other tables, and the other role is another record.
    let policy = json!({ "Name": "more", "Rules": "" });
    scheduler.manage("PUT", "/v1/acl/policy/more", &policy);
    token(&scheduler, &[&one]);
    await_parked(&scheduler, 3);
    let mut changed = other.clone();
    changed["Description"] = json!("changed");
    let written = scheduler.manage("PUT", &format!("/v1/acl/role/{}", id(&other)), &changed);
    let listed = receive_soon(of_all);
    assert_eq!((listed.status, listed.index()), (200, written.index()));
    await_parked(&scheduler, 2);
    // An update without a change wakes no read.
    scheduler.manage("PUT", &format!("/v1/acl/role/{}", id(&one)), &one);
    await_parked(&scheduler, 2);
    let mut renamed = one.clone();
    renamed["Name"] = json!("renamed");
    scheduler.manage("PUT", &format!("/v1/acl/role/{}", id(&one)), &renamed);
    assert_eq!(receive_soon(of_one).json()["Name"], "renamed");
    assert_eq!(receive_soon(by_name).status, 404, "the role was renamed away");
}

#[test]
fn deletion_ends_blocking_reads_and_missing_role_blocks() {
    let scheduler = bed();
    let created_role = role(&scheduler, "made");
    let path = format!("/v1/acl/role/{}", id(&created_role));
    let index = created_role["ModifyIndex"].as_u64().expect("an index");
    let of_made = wait_for(&scheduler, &path, &scheduler.management, index);
    await_parked(&scheduler, 1);
    scheduler.manage("DELETE", &path, &Value::Null);
    let ended = receive_soon(of_made);
    assert_eq!(ended.status, 404);
    let missing =
        wait_for(&scheduler, "/v1/acl/role/name/late", &scheduler.management, ended.index());
    await_parked(&scheduler, 1);
    role(&scheduler, "late");
    assert_eq!(receive_soon(missing).json()["Name"], "late");
}

#[test]
fn blocking_read_times_out_with_current_state() {
    let scheduler = bed();
    let list = scheduler.manage("GET", "/v1/acl/roles", &Value::Null);
    for index in [list.index(), 99_999] {
        let began = Instant::now();
        let path = format!("/v1/acl/roles?index={index}&wait=1s");
        let answer = scheduler.manage("GET", &path, &Value::Null);
        let took = began.elapsed();
        assert_eq!(answer.index(), list.index());
        assert!(took >= Duration::from_secs(1) && took < SOON, "{took:?}");
    }
    let began = Instant::now();
    scheduler.manage("GET", "/v1/acl/roles?index=0&wait=10s", &Value::Null);
    assert!(began.elapsed() < SOON, "an index of 0 does not wait");
}

#[test]
fn token_revoked_during_blocking_read_learns_nothing() {
    let scheduler = bed();
    let created_role = role(&scheduler, "made");
    let client = token(&scheduler, &[&created_role]);
    let path = format!("/v1/acl/role/{}", id(&created_role));
    let index = created_role["ModifyIndex"].as_u64().expect("an index");
    let waiting = wait_for(&scheduler, &path, secret(&client), index);
    await_parked(&scheduler, 1);
    let accessor = client["AccessorID"].as_str().expect("an accessor");
    scheduler.manage("DELETE", &format!("/v1/acl/token/{accessor}"), &Value::Null);
    let mut changed = created_role;
    changed["Description"] = json!("a secret of later");
    scheduler.manage("PUT", &path, &changed);
    let answer = receive_soon(waiting);
    assert_eq!((answer.status, answer.text().as_str()), (403, "Permission denied"));
}

#[test]
fn disconnects_and_seals_end_blocking_reads() {
    let scheduler = bed();
    let list = scheduler.manage("GET", "/v1/acl/roles", &Value::Null);
    let mut waiting: Vec<_> = (0..20)
        .map(|_| wait_for(&scheduler, "/v1/acl/roles", &scheduler.management, list.index()))
        .collect();
    await_parked(&scheduler, 20);
    waiting.truncate(5);
    await_parked(&scheduler, 5);
    scheduler.server.root().write("sys/seal", &json!({})).expect(204);
    for stream in waiting {
        let answer = receive_soon(stream);
        assert_eq!((answer.status, answer.text().as_str()), (503, "Vault is sealed"));
    }
}

#[test]
fn removing_the_mount_answers_blocking_reads() {
    let scheduler = bed();
    let list = scheduler.manage("GET", "/v1/acl/roles", &Value::Null);
    let waiting = wait_for(&scheduler, "/v1/acl/roles", &scheduler.management, list.index());
    await_parked(&scheduler, 1);
    scheduler.server.root().delete("sys/mounts/acl").expect(204);
    assert_eq!(receive_soon(waiting).status, 404);
    let gone = scheduler.ask("GET", "/v1/acl/roles", "", &Value::Null);
    assert_eq!(gone.status, 404, "{}", gone.text());
}
