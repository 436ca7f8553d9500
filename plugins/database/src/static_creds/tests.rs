//! Answers about passwords during an unfinished rotation.

use crate::Database;
use crate::fixture::{account, shown, unreachable, with_static_role};
use bulkhead_sdk::testbed::TestBed;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::json;

fn no_digit() -> Failure {
    Failure::invalid("the password has no digit")
}

/// Returns a test bed with a refused rotation, after an operator changed the account's password.
fn stuck() -> TestBed<Database> {
    let bed = with_static_role();
    bed.host.refuse("change-credential", no_digit());
    bed.write("rotate-role/app", &json!({})).err().unwrap();
    account(&bed, "orders", "app");
    bed
}

#[test]
fn known_dead_password_is_not_shown() {
    let bed = stuck();
    let warnings = bed.read("static-creds/app").unwrap().warnings;
    assert!(
        warnings[0].contains("not finished") && warnings[0].contains("no digit"),
        "{warnings:?}"
    );
    bed.host.refuse("change-credential", no_digit());
    bed.run_guards().unwrap_err();
    let refused = bed.read("static-creds/app").err().unwrap();
    assert_eq!(refused.kind, FailureKind::Unavailable);
    assert!(refused.message.contains("no digit"), "{}", refused.message);
    bed.run_guards().unwrap();
    let reply = bed.read("static-creds/app").unwrap();
    assert!(reply.warnings.is_empty() && shown(&bed, "app").1);
}

/// An unreachable database does not make the password of a role dead.
#[test]
fn unverified_password_is_shown_with_warning() {
    let bed = with_static_role();
    bed.host.refuse("change-credential", unreachable());
    bed.write("rotate-role/app", &json!({})).err().unwrap();
    bed.host.refuse("check-credential", unreachable());
    bed.run_guards().unwrap_err();
    let warnings = bed.read("static-creds/app").unwrap().warnings;
    assert!(warnings[0].contains("no answer from db:5432"), "{warnings:?}");
    assert!(shown(&bed, "app").1);
}

/// Each new request restarts the counter of the timer. Therefore the counter says nothing about the
/// candidate.
#[test]
fn refused_candidate_gives_way_despite_repeated_requests() {
    let bed = stuck();
    for _ in 0..2 {
        let open = bed.write("rotate-role/app", &json!({})).err().unwrap();
        assert_eq!(open.kind, FailureKind::Unavailable);
        assert!(open.message.contains("the password has no digit"), "{}", open.message);
        assert!(open.message.contains("delete the role"), "{}", open.message);
        bed.host.refuse("change-credential", no_digit());
        // The timer counts from the start, as after a request.
        bed.wake("intent/static/app", 1).unwrap_err();
    }
    bed.write("rotate-role/app", &json!({})).err().unwrap();
    bed.wake("intent/static/app", 1).unwrap();
    assert_eq!(shown(&bed, "app"), ("Generated-Password-3".to_owned(), true));
    assert_eq!(bed.host.stored("unfinished/static/app"), None);
}
