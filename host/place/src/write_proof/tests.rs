//! Proof times of a process whose commits become slow and quick again.

use super::*;

impl WriteProofs {
    /// Returns whether a proof counts at `now`.
    fn hold_at(&self, now: u64) -> bool {
        now < self.counts_until()
    }
}

/// Runs proofs of this duration, one after the other. Returns the moment after the last one, and
/// whether a proof counted at each moment from the second proof on.
fn run(proofs: &mut WriteProofs, mut now: u64, (count, duration): (u32, u64)) -> (u64, bool) {
    let mut counted = true;
    for number in 0..count {
        let begun = now;
        let time = proofs.begin();
        let end = begun + duration;
        counted &= number < 2 || proofs.hold_at(end - 1);
        proofs.end((begun, end), time);
        now = end.max(begun + 150);
        counted &= number < 2 || proofs.hold_at(now);
    }
    (now, counted)
}

#[test]
fn slow_commits_lengthen_proof_time_up_to_bound() {
    for duration in [5, 70, 300, 1_000, 1_900] {
        let mut proofs = WriteProofs::default();
        let (now, counted) = run(&mut proofs, 1_000, (40, duration));
        assert!(counted, "{duration}");
        assert!(!proofs.hold_at(now + 4_000), "{duration}");
    }
    let mut proofs = WriteProofs::default();
    let (_, counted) = run(&mut proofs, 1_000, (9, 5_000));
    assert!(!counted, "longer than the bound");
    assert_eq!(proofs.begin(), MOST_PROOF_TIME);
}

#[test]
fn proof_time_is_quick_again_after_slow_commits() {
    let mut proofs = WriteProofs::default();
    let (now, _) = run(&mut proofs, 1_000, (9, 900));
    assert!(proofs.begin() > Duration::from_secs(2));
    let (_, counted) = run(&mut proofs, now, (60, 5));
    assert!(counted);
    assert_eq!(proofs.begin(), QUICK_PROOF_TIME);
}

#[test]
fn shorter_time_counts_at_once_longer_once_stored() {
    let mut proofs = WriteProofs::default();
    assert!(!proofs.hold_at(0) && !proofs.hold_at(9_000));
    assert_eq!(proofs.begin(), QUICK_PROOF_TIME);
    proofs.end((1_000, 1_300), QUICK_PROOF_TIME);
    let longer = proofs.begin();
    assert_eq!(longer, Duration::from_millis(1_050));
    assert!(proofs.hold_at(1_399) && !proofs.hold_at(1_400), "not stored yet");
    proofs.end((1_300, 1_305), longer);
    assert!(proofs.hold_at(2_349) && !proofs.hold_at(2_350));
    proofs.slowest = Duration::ZERO;
    assert_eq!(proofs.begin(), QUICK_PROOF_TIME);
    assert!(proofs.hold_at(1_699) && !proofs.hold_at(1_700), "the row may show this time already");
}

#[test]
fn writer_waits_longer_than_node_uses_its_memory() {
    for milliseconds in [0, 400, 1_050, 4_000, 9_000] {
        let node = OtherNode { seen: 0, proof_time: Duration::from_millis(milliseconds) };
        let used = node.proof_time.min(MOST_PROOF_TIME);
        assert!(node.in_force_time() > used);
        assert!((QUICK_PROOF_TIME..=MOST_PROOF_TIME * 2).contains(&node.in_force_time()));
    }
}
