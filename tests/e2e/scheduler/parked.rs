//! Many reads that wait at once: they cost little memory, and one write answers them all.

use super::blocking::{await_parked, parked};
use super::{bed, role};
use bulkhead_tests::scheduler::{PlainAnswer, PlainRequest};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Reads that wait, and how many of them come from one address.
const READS: u16 = 2_000;
const OF_AN_ADDRESS: u16 = 500;
/// Most memory that a read takes for waiting, in bytes, in a build without optimisation.
const BYTES_OF_ONE: u64 = 24 << 10;

#[test]
fn two_thousand_parked_reads_are_answered_by_one_write() {
    let scheduler = bed();
    let list = scheduler.manage("GET", "/v1/acl/roles", &Value::Null);
    let asked = |path: &str| PlainRequest::new("GET", path).with_token(&scheduler.management);
    let at_once = asked("/v1/acl/roles");
    // Connections that have asked and are idle: they and their instances are no cost of waiting.
    let mut streams: Vec<_> = (0..READS)
        .map(|number| {
            let last = 2 + u8::try_from(number / OF_AN_ADDRESS).expect("a few addresses");
            let from = Some(Ipv4Addr::new(127, 0, 0, last));
            PlainRequest { from, ..at_once.clone() }.connect(scheduler.address())
        })
        .collect();
    // A mount lets 1,024 requests wait for an instance, so that they come in parts.
    for part in streams.chunks_mut(OF_AN_ADDRESS.into()) {
        part.iter_mut().for_each(|stream| at_once.begin_on(stream, "keep-alive"));
        assert!(part.iter_mut().map(PlainAnswer::receive_next).all(|answer| answer.status == 200));
    }
    let before = scheduler.server.memory();
    let waiting = asked(&format!("/v1/acl/roles?index={}&wait=300s", list.index()));
    for (part, streams) in streams.chunks_mut(OF_AN_ADDRESS.into()).enumerate() {
        streams.iter_mut().for_each(|stream| waiting.begin_on(stream, "keep-alive"));
        await_parked(&scheduler, (part + 1) * usize::from(OF_AN_ADDRESS));
    }
    let grown = scheduler.server.memory().saturating_sub(before);
    assert!(grown < BYTES_OF_ONE * u64::from(READS), "{} KiB more", grown >> 10);
    let written = role(&scheduler, "awaited");
    let index = written["ModifyIndex"].as_u64().expect("an index");
    let began = Instant::now();
    for stream in &mut streams {
        let answer = PlainAnswer::receive_next(stream);
        assert_eq!((answer.status, answer.index()), (200, index));
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(parked(&scheduler), 0);
}

#[test]
fn a_watcher_misses_no_change_of_a_writer() {
    let scheduler = bed();
    let made = role(&scheduler, "watched");
    let id = made["ID"].as_str().expect("an identifier");
    let path = format!("/v1/acl/role/{id}");
    let rounds = 200;
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut index = made["ModifyIndex"].as_u64().expect("an index");
            loop {
                let asked = format!("{path}?index={index}&wait=20s");
                let began = Instant::now();
                let seen = scheduler.manage("GET", &asked, &Value::Null);
                assert!(began.elapsed() < Duration::from_secs(15), "a change was missed");
                index = seen.index();
                if seen.json()["Description"] == format!("round {rounds}") {
                    return;
                }
            }
        });
        for round in 1..=rounds {
            let mut changed = made.clone();
            changed["Description"] = format!("round {round}").into();
            scheduler.manage("PUT", &path, &changed);
        }
        watcher.join().expect("the watcher saw the last change");
    });
}
