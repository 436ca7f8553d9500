//! Lent accounts that others renamed, moved, deleted or made again, or that `binddn` cannot see.
//!
//! This file prevents the end of a loan without a proof at the account itself: the borrower would
//! keep a password that is in force at another place of the directory.

use super::{Bed, check_out, status};
use crate::directory::report_contexts;
use crate::fixture::{configured, dn};
use bulkhead_sdk::ldap::{LdapFault, LdapFaultCode};
use bulkhead_sdk::testbed::{Flavour, Reply};
use bulkhead_sdk::{Failure, FailureKind, RevocationReason};
use serde_json::{Value, json};

const BOTH: [Flavour; 2] = [Flavour::ActiveDirectory, Flavour::OpenLdap];
const ELSEWHERE: &str = "CN=leaver,OU=leavers,DC=corp,DC=example";

/// Returns the attribute of ids, an id of nobody else, and an unreadable value.
fn id_of_others(flavour: Flavour) -> (&'static str, &'static str) {
    match flavour {
        Flavour::ActiveDirectory => ("objectGUID", "another-account!"),
        Flavour::OpenLdap => ("entryUUID", "6f9619ff-8b86-d011-b42d-00cf4fc99999"),
    }
}

/// Hides the id of an account.
fn hide_id(bed: &Bed, flavour: Flavour, name: &str) {
    bed.host.directory().set(&dn(name), id_of_others(flavour).0, "");
}

/// Returns a bed with the set `team` of `svc1`, which is lent.
fn lent(flavour: Flavour) -> (Bed, Reply) {
    let bed = configured(flavour);
    report_contexts(&bed.host, flavour == Flavour::ActiveDirectory, &["DC=corp,DC=example"]);
    lend(bed)
}

fn lend(bed: Bed) -> (Bed, Reply) {
    bed.host.directory().add("DC=corp,DC=example", "", &[("dc", "corp")]);
    bed.write("library/team", &json!({ "service_account_names": "svc1" })).unwrap();
    let lent = check_out(&bed);
    (bed, lent)
}

fn revoke(bed: &Bed, lent: &Reply) -> Result<(), Failure> {
    bed.revoke(lent.lease.as_deref().unwrap(), RevocationReason::Expired)
}

fn has(bed: &Bed, dn: &str, password: &Value) -> bool {
    bed.host.directory().has_password(dn, password.as_str().unwrap())
}

/// Asserts that the loan stays, with its lease, and that the status shows the reason.
fn assert_kept(bed: &Bed, lent: &Reply, why: &str) {
    let refused = revoke(bed, lent).unwrap_err();
    assert!(refused.message.contains(why), "{refused}");
    let shown = &status(bed)["svc1"];
    assert_eq!(shown["available"], false);
    assert_eq!(shown["last_error"], refused.message);
    assert!(shown["failing_since"].as_str().unwrap().ends_with('Z'), "{shown}");
    assert_eq!(bed.host.lease_tags().len(), 1, "the lease stays");
    assert!(!refused.message.contains(lent.data["password"].as_str().unwrap()));
}

/// Asserts that the loan ended, and that the account is not lent again.
fn assert_retired(bed: &Bed) {
    assert_eq!(status(bed), json!({"svc1": {"available": false}}));
    assert!(bed.host.lease_tags().is_empty());
    assert!(bed.write("library/team/check-out", &json!({})).is_err());
}

#[test]
fn relocated_account_gets_new_password_at_new_place() {
    for flavour in BOTH {
        for moved in [&dn("renamed"), "CN=svc1,OU=in,OU=people,DC=corp,DC=example", ELSEWHERE] {
            let (bed, lent) = lent(flavour);
            let (attribute, id) = id_of_others(flavour);
            bed.host.directory().rename(&dn("svc1"), moved);
            bed.host.directory().add(&dn("svc1"), "of-others", &[("cn", "svc1"), (attribute, id)]);
            revoke(&bed, &lent).unwrap();
            assert!(!has(&bed, moved, &lent.data["password"]), "{moved}");
            assert!(has(&bed, moved, &check_out(&bed).data["password"]), "{moved}");
            assert!(has(&bed, &dn("svc1"), &json!("of-others")), "{moved}");
            assert_eq!(bed.host.directory().failed_logins(&dn("svc1")), 0, "{moved}");
        }
    }
}

#[test]
fn account_moved_outside_searched_entries_stays_lent() {
    let bed = configured(Flavour::OpenLdap);
    let (bed, lent) = lend(bed);
    bed.host.directory().rename(&dn("svc1"), ELSEWHERE);
    assert_kept(&bed, &lent, "naming context");
    assert!(has(&bed, ELSEWHERE, &lent.data["password"]));
    report_contexts(&bed.host, false, &["DC=corp,DC=example"]);
    revoke(&bed, &lent).unwrap();
    assert!(!has(&bed, ELSEWHERE, &lent.data["password"]));
    assert_eq!(status(&bed), json!({"svc1": {"available": true}}), "the error is over");
}

#[test]
fn naming_context_invisible_to_binddn_ends_no_loan() {
    let (bed, lent) = lent(Flavour::OpenLdap);
    bed.host.directory().remove("DC=corp,DC=example");
    bed.host.directory().remove(&dn("svc1"));
    assert_kept(&bed, &lent, "DC=corp,DC=example");
}

#[test]
fn a_deleted_account_ends_its_loan() {
    for flavour in BOTH {
        let (bed, lent) = lent(flavour);
        bed.host.directory().remove(&dn("svc1"));
        revoke(&bed, &lent).unwrap();
        assert_retired(&bed);
        bed.write("library/team", &json!({ "service_account_names": "svc2" })).unwrap();
        assert_eq!(check_out(&bed).data["service_account_name"], "svc2");
    }
}

#[test]
fn account_recreated_by_others_is_never_touched() {
    for flavour in BOTH {
        let (bed, lent) = lent(flavour);
        let (attribute, id) = id_of_others(flavour);
        bed.host.directory().remove(&dn("svc1"));
        bed.host.directory().add(&dn("svc1"), "of-others", &[("cn", "svc1"), (attribute, id)]);
        revoke(&bed, &lent).unwrap();
        assert_retired(&bed);
        assert!(has(&bed, &dn("svc1"), &json!("of-others")));
        assert_eq!(bed.host.directory().failed_logins(&dn("svc1")), 0, "no login was tried");
    }
}

#[test]
fn an_account_among_invisible_accounts_stays_lent() {
    for flavour in BOTH {
        let (bed, lent) = lent(flavour);
        for name in ["svc1", "svc2", "svc3", "svc4"] {
            bed.host.directory().remove(&dn(name));
        }
        // A visible entry of another class shows no right to see accounts.
        let (attribute, id) = id_of_others(flavour);
        let group = [("cn", "group"), ("objectClass", "groupOfNames"), (attribute, id)];
        bed.host.directory().add(&dn("group"), "", &group);
        assert_kept(&bed, &lent, "no other account");
        bed.host.directory().set(&dn("group"), "objectClass", "person");
        revoke(&bed, &lent).unwrap();
        assert_retired(&bed);
    }
}

#[test]
fn an_account_that_another_search_finds_stays_lent() {
    let (bed, lent) = lent(Flavour::ActiveDirectory);
    for _ in 0..3 {
        let absent = LdapFault::new(LdapFaultCode::NotFound, "there is no such entry");
        bed.host.directory().refuse("ldap-search", absent);
    }
    assert_kept(&bed, &lent, "is not found at each server");
    revoke(&bed, &lent).unwrap();
    assert!(!has(&bed, &dn("svc1"), &lent.data["password"]));
}

#[test]
fn account_with_no_longer_readable_id_stays_lent() {
    for flavour in BOTH {
        let (bed, lent) = lent(flavour);
        hide_id(&bed, flavour, "svc1");
        bed.host.directory().set_password(&dn("svc1"), "of-the-borrower");
        assert_kept(&bed, &lent, "let binddn read entryUUID or objectGUID");
        assert!(has(&bed, &dn("svc1"), &json!("of-the-borrower")));
    }
}

#[test]
fn account_without_id_is_not_taken_for_deleted() {
    for flavour in BOTH {
        let bed = configured(flavour);
        report_contexts(&bed.host, flavour == Flavour::ActiveDirectory, &["DC=corp,DC=example"]);
        hide_id(&bed, flavour, "svc1");
        let (bed, lent) = lend(bed);
        bed.host.directory().rename(&dn("svc1"), ELSEWHERE);
        assert_kept(&bed, &lent, "neither entryUUID nor objectGUID");
        assert!(has(&bed, ELSEWHERE, &lent.data["password"]));
        bed.host.directory().rename(ELSEWHERE, &dn("svc1"));
        revoke(&bed, &lent).unwrap();
        assert!(!has(&bed, &dn("svc1"), &lent.data["password"]));
    }
}

#[test]
fn newly_readable_id_is_recorded_and_followed() {
    for flavour in BOTH {
        let bed = configured(flavour);
        report_contexts(&bed.host, flavour == Flavour::ActiveDirectory, &["DC=corp,DC=example"]);
        hide_id(&bed, flavour, "svc1");
        let set = json!({ "service_account_names": "svc1" });
        bed.host.directory().add("DC=corp,DC=example", "", &[("dc", "corp")]);
        let answer = bed.write("library/team", &set).unwrap();
        assert!(answer.warnings[0].contains("\"svc1\""), "{:?}", answer.warnings);
        let (attribute, id) = id_of_others(flavour);
        bed.host.directory().set(&dn("svc1"), attribute, id);
        revoke(&bed, &check_out(&bed)).unwrap();
        bed.host.directory().rename(&dn("svc1"), ELSEWHERE);
        let lent = check_out(&bed);
        revoke(&bed, &lent).unwrap();
        assert!(!has(&bed, ELSEWHERE, &lent.data["password"]), "{flavour:?}");
        // The account is one account under its old and its new id.
        bed.host.directory().rename(ELSEWHERE, &dn("renamed"));
        let role = json!({ "service_account_name": dn("renamed") });
        let refused = bed.write("roles/build", &role).err().unwrap();
        assert!(refused.message.contains("managed by set \"team\""), "{refused}");
        bed.delete("library/team").unwrap();
        bed.write("roles/build", &role).unwrap();
    }
}

#[test]
fn status_shows_last_error_until_loan_end() {
    let (bed, lent) = lent(Flavour::ActiveDirectory);
    bed.host.directory().take_down("ldaps://dc1.corp.example");
    assert_eq!(revoke(&bed, &lent).unwrap_err().kind, FailureKind::Unreachable);
    let first = status(&bed)["svc1"].clone();
    assert!(first["last_error"].as_str().unwrap().contains("no server answers"), "{first}");
    bed.host.directory().bring_up("ldaps://dc1.corp.example");
    bed.host.advance(60);
    let unwilling = LdapFault {
        result_code: Some(53),
        ..LdapFault::new(LdapFaultCode::RefusedChange, "unwilling")
    };
    bed.host.directory().refuse("ldap-modify", unwilling);
    revoke(&bed, &lent).unwrap_err();
    let second = status(&bed)["svc1"].clone();
    assert!(second["last_error"].as_str().unwrap().contains("unwilling"), "{second}");
    assert_eq!(second["failing_since"], first["failing_since"]);
    revoke(&bed, &lent).unwrap();
    assert_eq!(status(&bed), json!({"svc1": {"available": true}}));
}

#[test]
fn interrupted_check_in_of_moved_account_stays_open() {
    let bed = configured(Flavour::OpenLdap);
    let (bed, lent) = lend(bed);
    bed.host.die_after("checkpoint");
    revoke(&bed, &lent).unwrap_err();
    bed.host.directory().rename(&dn("svc1"), ELSEWHERE);
    let refused = bed.run_guards().unwrap_err();
    assert!(refused.message.contains("naming context"), "{refused}");
    assert_eq!(status(&bed)["svc1"]["last_error"], refused.message);
    report_contexts(&bed.host, false, &["DC=corp,DC=example"]);
    bed.run_guards().unwrap();
    assert!(!has(&bed, ELSEWHERE, &lent.data["password"]));
    assert_eq!(status(&bed), json!({"svc1": {"available": true}}));
}

#[test]
fn interrupted_check_in_attempts_no_foreign_account_login() {
    for flavour in BOTH {
        let (bed, lent) = lent(flavour);
        bed.host.die_after("checkpoint");
        revoke(&bed, &lent).unwrap_err();
        let (attribute, id) = id_of_others(flavour);
        bed.host.directory().remove(&dn("svc1"));
        bed.host.directory().add(&dn("svc1"), "of-others", &[("cn", "svc1"), (attribute, id)]);
        bed.run_guards().unwrap();
        revoke(&bed, &lent).unwrap();
        assert_retired(&bed);
        assert!(has(&bed, &dn("svc1"), &json!("of-others")));
        assert_eq!(bed.host.directory().failed_logins(&dn("svc1")), 0, "{flavour:?}");
    }
}
