//! The database server stops, crashes and is killed while clients write, and starts again.

use super::place::{BACK, StorePlace};
use bulkhead_tests::Postgres;
use bulkhead_tests::postgres::acts::ServerEnd;
use bulkhead_tests::wait::{StopOnDrop, until_true};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

#[test]
fn database_restarts_while_clients_write_lose_nothing() {
    let postgres = Postgres::start();
    let mut place = StorePlace::start(&postgres, "restarts");
    for end in [ServerEnd::Fast, ServerEnd::Immediate, ServerEnd::Killed] {
        restart(&mut place, end);
        place.work.check(&place.store.root());
        place.store.wait_until_healthy();
    }
    assert_eq!(place.store.count_lines("health-degraded"), 3);
    assert_eq!(place.store.count_lines("health-restored"), 3);
    place.assert_nothing_is_lost();
}

/// Ends the database in the middle of writes, lets writes be refused, and starts it again.
fn restart(place: &mut StorePlace<'_>, end: ServerEnd) {
    let (root, store) = (place.store.root(), &place.store);
    let (postgres, work) = (place.database.postgres, &mut place.work);
    let (is_over, stored, refused) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        let _stop = StopOnDrop(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let answer = work.step(&root).expect("an answer");
                let count = if answer.status < 300 { &stored } else { &refused };
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let grows = |count: &AtomicU32| {
            let before = count.load(Ordering::Relaxed);
            until_true("writes go on", BACK, || count.load(Ordering::Relaxed) > before + 3);
        };
        grows(&stored);
        postgres.end(end);
        grows(&refused);
        assert_eq!(store.conditions(), ["writes-refused"], "{end:?}");
        postgres.start_again();
        grows(&stored);
    });
}
