//! The breaker opens after crashes in a row, and closes after an answer.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn end(breaker: &Breaker, ended: Termination, now: Instant) -> Option<BreakerChange> {
    breaker.may_enter(now).ok().unwrap().end(ended, now)
}

/// Returns an open breaker and the time at which it opened.
fn open() -> (Breaker, Instant) {
    let (breaker, now) = (Breaker::new("digest"), Instant::now());
    for _ in 1..MAX_CRASHES {
        assert_eq!(end(&breaker, Termination::Trapped, now), None);
    }
    assert_eq!(end(&breaker, Termination::Trapped, now), Some(BreakerChange::Opened(FIRST_REST)));
    (breaker, now)
}

#[test]
fn breaker_opens_at_sixteenth_consecutive_crash() {
    let (breaker, now) = open();
    let rest = breaker.may_enter(now + SECOND).err();
    assert_eq!(rest, Some(MountRest { crashes: 16, left: FIRST_REST - SECOND }));
}

#[test]
fn breaker_rest_reports_crash_count() {
    let (breaker, now) = (Breaker::new("digest"), Instant::now());
    breaker.begin_probation(now + SECOND);
    for _ in 0..CRASHES_ON_PROBATION {
        end(&breaker, Termination::Trapped, now);
    }
    assert_eq!(breaker.may_enter(now).err().map(|rest| rest.crashes), Some(4));
    let later = now + FIRST_REST;
    end(&breaker, Termination::Trapped, later);
    assert_eq!(breaker.may_enter(later).err().map(|rest| rest.crashes), Some(5));
    assert_eq!(breaker.crashes(), 5);
}

#[test]
fn answer_or_refusal_between_crashes_keeps_breaker_closed() {
    for between in [Termination::Answered, Termination::Refused] {
        let (breaker, now) = (Breaker::new("digest"), Instant::now());
        for _ in 0..4 {
            for _ in 1..MAX_CRASHES {
                assert_eq!(end(&breaker, Termination::Trapped, now), None);
            }
            assert_eq!(end(&breaker, between, now), None);
        }
    }
}

#[test]
fn distant_crashes_and_late_calls_keep_breaker_closed() {
    let (breaker, now) = (Breaker::new("digest"), Instant::now());
    for number in 0..100 {
        assert_eq!(end(&breaker, Termination::Trapped, now + SECOND * 5 * number), None);
        assert_eq!(end(&breaker, Termination::Late, now), None);
    }
}

#[test]
fn answered_trial_after_rest_closes_breaker() {
    let (breaker, now) = open();
    let later = now + FIRST_REST;
    let trial = breaker.may_enter(later).ok().unwrap();
    assert_eq!(
        breaker.may_enter(later).err().map(|rest| rest.left),
        Some(TRIAL_RETRY_AFTER),
        "a second trial at the same time is refused"
    );
    assert_eq!(trial.end(Termination::Answered, later), Some(BreakerChange::Closed));
    assert_eq!(
        end(&breaker, Termination::Trapped, later),
        None,
        "an answer resets the count of crashes"
    );
    assert!(breaker.may_enter(later).is_ok());
}

#[test]
fn crashed_trial_doubles_rest_up_to_five_minutes() {
    let (breaker, mut now) = open();
    let mut lengths = vec![FIRST_REST];
    for _ in 0..6 {
        now += *lengths.last().unwrap();
        match end(&breaker, Termination::Trapped, now) {
            Some(BreakerChange::Opened(length)) => lengths.push(length),
            other => panic!("{other:?}"),
        }
    }
    let seconds: Vec<u64> = lengths.iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn abandoned_trial_lets_next_call_try() {
    let (breaker, now) = open();
    let later = now + FIRST_REST;
    drop(breaker.may_enter(later));
    assert_eq!(end(&breaker, Termination::Late, later), None);
    assert_eq!(end(&breaker, Termination::Answered, later), Some(BreakerChange::Closed));
}

#[test]
fn calls_entered_before_rest_leave_breaker_unchanged() {
    let (breaker, now) = (Breaker::new("digest"), Instant::now());
    let before: Vec<_> = (0..3).map(|_| breaker.may_enter(now).ok().unwrap()).collect();
    for _ in 0..MAX_CRASHES {
        end(&breaker, Termination::Trapped, now);
    }
    for (pass, ended) in
        before.into_iter().zip([Termination::Trapped, Termination::Answered, Termination::Late])
    {
        assert_eq!(pass.end(ended, now), None);
    }
    assert_eq!(breaker.may_enter(now).err().map(|rest| rest.left), Some(FIRST_REST));
}
