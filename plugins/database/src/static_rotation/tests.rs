//! Rotations of static roles on the test bed, interrupted or refused at each step.

use crate::Database;
use crate::fixture::{app, orders, shown, unreachable, with, with_account, with_static_role};
use bulkhead_sdk::host::Clock;
use bulkhead_sdk::testbed::TestBed;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::json;

const STEPS: [&str; 7] =
    ["put", "guard", "checkpoint", "change-credential", "check-credential", "cancel", "schedule"];
const GUARD: &str = "intent/static/app";

/// Returns `true` if nothing is left over: no intent, no guard, and a rotation timer only if the
/// role exists.
fn is_settled(bed: &TestBed<Database>) -> bool {
    let has_role = bed.host.stored("static-role/app").is_some();
    bed.host.stored(GUARD).is_none()
        && bed.host.timer(GUARD).is_none()
        && bed.host.timer("rotate/app").is_some() == has_role
}

#[test]
fn role_rotates_when_due_and_not_before() {
    let bed = with_static_role();
    bed.wake("rotate/app", 1).unwrap();
    assert_eq!(shown(&bed, "app").0, "Generated-Password-1", "it was not due");
    bed.host.advance(3_600);
    bed.wake("rotate/app", 1).unwrap();
    assert_eq!(shown(&bed, "app"), ("Generated-Password-2".to_owned(), true));
    assert_eq!(bed.host.timer("rotate/app"), Some(bed.host.now() + 3_600_000));
    assert!(is_settled(&bed));
}

#[test]
fn interrupted_rotation_completes_once_and_stored_password_works() {
    for step in STEPS {
        let bed = with_static_role();
        bed.host.advance(3_600);
        bed.host.die_after(step);
        bed.wake("rotate/app", 1).unwrap_err();
        bed.run_guards().unwrap();
        assert!(shown(&bed, "app").1, "{step}");
        // A timer that rings again finds nothing to do.
        bed.wake("rotate/app", 2).unwrap();
        assert!(shown(&bed, "app").1 && is_settled(&bed), "{step}");
        let rotated = bed.host.steps();
        let rotated = rotated.iter().filter(|step| step.starts_with("log static-role-rotated"));
        // A commit that died with the process was not a rotation, but the log already has the line.
        assert!((1..=2).contains(&rotated.count()), "{step}");
        assert_eq!(bed.host.timer("rotate/app"), Some(bed.host.now() + 3_600_000), "{step}");
    }
}

#[test]
fn crash_during_creation_leaves_working_role_or_none() {
    for step in STEPS {
        let bed = with_account();
        bed.host.die_after(step);
        bed.write("static-roles/app", &app()).err().unwrap();
        bed.run_guards().unwrap();
        assert!(is_settled(&bed), "{step}");
        let first = bed.host.user("orders", "app").unwrap().statements.is_empty();
        if bed.host.stored("static-role/app").is_some() {
            assert!(shown(&bed, "app").1, "{step}");
        }
        assert!(first, "no statements of the operator were given");
        bed.write("static-roles/app", &app()).unwrap();
        assert!(shown(&bed, "app").1, "{step}");
    }
}

#[test]
fn rotation_with_lost_reply_is_not_repeated() {
    let bed = with_static_role();
    bed.host.lose_reply("change-credential", Failure::new(FailureKind::TimedOut, "no reply"));
    let refused = bed.write("rotate-role/app", &json!({})).err().unwrap();
    assert_eq!(refused.kind, FailureKind::TimedOut);
    assert!(refused.message.contains("retries will continue in the background"), "{refused}");
    bed.host.steps();
    bed.run_guards().unwrap();
    assert!(!bed.host.steps().iter().any(|step| step.starts_with("change-credential")));
    assert_eq!(shown(&bed, "app"), ("Generated-Password-2".to_owned(), true));
    assert!(is_settled(&bed));
}

#[test]
fn refused_password_gives_way_to_fresh_password() {
    let bed = with_static_role();
    bed.host.advance(3_600);
    for _ in 0..2 {
        bed.host.refuse("change-credential", Failure::invalid("the password has no digit"));
    }
    bed.wake("rotate/app", 1).unwrap_err();
    bed.run_guards().unwrap_err();
    assert_eq!(shown(&bed, "app"), ("Generated-Password-1".to_owned(), true), "the old one holds");
    bed.run_guards().unwrap();
    let (password, works) = shown(&bed, "app");
    assert!(works && password == "Generated-Password-4", "{password}");
    assert!(is_settled(&bed));
}

#[test]
fn database_outage_blocks_only_rotation_and_zeroes_ttl() {
    let bed = with_static_role();
    bed.host.advance(3_600);
    bed.host.refuse("change-credential", unreachable());
    bed.wake("rotate/app", 1).unwrap_err();
    assert_eq!(bed.read("static-creds/app").unwrap().data["ttl"], 0);
    bed.write("static-roles/app", &json!({"rotation_period": "2h"})).unwrap();
    let refused = bed.write("rotate-role/app", &json!({})).err().unwrap();
    assert_eq!(refused.kind, FailureKind::Unavailable);
    assert!(refused.message.contains("continues now"), "{}", refused.message);
    bed.run_guards().unwrap();
    assert_eq!(shown(&bed, "app"), ("Generated-Password-3".to_owned(), true));
    assert_eq!(bed.read("static-creds/app").unwrap().data["ttl"], 7_200);
}

#[test]
fn role_removed_during_unfinished_rotation_leaves_nothing() {
    let bed = with_static_role();
    bed.host.refuse("change-credential", unreachable());
    bed.write("rotate-role/app", &json!({})).err().unwrap();
    let deleted = bed.delete("static-roles/app").unwrap();
    assert!(
        deleted.warnings.iter().any(|warning| warning.contains("given up")),
        "{:?}",
        deleted.warnings
    );
    bed.run_guards().unwrap();
    assert!(is_settled(&bed));
    bed.write("static-roles/app", &app()).unwrap();
    assert!(shown(&bed, "app").1);
}

#[test]
fn uncertain_creation_is_resolved_once_database_answers() {
    for (is_made, refuse) in [(true, "check-credential"), (false, "change-credential")] {
        let bed = with_account();
        bed.host.refuse(refuse, unreachable());
        bed.write("static-roles/app", &app()).err().unwrap();
        let again = bed.write("static-roles/app", &app()).err().unwrap();
        assert_eq!(again.kind, FailureKind::Unavailable, "{}", again.message);
        let role = json!({"db_name": "orders", "creation_statements": "CREATE {{name}}"});
        assert!(bed.write("roles/app", &role).is_err(), "the name of an unfinished role is taken");
        bed.run_guards().unwrap();
        assert_eq!(bed.host.stored("static-role/app").is_some(), is_made);
        assert!(is_settled(&bed));
        bed.write("static-roles/other", &app()).err().map_or_else(
            || assert!(!is_made, "the account was free"),
            |why| assert!(is_made && why.message.contains("\"app\" rotates"), "{why}"),
        );
    }
}

#[test]
fn same_candidate_is_reapplied_without_any_working_password() {
    let bed = with_static_role();
    bed.host.advance(3_600);
    // An operator changes the password, and the next rotation stays unfinished.
    bed.host.lose_reply("change-credential", unreachable());
    bed.wake("rotate/app", 1).unwrap_err();
    crate::fixture::account(&bed, "orders", "app");
    bed.run_guards().unwrap();
    assert_eq!(shown(&bed, "app"), ("Generated-Password-2".to_owned(), true));
}

#[test]
fn candidates_are_kept_and_few_without_working_password() {
    let bed = with_static_role();
    bed.host.refuse("change-credential", unreachable());
    bed.write("rotate-role/app", &json!({})).err().unwrap();
    crate::fixture::account(&bed, "orders", "app");
    for _ in 0..20 {
        bed.host.refuse("change-credential", Failure::invalid("the policy refuses it"));
        bed.run_guards().unwrap_err();
    }
    let older = bed.host.stored(GUARD).unwrap()["older"].as_array().unwrap().len();
    assert_eq!(older, 4, "the newest candidate is kept");
    bed.run_guards().unwrap();
    assert!(shown(&bed, "app").1 && is_settled(&bed));
}

#[test]
fn scheduled_rotation_past_window_waits_for_next_time() {
    let bed = with_account();
    let hourly = json!({
        "rotation_period": 0, "rotation_schedule": "0 * * * *", "rotation_window": 3_600,
    });
    let mut nightly = with(app(), hourly);
    nightly["rotation_schedule"] = json!("0 3 * * *");
    bed.write("static-roles/app", &nightly).unwrap();
    let due = bed.host.timer("rotate/app").unwrap();
    bed.host.advance((due - bed.host.now()) / 1_000 + 3_600);
    bed.host.steps();
    bed.wake("rotate/app", 1).unwrap();
    let steps = bed.host.steps();
    assert!(steps[0].starts_with("log rotation-missed role=app connection=orders"), "{steps:?}");
    assert_eq!(bed.host.timer("rotate/app"), Some(due + 86_400_000));
    assert_eq!(shown(&bed, "app").0, "Generated-Password-1");
    // The rotation happens within the window, even after failed attempts, and never after the
    // window.
    bed.host.advance(82_800 + 60);
    bed.host.refuse("change-credential", unreachable());
    bed.wake("rotate/app", 1).unwrap_err();
    bed.host.advance(3_600);
    bed.run_guards().unwrap();
    assert!(is_settled(&bed));
    assert_eq!(shown(&bed, "app"), ("Generated-Password-1".to_owned(), true));
    assert_eq!(bed.host.timer("rotate/app"), Some(due + 2 * 86_400_000));
}

#[test]
fn missed_schedule_without_window_is_caught_up_once() {
    let bed = with_account();
    let nightly = json!({"rotation_period": 0, "rotation_schedule": "0 3 * * *"});
    bed.write("static-roles/app", &with(app(), nightly)).unwrap();
    bed.host.advance(10 * 86_400);
    bed.wake("rotate/app", 1).unwrap();
    assert_eq!(shown(&bed, "app"), ("Generated-Password-2".to_owned(), true));
    assert!(bed.host.timer("rotate/app").unwrap() > bed.host.now());
}

#[test]
fn manual_rotation_restarts_period_and_keeps_schedule() {
    let bed = with_static_role();
    bed.host.advance(600);
    bed.write("rotate-role/app", &json!({})).unwrap();
    assert_eq!(bed.read("static-creds/app").unwrap().data["ttl"], 3_600);
    bed.write("static-roles/app", &json!({"rotation_schedule": "0 3 * * *"})).unwrap();
    let due = bed.host.timer("rotate/app");
    bed.host.advance(60);
    bed.write("rotate-role/app", &json!({})).unwrap();
    assert_eq!(bed.host.timer("rotate/app"), due);
    let unknown = bed.write("rotate-role/reader", &json!({})).err().unwrap();
    assert!(unknown.message.contains("no static role found"), "{}", unknown.message);
    assert_eq!(unknown.kind, FailureKind::InvalidRequest);
}

#[test]
fn role_no_longer_admitted_is_not_rotated() {
    let bed = with_static_role();
    bed.host.advance(3_600);
    bed.write("config/orders", &json!({"allowed_roles": "other"})).unwrap();
    assert_eq!(bed.wake("rotate/app", 1).unwrap_err().kind, FailureKind::PermissionDenied);
    let denied = bed.write("rotate-role/app", &json!({})).err().unwrap();
    assert_eq!(denied.kind, FailureKind::PermissionDenied);
    bed.write("config/orders", &json!({"allowed_roles": "app"})).unwrap();
    bed.wake("rotate/app", 2).unwrap();
    assert!(shown(&bed, "app").1);
}

#[test]
fn failure_and_log_contain_no_password() {
    let bed = with_static_role();
    bed.host.refuse("change-credential", Failure::invalid("statement 1 failed (SQLSTATE 42601)"));
    let refused = bed.write("rotate-role/app", &json!({})).err().unwrap();
    assert!(refused.message.contains("connection \"orders\""), "{}", refused.message);
    bed.run_guards().unwrap();
    let output = bed.host.steps().join("\n") + &refused.message;
    assert!(!output.contains("Generated"), "{output}");
}

/// Points the connection at another server, as a caller with a login at that server can.
fn lead_elsewhere(bed: &TestBed<Database>) {
    let elsewhere = json!({
        "connection_url": "postgres://{{username}}:{{password}}@thief:5432/orders",
        "password": "root-of-thief",
    });
    bed.write("config/orders", &elsewhere).unwrap();
    bed.host.steps();
}

fn checks(bed: &TestBed<Database>) -> usize {
    bed.host.steps().iter().filter(|step| step.starts_with("check-credential")).count()
}

#[test]
fn active_password_is_tried_at_no_other_server() {
    let back = with(orders(), json!({"allowed_roles": "*"}));
    for (moved, tried) in [(false, 2), (true, 1)] {
        let bed = with_static_role();
        if moved {
            lead_elsewhere(&bed);
        }
        bed.host.refuse("change-credential", Failure::invalid("the password has no digit"));
        bed.write("rotate-role/app", &json!({})).err().unwrap();
        bed.host.refuse("change-credential", Failure::invalid("the password has no digit"));
        bed.host.steps();
        bed.run_guards().unwrap_err();
        assert_eq!(checks(&bed), tried, "the new one, and the old one where it belongs");
        bed.write("config/orders", &back).unwrap();
        bed.run_guards().unwrap();
        assert!(shown(&bed, "app").1 && is_settled(&bed));
    }
}

#[test]
fn unfinished_rotation_waits_until_connection_leads_back() {
    let bed = with_static_role();
    bed.host.lose_reply("change-credential", Failure::new(FailureKind::TimedOut, "no reply"));
    bed.write("rotate-role/app", &json!({})).err().unwrap();
    lead_elsewhere(&bed);
    let waits = bed.run_guards().unwrap_err();
    assert_eq!(waits.kind, FailureKind::Unreachable, "the failure is retried");
    assert!(waits.message.contains("is for test://db:5432"), "{}", waits.message);
    assert_eq!(checks(&bed), 0, "the password that is in force was sent to another server");
    bed.write("config/orders", &with(orders(), json!({"allowed_roles": "*"}))).unwrap();
    bed.run_guards().unwrap();
    assert_eq!(shown(&bed, "app"), ("Generated-Password-2".to_owned(), true));
    assert!(is_settled(&bed));
}

#[test]
fn self_managed_password_goes_to_no_other_server() {
    let bed = with_account();
    let managed = json!({"self_managed": true, "username": "", "password": ""});
    bed.write("config/orders", &managed).unwrap();
    bed.write("static-roles/app", &with(app(), json!({"password": "first"}))).unwrap();
    lead_elsewhere(&bed);
    let refused = bed.write("rotate-role/app", &json!({})).err().unwrap();
    assert!(refused.message.contains("is for test://db:5432"), "{}", refused.message);
    let steps = bed.host.steps();
    assert!(!steps.iter().any(|step| step.starts_with("change-credential")), "{steps:?}");
    let back = with(orders(), json!({"allowed_roles": "*"}));
    bed.write("config/orders", &with(back, managed)).unwrap();
    bed.write("rotate-role/app", &json!({})).unwrap();
    assert!(shown(&bed, "app").1);
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
        let bed = with_static_role();
        let before = shown(&bed, "app").0;
        bed.host.advance(3_600);
        arrange(&bed, lost());
        for _ in 0..1_800 {
            bed.ring_due();
            assert!(bed.host.timer("rotate/app").is_some(), "no next time: {fate}");
            bed.host.advance(5);
        }
        let (password, works) = shown(&bed, "app");
        assert!(works && password != before, "{fate}");
    }
}
