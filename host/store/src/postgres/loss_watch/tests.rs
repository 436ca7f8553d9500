//! Losses that pass, and losses that last.

use super::*;

#[test]
fn loss_is_certain_after_reads_without_interruption() {
    let watch = LossWatch::default();
    assert!(!watch.note(true, 1_000) && !watch.note(true, 1_200));
    assert!(!watch.note(false, 1_250), "an old primary server for a moment");
    assert!(!watch.note(true, 1_300) && !watch.note(true, 1_599));
    assert!(watch.note(true, 1_600));
}
