//! Creation of static roles on the test bed, including accounts that cannot log in from here.

use crate::Database;
use crate::fixture::{app, shown, unreachable, with, with_account};
use bulkhead_sdk::testbed::TestBed;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::json;

const GUARD: &str = "intent/static/app";

fn is_settled(bed: &TestBed<Database>) -> bool {
    ["intent/static/app", "unfinished/static/app"].iter().all(|key| bed.host.stored(key).is_none())
        && bed.host.timer(GUARD).is_none()
}

/// Returns `true` if the account logs in with the password that `static-creds` shows.
fn in_force(bed: &TestBed<Database>) -> bool {
    shown(bed, "app").1
}

#[test]
fn unverifiable_password_is_kept_and_marked_unverified() {
    let bed = with_account();
    bed.host.fix_login_answer("app", None);
    let warnings = bed.write("static-roles/app", &app()).unwrap().warnings;
    assert!(warnings[0].contains("could not be verified"), "{warnings:?}");
    assert!(in_force(&bed) && is_settled(&bed));
    assert_eq!(bed.read("static-roles/app").unwrap().data["credential_verified"], false);
    let later_warnings = bed.read("static-creds/app").unwrap().warnings;
    assert!(later_warnings[0].contains("could not be verified"), "{later_warnings:?}");
    assert!(bed.host.steps().iter().any(|step| step.starts_with("log static-role-unverified")));
    let rotated = bed.write("rotate-role/app", &json!({})).unwrap().warnings;
    assert!(rotated[0].contains("could not be verified"), "{rotated:?}");
    assert!(in_force(&bed));
    bed.host.try_logins("app");
    assert!(bed.write("rotate-role/app", &json!({})).unwrap().warnings.is_empty());
    assert_eq!(bed.read("static-roles/app").unwrap().data["credential_verified"], true);
    assert!(bed.read("static-creds/app").unwrap().warnings.is_empty() && in_force(&bed));
}

#[test]
fn password_accepted_then_refused_is_kept_and_hidden() {
    let bed = with_account();
    bed.host.fix_login_answer("app", Some(false));
    let warnings = bed.write("static-roles/app", &app()).unwrap().warnings;
    assert!(warnings[0].contains("then refused a login"), "{warnings:?}");
    let password = bed.host.stored("static-role/app").unwrap()["held"]["password"].clone();
    assert_eq!(password, "Generated-Password-1");
    assert_eq!(bed.read("static-creds/app").err().unwrap().kind, FailureKind::Unavailable);
    bed.host.try_logins("app");
    bed.write("rotate-role/app", &json!({})).unwrap();
    assert_eq!(shown(&bed, "app"), ("Generated-Password-2".to_owned(), true));
}

/// A role keeps the last verified password until another password is verified: statements without
/// an effect leave the last verified password in force.
#[test]
fn last_verified_password_is_kept_beside_unverified_passwords() {
    let bed = with_account();
    bed.write("static-roles/app", &app()).unwrap();
    let earlier = || bed.host.stored("static-role/app").unwrap()["earlier"]["password"].clone();
    assert!(earlier().is_null());
    bed.host.fix_login_answer("app", None);
    for _ in 0..2 {
        bed.write("rotate-role/app", &json!({})).unwrap();
        assert_eq!(earlier(), "Generated-Password-1");
    }
    // An operator sets the earlier password again, and the database refuses the next change.
    bed.host.try_logins("app");
    crate::fixture::account_with(&bed, "orders", ("app", "Generated-Password-1"));
    for _ in 0..2 {
        bed.host.refuse("change-credential", Failure::invalid("the password has no digit"));
    }
    bed.write("rotate-role/app", &json!({})).err().unwrap();
    bed.run_guards().unwrap_err();
    assert_eq!(shown(&bed, "app"), ("Generated-Password-1".to_owned(), true));
    bed.run_guards().unwrap();
    assert!(in_force(&bed) && is_settled(&bed) && earlier().is_null());
}

#[test]
fn unverifiable_change_with_lost_answer_is_rolled_forward() {
    for (step, login) in
        [("change-credential", None), ("check-credential", None), ("check-credential", Some(false))]
    {
        let bed = with_account();
        bed.host.fix_login_answer("app", login);
        bed.host.lose_reply(step, unreachable());
        bed.write("static-roles/app", &app()).err().unwrap();
        assert!(bed.read("static-roles/app").is_err());
        bed.run_guards().unwrap();
        let password = bed.host.stored("static-role/app").unwrap()["held"]["password"].clone();
        assert_eq!(password, "Generated-Password-1", "{step}");
        assert!(is_settled(&bed), "{step}");
    }
}

#[test]
fn refused_change_is_forgotten_even_if_unverifiable() {
    let bed = with_account();
    bed.host.fix_login_answer("app", None);
    bed.host.refuse("change-credential", Failure::invalid("the password has no digit"));
    let refused = bed.write("static-roles/app", &app()).err().unwrap();
    assert!(refused.message.contains("no digit"), "{}", refused.message);
    assert!(bed.host.stored("static-role/app").is_none() && is_settled(&bed));
    bed.write("static-roles/app", &app()).unwrap();
}

/// A database that commits each statement may have kept the effect of the first statement.
#[test]
fn first_of_several_statements_may_change_password() {
    let several = [json!(["ALTER {{name}}", "GRANT it"]), json!("ALTER {{name}}; GRANT it")];
    for statements in several {
        let bed = with_account();
        bed.host.fix_login_answer("app", None);
        bed.host.lose_reply("change-credential", Failure::invalid("statement 2 failed"));
        let role = with(app(), json!({"rotation_statements": statements}));
        bed.write("static-roles/app", &role).err().unwrap();
        let again = bed.write("static-roles/app", &role).err().unwrap();
        assert_eq!(again.kind, FailureKind::Unavailable);
        assert!(again.message.contains("statement 2 failed"), "{}", again.message);
        bed.run_guards().unwrap();
        assert!(in_force(&bed) && is_settled(&bed));
    }
}

#[test]
fn unfinished_creation_ends_with_role_deletion() {
    let bed = with_account();
    bed.host.fix_login_answer("app", None);
    bed.host.lose_reply("change-credential", unreachable());
    bed.write("static-roles/app", &app()).err().unwrap();
    bed.delete("static-roles/app").unwrap();
    bed.run_guards().unwrap();
    assert!(bed.host.stored("static-role/app").is_none() && is_settled(&bed));
    bed.write("static-roles/other", &app()).unwrap();
}
