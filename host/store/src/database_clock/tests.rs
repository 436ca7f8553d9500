//! Readings of a clock of a database, and the time that follows them.

use super::*;
use crate::clock::tests::TestClock;

/// A node: its clocks, and the clock of the server.
struct Node {
    hands: TestClock,
    clock: Arc<StoreClock>,
    follower: DatabaseClock,
    /// The clock of the server less the clock that cannot be set.
    lead: i64,
}

impl Node {
    fn new() -> Node {
        let hands = TestClock::new();
        let clock = Arc::new(hands.clock());
        let lead = clock.steady_offset();
        Node { hands, follower: DatabaseClock::new(&clock), clock, lead }
    }

    fn server_time(&self) -> u64 {
        self.clock.steady_time().saturating_add_signed(self.lead)
    }

    /// Asks the server, whose answer takes `late` milliseconds after the reading.
    fn ask(&self, (early, late): (u64, u64)) -> ClockReading {
        let before = self.clock.steady_time();
        self.hands.pass(early);
        let database = self.server_time();
        self.hands.pass(late);
        ClockReading { asked: (before, self.clock.steady_time()), database }
    }

    /// Follows the server for `seconds`. Returns the passed store time.
    fn follow(&self, seconds: u64) -> u64 {
        let began = self.clock.now();
        for _ in 0..seconds * 40 {
            let before = self.clock.now();
            self.follower.follow(&self.ask((1, 1)));
            self.hands.pass(23);
            assert!(self.clock.now() >= before, "store time went back");
        }
        self.clock.now() - began
    }
}

#[test]
fn store_time_follows_server_and_never_goes_back() {
    let mut node = Node::new();
    node.follow(1);
    for lead in [60_000, -60_000, 900, -900] {
        node.lead += lead;
        let passed = node.follow(1);
        match lead {
            60_000.. => assert!(passed > 60_000, "{passed}"),
            ..=-60_000 => assert!((400..=600).contains(&passed), "half speed: {passed}"),
            _ => {}
        }
        node.follow(140);
        let apart = node.clock.now().abs_diff(node.server_time());
        assert!(apart <= 5, "{lead}: {apart}");
    }
}

#[test]
fn slow_answer_does_not_move_store_time() {
    let node = Node::new();
    node.follow(1);
    for delay in [(400, 0), (0, 400), (30, 5)] {
        node.follower.follow(&node.ask(delay));
        let apart = node.clock.now().abs_diff(node.server_time());
        assert!(apart <= 5, "{delay:?}: {apart}");
    }
}

#[test]
fn large_difference_is_refused_with_both_times() {
    let mut node = Node::new();
    node.lead += 60_000;
    let readings = [node.ask((1, 1))];
    let Err(StoreFault::Refused(why)) = begin_at(&node.clock, &readings) else { panic!() };
    assert!(why.contains("2027-01-15T08:00:00.002Z"), "{why}");
    assert!(why.contains("2027-01-15T08:01:00.0"), "{why}");
    node.lead -= 51_000;
    let readings = [node.ask((200, 300)), node.ask((1, 1))];
    begin_at(&node.clock, &readings).unwrap();
    assert!(node.clock.now().abs_diff(node.server_time()) <= 5);
    assert!(begin_at(&node.clock, &[]).is_err());
}
