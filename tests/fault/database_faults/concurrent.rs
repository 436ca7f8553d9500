//! Many writers at once, while connections are reset, closed, stalled and cut at commits: groups of
//! units meet unknown outcomes.

use super::acknowledged::AcknowledgedWork;
use super::place::StorePlace;
use crate::stage::{report, seed, thorough};
use bulkhead_tests::database_proxy::{CutPlace, DatabaseProxy, Direction, MessageChoice};
use bulkhead_tests::disk::SeededRandom;
use bulkhead_tests::wait::StopOnDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WRITERS: usize = 6;

/// Time of the faults: in a quick run, and in `make fault`.
const STORM: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(60)];

/// Longest pause between two faults, in milliseconds.
const PAUSE: usize = 60;

#[test]
fn concurrent_writers_lose_nothing_in_broken_network() {
    let mut place = StorePlace::shared("concurrent");
    let mut works: Vec<_> =
        (0..WRITERS).map(|number| AcknowledgedWork::of(&format!("writer{number}-"))).collect();
    let root = place.store.root();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopOnDrop(&is_over);
        for work in &mut works {
            let (root, is_over) = (root.clone(), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    work.step(&root).expect("an answer");
                }
            });
        }
        break_network(&place.proxy);
    });
    place.proxy.heal();
    place.work_in_peace();
    works.iter().for_each(|work| work.check(&root));
    place.store.kill_and_start();
    works.iter().for_each(|work| work.check(&place.store.root()));
    let refused: u32 = works.iter().map(|work| work.refused).sum();
    report(&format!("{WRITERS} writers in a broken network: {refused} writes were refused"));
    place.assert_nothing_is_lost();
}

fn break_network(proxy: &DatabaseProxy) {
    let end = Instant::now() + STORM[usize::from(thorough())];
    let mut random = SeededRandom::new(seed());
    while Instant::now() < end {
        match random.below(6) {
            0 => proxy.reset_all(),
            1 => proxy.close_all(),
            2 => proxy.cut(MessageChoice::Query("COMMIT"), CutPlace::After),
            3 => proxy.cut(MessageChoice::Query("COMMIT"), CutPlace::Before),
            4 => proxy.refuse(),
            _ => proxy.stall(Direction::ToClient),
        }
        let pause = u64::try_from(random.below(PAUSE)).expect("a short pause");
        thread::sleep(Duration::from_millis(pause));
        proxy.heal();
    }
}
