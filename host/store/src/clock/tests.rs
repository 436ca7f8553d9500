//! Store time after jumps of the clock of the system.

use std::sync::{Arc, Mutex};

use super::*;

const HOUR: i64 = 3_600_000;
const TEN_YEARS: i64 = 10 * 365 * 24 * HOUR;

/// Two clocks that a test moves.
#[derive(Clone)]
pub(crate) struct TestClock(Arc<Mutex<ClockReadings>>);

impl TestClock {
    pub(crate) fn new() -> TestClock {
        TestClock(Arc::new(Mutex::new(ClockReadings { system: 1_800_000_000_000, steady: 5_000 })))
    }

    pub(crate) fn clock(&self) -> StoreClock {
        let hands = self.clone();
        StoreClock::reading(move || *hands.0.lock().unwrap())
    }

    /// Sets the system's clock.
    pub(crate) fn set(&self, by: i64) {
        let mut readings = self.0.lock().unwrap();
        readings.system = readings.system.saturating_add_signed(by);
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, milliseconds: u64) {
        let mut readings = self.0.lock().unwrap();
        readings.system = readings.system.saturating_add(milliseconds);
        readings.steady += milliseconds;
    }
}

#[test]
fn five_second_timer_ends_timely_despite_clock_change() {
    for (case, set) in [
        ("left alone", [0, 0, 0]),
        ("an hour ahead", [HOUR, 0, 0]),
        ("an hour back", [-HOUR, 0, 0]),
        ("ahead and back", [HOUR, -HOUR, 0]),
        ("back and ahead", [-HOUR, 0, HOUR]),
        ("ahead again and again", [HOUR, HOUR, HOUR]),
        ("ten years ahead, and back further", [TEN_YEARS, -TEN_YEARS, -HOUR]),
        ("before 1970", [i64::MIN, 0, 0]),
        ("to the end of time", [i64::MAX, i64::MAX, -HOUR]),
    ] {
        let hands = TestClock::new();
        let clock = hands.clock();
        let end = clock.now() + 5_000;
        for by in set {
            hands.set(by);
            assert!(clock.now() < end, "{case}: ended early");
            hands.pass(1_500);
        }
        assert!(clock.now() < end, "{case}: ended early");
        hands.pass(1_000);
        assert!(clock.now() >= end, "{case}: not ended in time");
    }
}

#[test]
fn clock_jump_is_reported_once_without_small_corrections() {
    let hands = TestClock::new();
    let clock = hands.clock();
    hands.pass(60_000);
    assert_eq!(clock.jump(), None);
    hands.set(999);
    assert_eq!(clock.jump(), None);
    hands.set(HOUR - 999);
    assert_eq!(clock.jump(), Some(ClockJump { by: HOUR, ahead: HOUR }));
    hands.pass(60_000);
    assert_eq!(clock.jump(), None);
    hands.set(-2 * HOUR);
    assert_eq!(clock.jump(), Some(ClockJump { by: -2 * HOUR, ahead: -HOUR }));
    assert_eq!(clock.jump(), None);
}

#[test]
fn only_clock_behind_mark_moves_to_mark() {
    let hands = TestClock::new();
    let clock = hands.clock();
    let began = clock.now();
    clock.advance_to(began - 1);
    assert_eq!((clock.now(), clock.take_behind()), (began, None));
    clock.advance_to(began + 999);
    assert_eq!((clock.now(), clock.take_behind()), (began + 999, None), "a correction");
    let mark = began + TEN_YEARS as u64;
    clock.advance_to(mark);
    assert_eq!(clock.take_behind(), Some(ClockBehind { system: began, store: mark }));
    assert_eq!((clock.take_behind(), clock.jump()), (None, None), "a jump is reported once");
    hands.pass(5_000);
    assert_eq!(clock.now(), mark + 5_000, "time does not stand still until then");
    assert_eq!(clock.lag(), TEN_YEARS as u64, "until the clock is set right");
    hands.set(TEN_YEARS);
    assert_eq!(clock.lag(), 0);
    assert_eq!(clock.jump(), Some(ClockJump { by: TEN_YEARS, ahead: 0 }));
    assert_eq!(clock.now(), mark + 5_000);
}

#[test]
fn corrected_time_stands_still_and_never_goes_back() {
    let hands = TestClock::new();
    let clock = hands.clock();
    let (began, offset) = (clock.now(), clock.steady_offset());
    clock.correct(-500);
    assert_eq!((clock.now(), clock.steady_offset()), (began, offset - 500));
    hands.pass(499);
    assert_eq!(clock.now(), began);
    hands.pass(2);
    assert_eq!(clock.now(), began + 1);
    clock.correct(700);
    assert_eq!(clock.now(), began + 701);
}

#[test]
fn store_time_advances_in_milliseconds_since_1970() {
    let from_2020_to_2200 = 1_577_836_800_000..7_258_118_400_000;
    let clock = StoreClock::system();
    let began = clock.now();
    assert!(from_2020_to_2200.contains(&began));
    while clock.now() == began {
        std::hint::spin_loop();
    }
    assert_eq!(clock.jump(), None);
}
