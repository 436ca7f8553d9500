//! Waiting for a condition, with an end: never a sleep in the hope that something has happened by
//! then.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Between two looks. Short against the two seconds that a lease's end may take, long against a
/// look.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks `probe` until it answers, and returns the answer with the time it took.
///
/// # Panics
/// When `limit` has passed without one; `what` says what was waited for.
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

/// Asks `holds` until it says yes, and returns the time it took.
///
/// # Panics
/// As [`until`].
#[track_caller]
pub fn until_true(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    until(what, limit, || holds().then_some(())).1
}

/// Asks `probe` until it succeeds, and returns its result with the time it took. Where nothing
/// succeeds in time, the panic shows the last failure.
///
/// # Panics
/// As [`until`].
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

/// Asks `probe` until it succeeds or `limit` has passed, and returns the last failure then.
fn poll<T, E>(
    limit: Duration,
    mut probe: impl FnMut() -> Result<T, E>,
) -> Result<(T, Duration), E> {
    let start = Instant::now();
    loop {
        match probe() {
            Ok(found) => return Ok((found, start.elapsed())),
            Err(last) if start.elapsed() >= limit => return Err(last),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_condition_that_never_comes_true_fails_by_name() {
        until_true("a miracle", Duration::from_millis(50), || false);
    }

    #[test]
    #[should_panic(expected = "waited 50ms in vain: a miracle; last: \"sealed\"")]
    fn a_success_that_never_comes_fails_with_the_last_failure() {
        until_ok("a miracle", Duration::from_millis(50), || Err::<(), _>("sealed"));
    }
}
