//! The connection breaks before, within and after each message of a write. A new connection does
//! the rest, so that the caller notices nothing.

use super::place::StorePlace;
use crate::stage::report;
use bulkhead_tests::database_proxy::{CutPlace, MessageChoice};

const PLACES: [CutPlace; 3] = [CutPlace::Before, CutPlace::Within, CutPlace::After];

/// Fewest messages of a write: begin, questions, writes and commit, each with an answer.
const FEWEST: u32 = 8;

#[test]
fn cut_at_any_message_of_write_loses_nothing() {
    let mut place = StorePlace::shared("cuts");
    place.work_in_peace();
    for cut in PLACES {
        let count = cut_every_message(&mut place, cut);
        report(&format!("cuts {cut:?} a message of a write: {count}"));
        assert!(count >= FEWEST, "only {count} messages were cut");
    }
    place.assert_nothing_is_lost();
}

/// Sends a write with a cut at the first message, the second, and so on, until a write of each kind
/// passes uncut. Returns the number of cuts.
fn cut_every_message(place: &mut StorePlace<'_>, cut: CutPlace) -> u32 {
    let root = place.store.root();
    let (mut number, mut uncut) = (0, 0);
    while uncut < 6 {
        number += 1;
        place.proxy.cut(MessageChoice::Number(number), cut);
        let answer = place.work.step(&root).expect("an answer");
        let has_cut = place.proxy.pass_all();
        uncut = if has_cut { 0 } else { uncut + 1 };
        assert!(answer.status < 300, "{cut:?} message {number}: {answer:?}");
        if number.is_multiple_of(16) {
            place.work.check(&root);
        }
    }
    place.work.check(&root);
    // A cut may have met a renewal of the claim or a look of the health instead of a request.
    place.work_until_healthy();
    number - uncut
}

#[test]
fn commit_with_lost_answer_is_found() {
    let mut place = StorePlace::shared("lost_answers");
    let root = place.store.root();
    for _ in 0..4 {
        for cut in PLACES {
            place.proxy.cut(MessageChoice::Query("COMMIT"), cut);
            let answer = place.work.step(&root).expect("an answer");
            assert!(place.proxy.pass_all(), "a write has no commit");
            assert!(answer.status < 300, "{cut:?} the commit: {answer:?}");
        }
    }
    place.work.check(&root);
    place.assert_nothing_is_lost();
}
