//! Rotations of a connection's own password on the test bed, interrupted or refused at each step.

use crate::Database;
use crate::fixture::{account_with, orders, ready};
use bulkhead_sdk::database_plugin::Credential;
use bulkhead_sdk::host::Clock;
use bulkhead_sdk::testbed::TestBed;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::json;

mod kept;

const STEPS: [&str; 7] =
    ["put", "guard", "checkpoint", "change-credential", "check-credential", "cancel", "schedule"];
const GUARD: &str = "intent/root/orders";

/// Returns a test bed with a connection whose own user exists and is rotated each day.
fn rooted() -> TestBed<Database> {
    let bed = ready();
    account_with(&bed, "orders", ("root", "hunter2-of-root"));
    bed.write("config/orders", &json!({"rotation_period": "24h"})).unwrap();
    bed.host.steps();
    bed
}

/// Returns the stored password of the connection, and `true` if the user logs in with that
/// password.
fn stored(bed: &TestBed<Database>) -> (String, bool) {
    let settings = bed.host.stored("config/orders").unwrap()["settings"].clone();
    let password = settings["password"].as_str().unwrap().to_owned();
    let in_force = bed.host.user("orders", "root").unwrap().credential;
    let works = in_force == Credential::Password(password.clone());
    (password, works)
}

fn is_settled(bed: &TestBed<Database>) -> bool {
    bed.host.stored(GUARD).is_none() && bed.host.timer(GUARD).is_none()
}

fn generation(bed: &TestBed<Database>) -> u64 {
    bed.host.stored("config/orders").unwrap()["generation"].as_u64().unwrap()
}

#[test]
fn rotation_is_recorded_proven_and_given_new_generation() {
    let bed = rooted();
    let before = generation(&bed);
    bed.host.advance(60);
    assert!(bed.write("rotate-root/orders", &json!({})).unwrap().warnings.is_empty());
    assert_eq!(
        bed.host.steps(),
        [
            "guard intent/root/orders in orders",
            "checkpoint",
            "change-credential orders root",
            "check-credential orders root",
            "cancel intent/root/orders",
            "log root-rotated connection=orders",
            "schedule rotate-root/orders in orders",
        ]
    );
    assert_eq!(stored(&bed), ("Generated-Password-1".to_owned(), true));
    assert!(generation(&bed) > before);
    assert_eq!(bed.host.timer("rotate-root/orders"), Some(bed.host.now() + 86_400_000));
    let shown = serde_json::Value::Object(bed.read("config/orders").unwrap().data).to_string();
    assert!(!shown.contains("Generated"), "{shown}");
}

#[test]
fn root_password_changes_by_operator_statements_if_given() {
    let bed = rooted();
    bed.write("config/orders", &json!({"root_rotation_statements": "ALTER {{name}}"})).unwrap();
    bed.write("rotate-root/orders", &json!({})).unwrap();
    assert_eq!(bed.host.user("orders", "root").unwrap().statements, ["ALTER {{name}}"]);
}

#[test]
fn root_password_rotates_when_due_unless_disabled() {
    let bed = rooted();
    bed.host.advance(86_400);
    bed.wake("rotate-root/orders", 1).unwrap();
    assert_eq!(stored(&bed), ("Generated-Password-1".to_owned(), true));
    bed.write("config/orders", &json!({"disable_automated_rotation": true})).unwrap();
    bed.host.advance(10 * 86_400);
    assert_eq!(bed.host.timer("rotate-root/orders"), None);
    bed.write("rotate-root/orders", &json!({})).unwrap();
    assert_eq!(
        stored(&bed),
        ("Generated-Password-2".to_owned(), true),
        "a rotation by hand still works"
    );
    assert_eq!(bed.host.timer("rotate-root/orders"), None);
}

#[test]
fn rotation_death_anywhere_leaves_stored_password_working() {
    for step in STEPS {
        let bed = rooted();
        bed.host.advance(86_400);
        bed.host.die_after(step);
        bed.wake("rotate-root/orders", 1).unwrap_err();
        bed.run_guards().unwrap();
        assert!(stored(&bed).1 && is_settled(&bed), "{step}");
        bed.wake("rotate-root/orders", 2).unwrap();
        assert!(stored(&bed).1 && is_settled(&bed), "{step}");
        assert_eq!(bed.host.timer("rotate-root/orders"), Some(bed.host.now() + 86_400_000));
    }
}

#[test]
fn root_rotation_with_lost_reply_rolls_forward() {
    let bed = rooted();
    bed.host.lose_reply("change-credential", Failure::new(FailureKind::TimedOut, "no reply"));
    assert_eq!(
        bed.write("rotate-root/orders", &json!({})).err().unwrap().kind,
        FailureKind::TimedOut
    );
    assert_eq!(stored(&bed), ("hunter2-of-root".to_owned(), false));
    bed.run_guards().unwrap();
    assert_eq!(stored(&bed), ("Generated-Password-1".to_owned(), true));
    assert!(is_settled(&bed));
}

#[test]
fn unverifiable_password_is_stored_with_warning() {
    let bed = rooted();
    bed.host.fix_login_answer("root", None);
    let warnings = bed.write("rotate-root/orders", &json!({})).unwrap().warnings;
    assert!(warnings[0].contains("could not be verified"), "{warnings:?}");
    assert!(stored(&bed).1 && is_settled(&bed));
}

#[test]
fn second_root_rotation_names_cause_of_unfinished_rotation() {
    let bed = rooted();
    bed.host.refuse("change-credential", Failure::invalid("too short"));
    bed.write("rotate-root/orders", &json!({})).err().unwrap();
    let open = bed.write("rotate-root/orders", &json!({})).err().unwrap();
    assert_eq!(open.kind, FailureKind::Unavailable);
    assert!(open.message.contains("connection \"orders\": too short"), "{}", open.message);
    assert!(open.message.contains("write config/orders"), "{}", open.message);
    bed.run_guards().unwrap();
    assert!(stored(&bed).1 && is_settled(&bed));
    assert_eq!(bed.host.stored("unfinished/root/orders"), None);
}

#[test]
fn refused_password_gives_way_to_fresh_password() {
    let bed = rooted();
    bed.host.refuse("change-credential", Failure::invalid("too short"));
    assert_eq!(
        bed.write("rotate-root/orders", &json!({})).err().unwrap().message,
        "connection \"orders\": too short"
    );
    let open = bed.write("rotate-root/orders", &json!({})).err().unwrap();
    assert_eq!(open.kind, FailureKind::Unavailable);
    bed.run_guards().unwrap();
    assert_eq!(stored(&bed), ("Generated-Password-2".to_owned(), true));
}

#[test]
fn rotation_without_working_password_keeps_all_and_reports() {
    let bed = rooted();
    bed.host.refuse("change-credential", Failure::new(FailureKind::Unreachable, "away"));
    bed.write("rotate-root/orders", &json!({})).err().unwrap();
    account_with(&bed, "orders", ("root", "of-another-hand"));
    bed.host.steps();
    let unknown = bed.run_guards().unwrap_err();
    assert_eq!(unknown.kind, FailureKind::Unreachable, "the failure is retried without end");
    assert!(unknown.message.contains("write config/orders with the user's password"), "{unknown}");
    let steps = bed.host.steps();
    assert!(!steps.iter().any(|step| step.starts_with("change-credential")), "{steps:?}");
    assert!(steps.contains(&"log root-credential-unknown connection=orders".to_owned()));
    assert!(bed.host.stored(GUARD).is_some());
    bed.write("config/orders", &json!({"password": "of-another-hand"})).unwrap();
    bed.run_guards().unwrap();
    assert!(stored(&bed).1 && is_settled(&bed));
}

#[test]
fn a_rotation_of_a_replaced_connection_is_forgotten() {
    let bed = rooted();
    bed.host.refuse("change-credential", Failure::new(FailureKind::Unreachable, "away"));
    bed.write("rotate-root/orders", &json!({})).err().unwrap();
    account_with(&bed, "orders", ("other", "hunter2-of-other"));
    let other = json!({"username": "other", "password": "hunter2-of-other"});
    bed.write("config/orders", &other).unwrap();
    bed.run_guards().unwrap();
    assert!(is_settled(&bed));
    assert!(bed.host.timer("rotate-root/orders").is_some());
}

#[test]
fn connection_with_unfinished_rotation_needs_forced_removal() {
    let bed = rooted();
    bed.host.lose_reply("change-credential", Failure::new(FailureKind::TimedOut, "no reply"));
    bed.write("rotate-root/orders", &json!({})).err().unwrap();
    let refused = bed.delete("config/orders").err().unwrap();
    assert!(refused.message.contains("only the engine knows"), "{}", refused.message);
    bed.delete_with("config/orders", &json!({"force": true})).unwrap();
    bed.run_guards().unwrap();
    assert!(is_settled(&bed));
    assert_eq!(bed.host.timer("rotate-root/orders"), None);
    // The connection is written again, and the password that only the engine knows is found.
    bed.write("config/orders", &orders()).unwrap();
    bed.run_guards().unwrap();
    assert_eq!(stored(&bed), ("Generated-Password-1".to_owned(), true));
}

#[test]
fn a_window_that_is_over_ends_the_attempts() {
    let bed = rooted();
    let nightly = json!({"rotation_schedule": "0 3 * * *", "rotation_window": "1h"});
    bed.write("config/orders", &nightly).unwrap();
    let due = bed.host.timer("rotate-root/orders").unwrap();
    bed.host.advance((due - bed.host.now()) / 1_000 + 60);
    bed.host.refuse("change-credential", Failure::new(FailureKind::Unreachable, "away"));
    bed.wake("rotate-root/orders", 1).unwrap_err();
    bed.host.advance(3_600);
    bed.run_guards().unwrap();
    assert_eq!(stored(&bed), ("hunter2-of-root".to_owned(), true));
    assert!(is_settled(&bed));
    assert_eq!(bed.host.timer("rotate-root/orders"), Some(due + 86_400_000));
    bed.host.advance(86_400 + 3_600);
    bed.wake("rotate-root/orders", 1).unwrap();
    assert_eq!(bed.host.timer("rotate-root/orders"), Some(due + 2 * 86_400_000), "missed whole");
}

#[test]
fn impossible_rotation_is_refused_before_database_request() {
    let bed = ready();
    let unknown = bed.write("rotate-root/billing", &json!({})).err().unwrap();
    assert!(unknown.message.contains("there is no connection \"billing\""), "{unknown}");
    for (change, expected) in [
        (json!({"username": ""}), "no username in configuration"),
        (json!({"username": "root", "password": ""}), "no password in configuration"),
        (
            json!({"password": "x", "connection_url": "postgres://root@db/orders"}),
            "must template {{password}}",
        ),
    ] {
        bed.write("config/orders", &change).unwrap();
        bed.host.steps();
        let refused = bed.write("rotate-root/orders", &json!({})).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(refused.message.contains(expected), "{}", refused.message);
        assert!(bed.host.steps().is_empty());
    }
}

/// Returns a write that leads to another server without a login.
fn elsewhere(password: &str) -> serde_json::Value {
    json!({
        "connection_url": "postgres://{{username}}:{{password}}@other:5432/orders",
        "password": password,
        "verify_connection": false,
    })
}

/// Returns the number of logins that the engine tried.
fn logins(bed: &TestBed<Database>) -> usize {
    let steps = bed.host.steps();
    steps.iter().filter(|step| step.starts_with("check-credential")).count()
}

#[test]
fn unfinished_rotation_tries_password_at_no_other_server() {
    let bed = rooted();
    let before = orders();
    bed.host.lose_reply("change-credential", Failure::new(FailureKind::TimedOut, "no reply"));
    bed.write("rotate-root/orders", &json!({})).err().unwrap();
    bed.write("config/orders", &elsewhere("root-of-other")).unwrap();
    bed.host.steps();
    bed.run_guards().unwrap();
    assert_eq!(logins(&bed), 0, "no password reaches a server for which it was not made");
    assert_eq!(stored(&bed).0, "root-of-other");
    assert!(is_settled(&bed));
    bed.write("config/orders", &before).unwrap();
    bed.run_guards().unwrap();
    assert_eq!(stored(&bed), ("Generated-Password-1".to_owned(), true));
    assert!(is_settled(&bed));
}

#[test]
fn connection_led_back_at_once_continues_rotation() {
    let bed = rooted();
    bed.host.lose_reply("change-credential", Failure::new(FailureKind::TimedOut, "no reply"));
    bed.write("rotate-root/orders", &json!({})).err().unwrap();
    bed.write("config/orders", &elsewhere("root-of-other")).unwrap();
    bed.write("config/orders", &orders()).unwrap();
    bed.run_guards().unwrap();
    assert_eq!(stored(&bed), ("Generated-Password-1".to_owned(), true));
    assert!(is_settled(&bed));
}

#[test]
fn every_scheduled_rotation_outcome_sets_next_time() {
    let lost = || Failure::new(FailureKind::Unreachable, "the answer was lost");
    type Arrange = fn(&TestBed<Database>, Failure);
    let fates: [(&str, Arrange); 6] = [
        ("success", |_, _| {}),
        ("refused", |bed, why| bed.host.refuse("change-credential", why)),
        ("reply lost", |bed, why| bed.host.lose_reply("change-credential", why)),
        ("not proven", |bed, why| bed.host.refuse("check-credential", why)),
        ("death at the change", |bed, _| bed.host.die_after("change-credential")),
        ("death at the checkpoint", |bed, _| bed.host.die_after("checkpoint")),
    ];
    for (fate, arrange) in fates {
        let bed = rooted();
        bed.write("config/orders", &json!({ "rotation_period": "1h" })).unwrap();
        let before = stored(&bed).0;
        bed.host.advance(3_600);
        arrange(&bed, lost());
        for _ in 0..1_800 {
            bed.ring_due();
            assert!(bed.host.timer("rotate-root/orders").is_some(), "no next time: {fate}");
            bed.host.advance(5);
        }
        let (password, works) = stored(&bed);
        assert!(works && password != before, "{fate}");
    }
}
