//! Metrics of passwords, rotations and check-outs, and the timer that reports them.

use super::*;
use crate::fixture::{with_role, with_set};
use bulkhead_sdk::FailureKind;
use bulkhead_sdk::testbed::Flavour;
use serde_json::json;

const ROUTINE: [&str; 7] = ["day", "week", "month", "quarter", "year", "older", "never"];

/// Returns the reported number of passwords of each age.
fn age_counts(host: &bulkhead_sdk::testbed::TestHost) -> Vec<(&'static str, f64)> {
    let of = |age: &'static str| (age, host.metric(&PASSWORDS, age));
    ROUTINE.map(of).into_iter().filter(|(_, count)| *count > 0.0).collect()
}

#[test]
fn password_age_metric_includes_never_read_roles() {
    let bed = with_role(Flavour::ActiveDirectory);
    let host = &bed.host;
    bed.wake(KEY, 1).unwrap();
    assert_eq!(age_counts(host), [("never", 1.0)], "a role that was never read");
    bed.read("creds/build").unwrap();
    let rotated = host.clock().now();
    bed.wake(KEY, 1).unwrap();
    assert_eq!(age_counts(host), [("day", 1.0)]);
    for (days, age) in [(2, "week"), (10, "month"), (50, "quarter"), (100, "year"), (300, "older")]
    {
        host.advance(days * DAY);
        bed.wake(KEY, 1).unwrap();
        assert_eq!(age_counts(host), [(age, 1.0)]);
    }
    assert_eq!(host.metric(&OLDEST, ""), seconds(rotated));
    bed.write("rotate-root", &json!({})).unwrap();
    bed.wake(KEY, 1).unwrap();
    assert_eq!(host.metric(&BINDPASS, ""), seconds(host.clock().now()));
}

#[test]
fn next_look_with_configuration_is_in_five_minutes() {
    let bed = with_role(Flavour::ActiveDirectory);
    assert_eq!(bed.host.timer(KEY), Some(bed.host.clock().now()), "the first one at once");
    bed.host.advance(1);
    bed.wake(KEY, 1).unwrap();
    assert_eq!(bed.host.timer(KEY), Some(bed.host.clock().now() + 300_000));
    bed.delete("config").unwrap();
    assert_eq!(bed.host.timer(KEY), None);
}

#[test]
fn outcomes_of_rotations_and_check_outs_are_counted() {
    let bed = with_role(Flavour::ActiveDirectory);
    let host = &bed.host;
    bed.read("creds/build").unwrap();
    host.advance(100);
    bed.write("rotate-role/build", &json!({})).unwrap();
    host.refuse("ldap-modify", Failure::invalid("too short"));
    bed.write("rotate-role/build", &json!({})).err().unwrap();
    host.lose_reply("ldap-modify", Failure::new(FailureKind::Unreachable, "the answer was lost"));
    bed.write("rotate-role/build", &json!({})).err().unwrap();
    let rotations = ["done", "refused", "unknown"].map(|one| host.metric(&ROTATIONS, one));
    assert_eq!(rotations, [2.0, 1.0, 1.0]);
    assert_eq!(host.metric(&AGE, ""), 100.0);

    let bed = with_set();
    for _ in 0..2 {
        bed.write("library/team/check-out", &json!({})).unwrap();
    }
    bed.write("library/team/check-out", &json!({})).err().unwrap();
    let check_outs = ["lent", "none"].map(|one| bed.host.metric(&CHECK_OUTS, one));
    assert_eq!(check_outs, [2.0, 1.0]);
}
