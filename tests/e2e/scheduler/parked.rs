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
/// Most memory that a parked read takes, in bytes: 50 MiB for 5,000 of them, and what the
/// connections of a debug build take besides.
const BYTES_OF_ONE: u64 = 20 << 10;

#[test]
fn two_thousand_parked_reads_are_answered_by_one_write() {
    let scheduler = bed();
    let list = scheduler.manage("GET", "/v1/acl/roles", &Value::Null);
    let ask_all = |path: &str| -> Vec<_> {
        let ask = |number: u16| {
            let last = 2 + u8::try_from(number / OF_AN_ADDRESS).expect("a few addresses");
            let from = Some(Ipv4Addr::new(127, 0, 0, last));
            let asked = PlainRequest::new("GET", path).with_token(&scheduler.management);
            PlainRequest { from, ..asked }.begin(scheduler.address())
        };
        (0..READS).map(ask).collect()
    };
    // As many requests that do not wait: what their instances take is no cost of waiting.
    let at_once = ask_all("/v1/acl/roles");
    assert!(at_once.into_iter().all(|stream| PlainAnswer::receive(stream).status == 200));
    let before = scheduler.server.memory();
    let streams = ask_all(&format!("/v1/acl/roles?index={}&wait=300s", list.index()));
    await_parked(&scheduler, READS.into());
    let grown = scheduler.server.memory().saturating_sub(before);
    assert!(grown < BYTES_OF_ONE * u64::from(READS), "{} MiB more", grown >> 20);
    let written = role(&scheduler, "awaited");
    let began = Instant::now();
    for stream in streams {
        let answer = PlainAnswer::receive(stream);
        assert_eq!(
            (answer.status, answer.index()),
            (200, written["ModifyIndex"].as_u64().unwrap())
        );
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
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
