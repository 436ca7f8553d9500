//! Writes of the connection after a rotation: the password of the rotation is replaced only by one
//! that is proven, and is kept for its servers.

use super::{elsewhere, is_settled, logins, rooted, stored};
use crate::Database;
use crate::fixture::{account_with, orders, with};
use bulkhead_sdk::testbed::{Reply, TestBed};
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

/// Returns a test bed whose connection has a password that a rotation made.
fn rotated() -> TestBed<Database> {
    let bed = rooted();
    bed.write("config/orders", &json!({"rotation_period": 0})).unwrap();
    bed.write("rotate-root/orders", &json!({})).unwrap();
    assert_eq!(stored(&bed), ("Generated-Password-1".to_owned(), true));
    bed.host.steps();
    bed
}

/// Writes the connection with a password that the database does not prove now.
fn write_unproven(bed: &TestBed<Database>, password: &str) -> Reply {
    bed.host.refuse("check-credential", Failure::new(FailureKind::Unreachable, "no answer"));
    let unproven = json!({"password": password, "verify_connection": false});
    bed.write("config/orders", &unproven).unwrap()
}

/// Writes the connection, and asserts that the engine then finds the password of the rotation.
fn write_finds_kept(bed: &TestBed<Database>, fields: &Value) {
    bed.write("config/orders", fields).unwrap();
    bed.run_guards().unwrap();
    assert_eq!(stored(bed), ("Generated-Password-1".to_owned(), true));
}

#[test]
fn first_password_does_not_replace_rotated_password() {
    for is_verified in [true, false] {
        let bed = rotated();
        bed.write("config/orders", &json!({"verify_connection": is_verified})).unwrap();
        let refused = bed.write("config/orders", &orders()).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        let says = "password is not the present password of user \"root\", and the password \
                    made by a rotation is: leave password out";
        assert!(refused.message.contains(says), "{}", refused.message);
        assert_eq!(stored(&bed), ("Generated-Password-1".to_owned(), true));
        let repeated = json!({"password": "Generated-Password-1"});
        assert!(bed.write("config/orders", &repeated).unwrap().warnings.is_empty());
    }
}

#[test]
fn rotated_password_is_replaced_by_force() {
    let bed = rotated();
    let forced = json!({"password": "soon", "verify_connection": false, "force": true});
    assert!(bed.write("config/orders", &forced).unwrap().warnings.is_empty());
    assert!(is_settled(&bed), "nothing looks for the former password");
    assert_eq!(stored(&bed).0, "soon");
}

#[test]
fn working_password_replaces_rotated_password() {
    let bed = rotated();
    account_with(&bed, "orders", ("root", "of-the-operator"));
    let written = bed.write("config/orders", &json!({"password": "of-the-operator"})).unwrap();
    assert!(written.warnings.is_empty(), "{:?}", written.warnings);
    assert!(is_settled(&bed));
    assert_eq!(stored(&bed), ("of-the-operator".to_owned(), true));
}

#[test]
fn unproven_password_keeps_rotated_password_for_trial() {
    let bed = rotated();
    let written = write_unproven(&bed, "hunter2-of-root");
    assert!(written.warnings[0].contains("could not be proven"), "{:?}", written.warnings);
    bed.run_guards().unwrap();
    assert_eq!(stored(&bed), ("Generated-Password-1".to_owned(), true), "it was found in force");
    assert!(is_settled(&bed));

    let bed = rotated();
    account_with(&bed, "orders", ("root", "of-the-operator"));
    write_unproven(&bed, "of-the-operator");
    bed.run_guards().unwrap();
    assert_eq!(stored(&bed), ("of-the-operator".to_owned(), true), "the given one logs in");
    assert!(is_settled(&bed));
    bed.host.steps();
    bed.write("config/orders", &json!({"max_open_connections": 3})).unwrap();
    assert_eq!(logins(&bed), 0, "the former password is forgotten");
}

#[test]
fn two_refused_passwords_wait_for_a_later_write() {
    let bed = rotated();
    account_with(&bed, "orders", ("root", "of-another-hand"));
    let wrong = json!({"password": "hunter2-of-root", "verify_connection": false});
    let written = bed.write("config/orders", &wrong).unwrap();
    assert!(written.warnings[0].contains("refuses user \"root\""), "{:?}", written.warnings);
    assert!(is_settled(&bed), "refused logins lock accounts");
    account_with(&bed, "orders", ("root", "Generated-Password-1"));
    write_finds_kept(&bed, &json!({"max_open_connections": 3}));
}

#[test]
fn rotated_password_waits_for_its_servers() {
    let bed = rotated();
    let written = bed.write("config/orders", &elsewhere("root-of-other")).unwrap();
    assert!(written.warnings[0].contains("user \"root\" is kept"), "{:?}", written.warnings);
    bed.host.steps();
    bed.run_guards().unwrap();
    write_finds_kept(&bed, &orders());
}

#[test]
fn kept_password_reaches_no_server_with_other_proof() {
    let bed = rotated();
    let url = json!({"connection_url": orders()["connection_url"].clone()});
    let trusting = with(elsewhere("x"), url);
    let trusting = with(trusting, json!({"tls_server_name": "of-the-thief"}));
    bed.write("config/orders", &trusting).unwrap();
    bed.host.steps();
    bed.run_guards().unwrap();
    assert_eq!((logins(&bed), stored(&bed).0.as_str()), (0, "x"));
}

#[test]
fn unverifiable_passwords_stay_kept() {
    let bed = rotated();
    bed.host.fix_login_answer("root", None);
    let unproven = json!({"password": "hunter2-of-root", "verify_connection": false});
    bed.write("config/orders", &unproven).unwrap();
    bed.run_guards().unwrap();
    assert!(is_settled(&bed));
    assert_eq!(stored(&bed).0, "hunter2-of-root");
    // A server that asks for no password proves none either.
    bed.host.fix_login_answer("root", Some(true));
    bed.write("config/orders", &json!({"max_open_connections": 3})).unwrap();
    bed.run_guards().unwrap();
    bed.host.try_logins("root");
    write_finds_kept(&bed, &json!({"max_open_connections": 4}));
}

#[test]
fn server_without_password_request_proves_no_password() {
    let bed = rotated();
    bed.host.fix_login_answer("root", Some(true));
    let first = json!({"password": "hunter2-of-root"});
    let written = bed.write("config/orders", &first).unwrap();
    assert!(written.warnings[0].contains("neither is proven"), "{:?}", written.warnings);
    assert!(is_settled(&bed));
    bed.host.try_logins("root");
    write_finds_kept(&bed, &json!({"verify_connection": false}));
}

#[test]
fn passwords_that_are_all_refused_are_tried_once() {
    let bed = rotated();
    write_unproven(&bed, "hunter2-of-root");
    account_with(&bed, "orders", ("root", "of-another-hand"));
    bed.run_guards().unwrap();
    assert!(is_settled(&bed), "refused logins lock accounts");
    account_with(&bed, "orders", ("root", "Generated-Password-1"));
    write_finds_kept(&bed, &json!({"max_open_connections": 3}));
}

#[test]
fn a_forced_password_ends_the_search_for_another() {
    let bed = rotated();
    write_unproven(&bed, "hunter2-of-root");
    let forced = json!({"password": "soon", "force": true});
    bed.write("config/orders", &forced).unwrap();
    bed.run_guards().unwrap();
    assert!(is_settled(&bed));
    assert_eq!(stored(&bed).0, "soon", "the kept password works, and was not asked for");
}
