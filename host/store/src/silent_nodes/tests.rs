//! Claims without a renewal, over several looks.

use super::*;

const SILENCE: Duration = Duration::from_secs(4);

fn claim(node: &str, until: &str) -> ExpiredClaim {
    ExpiredClaim { node: node.to_owned(), until: until.to_owned() }
}

#[test]
fn unchanged_claim_is_silent_after_uninterrupted_looks() {
    let (mut nodes, dead) = (SilentNodes::default(), [claim("b", "1")]);
    for now in (10_000..14_000).step_by(500) {
        assert_eq!(nodes.note(&dead, (now, SILENCE)), []);
    }
    assert_eq!(nodes.note(&dead, (14_000, SILENCE)), dead);
}

#[test]
fn renewal_and_interruption_begin_the_watch_anew() {
    let (mut nodes, ended) = (SilentNodes::default(), [claim("b", "1")]);
    let mut look = |expired: &[ExpiredClaim], moments: std::ops::Range<u64>| {
        let looks = moments.step_by(500).map(|now| nodes.note(expired, (now, SILENCE)));
        looks.flatten().count()
    };
    assert_eq!(look(&ended, 10_000..13_500), 0);
    assert_eq!(look(&[], 13_500..14_000), 0, "the claim was renewed");
    assert_eq!(look(&ended, 14_000..18_000), 0);
    assert_eq!(look(&[claim("b", "2")], 18_000..22_000), 0, "renewed, and ended again");
    // The database did not answer.
    assert_eq!(look(&ended, 30_000..34_000), 0);
    assert_eq!(look(&ended, 34_000..34_500), 1);
}
