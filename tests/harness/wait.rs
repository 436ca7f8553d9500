//! Waits for a condition with a time limit, in place of a fixed sleep.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Shortest and longest interval between two probes. The interval grows with the elapsed time: a
/// server starts in tenths of a second, and a probe of a long wait may start a program. The longest
/// interval is short against the two seconds that the end of a lease may take.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// Share of the elapsed time that an interval takes.
const SHARE: u32 = 16;

/// Calls `probe` until it returns a value, and returns the value and the elapsed time.
///
/// # Panics
/// If `limit` passes first; `what` describes the condition.
#[track_caller]
pub fn until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> Option<T>,
) -> (T, Duration) {
    match poll(limit, || probe().ok_or(())) {
        Ok(found) => found,
        Err(()) => panic!("waited {limit:?} in vain: {what}"),
    }
}

/// Calls `holds` until it returns `true`, and returns the elapsed time.
///
/// # Panics
/// Like [`until`].
#[track_caller]
pub fn until_true(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    until(what, limit, || holds().then_some(())).1
}

/// Calls `probe` until it succeeds, and returns the result and the elapsed time.
///
/// # Panics
/// Like [`until`]; the message has the last failure.
#[track_caller]
pub fn until_ok<T, E: Debug>(
    what: &str,
    limit: Duration,
    probe: impl FnMut() -> Result<T, E>,
) -> (T, Duration) {
    match poll(limit, probe) {
        Ok(found) => found,
        Err(last) => panic!("waited {limit:?} in vain: {what}; last: {last:?}"),
    }
}

/// Sets a flag on drop, at which the threads of a scope end. The scope waits for its threads, so
/// that a failed check would otherwise never end the test.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `probe` until it succeeds or `limit` has passed, and then returns the last failure.
fn poll<T, E>(
    limit: Duration,
    mut probe: impl FnMut() -> Result<T, E>,
) -> Result<(T, Duration), E> {
    let start = Instant::now();
    loop {
        match probe() {
            Ok(found) => return Ok((found, start.elapsed())),
            Err(last) if start.elapsed() >= limit => return Err(last),
            Err(_) => std::thread::sleep(pause_after(start.elapsed())),
        }
    }
}

/// Returns the interval before the next probe.
fn pause_after(elapsed: Duration) -> Duration {
    let [shortest, longest] = PAUSES;
    (elapsed / SHARE).clamp(shortest, longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_elapsed_time_and_stay_short() {
        for (elapsed, pause) in [(0, 5), (160, 10), (1_600, 100), (60_000, 100)] {
            let found = pause_after(Duration::from_millis(elapsed));
            assert_eq!(found, Duration::from_millis(pause), "{elapsed} ms");
        }
    }

    #[test]
    fn a_condition_that_comes_true_ends_the_wait() {
        let mut looks = 0;
        until_true("the third look", Duration::from_secs(5), || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[test]
    #[should_panic(expected = "waited 50ms in vain: a miracle")]
    fn unmet_condition_fails_by_name() {
        until_true("a miracle", Duration::from_millis(50), || false);
    }

    #[test]
    #[should_panic(expected = "waited 50ms in vain: a miracle; last: \"sealed\"")]
    fn missing_success_fails_with_last_failure() {
        until_ok("a miracle", Duration::from_millis(50), || Err::<(), _>("sealed"));
    }
}
