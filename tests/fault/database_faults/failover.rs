//! The primary dies, and its synchronous standby takes over: every acknowledged write is there.

use super::acknowledged::AcknowledgedWork;
use super::place::{BACK, StorePlace};
use bulkhead_tests::Postgres;
use bulkhead_tests::postgres::acts::ServerEnd;
use bulkhead_tests::wait::{StopOnDrop, until_true};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// How the server finds the new primary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NewPrimary {
    /// An address moves to the new primary, as with a proxy or a name.
    AtSameAddress,
    /// The connection URL names both servers.
    AtOtherHost,
}

#[test]
fn promoted_standby_has_every_acknowledged_write() {
    fail_over(NewPrimary::AtSameAddress, "moved");
}

#[test]
fn second_host_of_url_is_found_after_promotion() {
    fail_over(NewPrimary::AtOtherHost, "hosts");
}

fn fail_over(found: NewPrimary, name: &str) {
    let postgres = Postgres::start();
    let standby = postgres.add_standby();
    let mut place = StorePlace::start(&postgres, name);
    if found == NewPrimary::AtOtherHost {
        let hosts = format!("127.0.0.1:{},127.0.0.1:{standby}", place.proxy.port);
        let url = place.database.url(&hosts) + "&target_session_attrs=read-write";
        place.store.configure(&url);
        place.store.kill_and_start();
    }
    place.work_in_peace();
    promote_under_load(&mut place, found, standby);
    place.work.check(&place.store.root());
    place.store.wait_until_healthy();
    assert_eq!(place.store.count_lines("health-degraded"), 1);
    place.assert_nothing_is_lost();
}

/// Kills the primary in the middle of writes, and makes the standby the primary.
fn promote_under_load(place: &mut StorePlace<'_>, found: NewPrimary, standby: u16) {
    let (root, postgres) = (place.store.root(), place.database.postgres);
    let (is_over, stored) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut works: Vec<_> =
        (0..3).map(|number| AcknowledgedWork::of(&format!("load{number}-"))).collect();
    thread::scope(|scope| {
        let _stop = StopOnDrop(&is_over);
        for work in works.iter_mut().chain([&mut place.work]) {
            let (root, is_over, stored) = (root.clone(), &is_over, &stored);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let answer = work.step(&root).expect("an answer");
                    stored.fetch_add(u32::from(answer.status < 300), Ordering::Relaxed);
                }
            });
        }
        let grows = || {
            let before = stored.load(Ordering::Relaxed);
            until_true("writes go on", BACK, || stored.load(Ordering::Relaxed) > before + 9);
        };
        grows();
        postgres.end(ServerEnd::Killed);
        until_true("the health shows the outage", BACK, || {
            place.store.conditions() == ["writes-refused"]
        });
        if found == NewPrimary::AtSameAddress {
            place.proxy.redirect(standby);
        }
        postgres.promote_standby();
        grows();
    });
    works.iter().for_each(|work| work.check(&root));
}

/// A commit waits for the standby. A time limit that cancelled the wait would acknowledge a write
/// that only the primary has.
#[test]
fn commit_without_standby_is_never_acknowledged() {
    let postgres = Postgres::start();
    postgres.add_standby();
    let mut place = StorePlace::start(&postgres, "alone");
    place.work_in_peace();
    postgres.kill_standby();
    let (root, work) = (place.store.root(), &mut place.work);
    let waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    thread::scope(|scope| {
        let writing = scope.spawn(|| work.step(&root).expect("an answer"));
        let count = format!("SELECT count(*) {waiting}");
        until_true("the commit waits", BACK, || postgres.query(&count) != "0");
        let limit = postgres.query(&format!(
            "SELECT count(*) {waiting} AND query NOT LIKE '%statement_timeout = 0%'"
        ));
        assert_eq!(limit, "0", "the commit has a time limit, which ends the wait for the standby");
        assert!(!writing.is_finished(), "acknowledged without the standby");
        postgres.start_standby();
        let answer = writing.join().expect("the writer ends");
        assert!(answer.status < 300, "{answer:?}");
    });
    place.assert_nothing_is_lost();
}
