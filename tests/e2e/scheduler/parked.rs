//! Many concurrent blocking reads: they use little memory, and a single write answers all of them.

use super::blocking::{await_parked, gauge, parked};
use super::{bed, role};
use bulkhead_tests::scheduler::{PlainAnswer, PlainRequest};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Number of blocking reads from an address.
const OF_AN_ADDRESS: u16 = 500;

/// Number of blocking reads: 2,000, or `BULKHEAD_PARKED_READS`.
fn reads() -> u16 {
    let said = std::env::var("BULKHEAD_PARKED_READS");
    said.map_or(2_000, |said| said.parse().expect("BULKHEAD_PARKED_READS is a number"))
}

/// Most memory per blocking read, in bytes, in a build without optimisation. The allocator takes
/// memory in pieces of several MiB, so that runs of one build measure 2 to 17 KiB.
const BYTES_OF_ONE: u64 = 24 << 10;

#[test]
fn one_write_answers_thousands_of_parked_reads() {
    let reads = reads();
    let scheduler = bed();
    let list = scheduler.manage("GET", "/v1/acl/roles", &Value::Null);
    let request_to = |path: &str| PlainRequest::new("GET", path).with_token(&scheduler.management);
    let at_once = request_to("/v1/acl/roles");
    let waiting = request_to(&format!("/v1/acl/roles?index={}&wait=300s", list.index()));
    let (mut streams, mut grown) = (Vec::new(), 0);
    // In batches, because a mount queues at most 1,024 requests for an instance, and the server
    // closes a connection that is idle for ten seconds.
    for first in (0..reads).step_by(OF_AN_ADDRESS.into()) {
        let last = 2 + u8::try_from(first / OF_AN_ADDRESS).expect("a few addresses");
        let from = Some(Ipv4Addr::new(127, 0, 0, last));
        let connect = |_| PlainRequest { from, ..at_once.clone() }.connect(scheduler.address());
        let mut part: Vec<_> = (0..OF_AN_ADDRESS).map(connect).collect();
        // The first request excludes the cost of connections and instances from the measurement.
        part.iter_mut().for_each(|stream| at_once.begin_on(stream, "keep-alive"));
        assert!(part.iter_mut().map(PlainAnswer::receive_next).all(|answer| answer.status == 200));
        let before = scheduler.server.memory();
        part.iter_mut().for_each(|stream| waiting.begin_on(stream, "keep-alive"));
        streams.append(&mut part);
        await_parked(&scheduler, streams.len());
        grown += scheduler.server.memory().saturating_sub(before);
    }
    assert!(grown < BYTES_OF_ONE * u64::from(reads), "{} KiB more", grown >> 10);
    let written = role(&scheduler, "awaited");
    let index = written["ModifyIndex"].as_u64().expect("an index");
    let began = Instant::now();
    for stream in &mut streams {
        let answer = PlainAnswer::receive_next(stream);
        assert_eq!((answer.status, answer.index()), (200, index));
    }
    let took = began.elapsed();
    println!("{reads} reads: {} KiB more each, {took:?}", (grown >> 10) / u64::from(reads));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(parked(&scheduler), 0);
    let runs = gauge(&scheduler, "bulkhead_core_parked_runs_total");
    assert!((1..=10).contains(&runs), "{runs} runs of the component");
}

#[test]
fn a_watcher_misses_no_change_of_a_writer() {
    let scheduler = bed();
    let created_role = role(&scheduler, "watched");
    let id = created_role["ID"].as_str().expect("an identifier");
    let path = format!("/v1/acl/role/{id}");
    let said = std::env::var("BULKHEAD_WATCHED_ROUNDS");
    let rounds = said.map_or(200, |said| said.parse().expect("a number of rounds"));
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut index = created_role["ModifyIndex"].as_u64().expect("an index");
            loop {
                let target = format!("{path}?index={index}&wait=20s");
                let began = Instant::now();
                let seen = scheduler.manage("GET", &target, &Value::Null);
                assert!(began.elapsed() < Duration::from_secs(15), "a change was missed");
                index = seen.index();
                if seen.json()["Description"] == format!("round {rounds}") {
                    return;
                }
            }
        });
        for round in 1..=rounds {
            let mut changed = created_role.clone();
            changed["Description"] = format!("round {round}").into();
            scheduler.manage("PUT", &path, &changed);
        }
        watcher.join().expect("the watcher saw the last change");
    });
}
