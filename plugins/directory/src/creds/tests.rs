//! Passwords of roles: the reasons for a rotation, and crashes that must lose no password.

use crate::Directory;
use crate::fixture::{ENGINE_PASSWORD, configured, dn, with_role, works};
use bulkhead_sdk::ldap::{LdapFault, LdapFaultCode};
use bulkhead_sdk::testbed::{Flavour, Reply, TestBed};
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

const BOTH: [Flavour; 2] = [Flavour::ActiveDirectory, Flavour::OpenLdap];

fn creds(bed: &TestBed<Directory>) -> Reply {
    bed.read("creds/build").unwrap()
}

fn keys(reply: &Reply) -> Vec<&str> {
    reply.data.keys().map(String::as_str).collect()
}

/// Returns the stored password of the role's account.
fn current_password(bed: &TestBed<Directory>) -> Value {
    let role = bed.host.stored("role/build").unwrap();
    let key = format!("account/{}", role["account"].as_str().unwrap());
    bed.host.stored(&key).unwrap()["current"].clone()
}

fn open_intents(bed: &TestBed<Directory>) -> bool {
    let role = bed.host.stored("role/build").unwrap();
    bed.host.stored(&format!("intent/account/{}", role["account"].as_str().unwrap())).is_some()
}

#[test]
fn first_read_rotates_and_password_stays_until_due() {
    for flavour in BOTH {
        let bed = with_role(flavour);
        let first = creds(&bed);
        assert_eq!(keys(&first), ["current_password", "username"]);
        assert_eq!(first.data["username"], "svc1");
        assert!(first.lease.is_none());
        assert!(works(&bed, "svc1", &first.data["current_password"]));
        bed.host.advance(600);
        assert_eq!(creds(&bed).data, first.data, "a password older than its ttl is due");
        bed.host.advance(1);
        let second = creds(&bed);
        assert_eq!(keys(&second), ["current_password", "last_password", "username"]);
        assert_eq!(second.data["last_password"], first.data["current_password"]);
        assert!(works(&bed, "svc1", &second.data["current_password"]));
    }
}

#[test]
fn candidate_is_committed_before_change_and_proven_after() {
    let bed = with_role(Flavour::ActiveDirectory);
    creds(&bed);
    let steps = bed.host.steps();
    let at = |word: &str| steps.iter().position(|step| step.starts_with(word)).unwrap();
    assert!(at("guard intent/account/guid-") < at("checkpoint"), "{steps:?}");
    assert!(at("checkpoint") < at("ldap-modify"), "{steps:?}");
    assert!(at("ldap-modify") < at("ldap-bind"), "{steps:?}");
    assert!(at("ldap-bind") < at("cancel intent"), "{steps:?}");
}

#[test]
fn foreign_change_rotates_account_and_hides_old_password() {
    for flavour in BOTH {
        let bed = with_role(flavour);
        let first = creds(&bed);
        bed.host.advance(6);
        bed.host.directory().set_password(&dn("svc1"), "by-another");
        let second = creds(&bed);
        assert_eq!(
            keys(&second),
            ["current_password", "username"],
            "a password set by others is not shown"
        );
        assert_ne!(second.data["current_password"], first.data["current_password"]);
        assert!(works(&bed, "svc1", &second.data["current_password"]));
        assert_eq!(creds(&bed).data, second.data);
    }
}

#[test]
fn clock_ahead_within_tolerance_rotates_nothing() {
    let bed = with_role(Flavour::ActiveDirectory);
    let first = creds(&bed);
    bed.host.advance(5);
    bed.host
        .directory()
        .set_password(&dn("svc1"), first.data["current_password"].as_str().unwrap());
    assert_eq!(creds(&bed).data, first.data);
    bed.write("config", &json!({"last_rotation_tolerance": 4})).unwrap();
    assert_ne!(creds(&bed).data, first.data);
}

#[test]
fn late_report_of_own_change_is_not_foreign() {
    let bed = with_role(Flavour::ActiveDirectory);
    let key = "account/guid-677569642d6f662d737663312d2d2d2d";
    let first = creds(&bed);
    let mut account = bed.host.stored(key).unwrap();
    let ahead = account["rotated"].as_u64().unwrap() + 3_600_000;
    // The controller's clock was an hour ahead when the engine changed the password, and still is.
    account["directory_rotated"] = json!(ahead);
    let host: &dyn bulkhead_sdk::Host = &bed.host;
    host.storage().put_bytes(key, serde_json::to_vec(&account).unwrap()).unwrap();
    host.storage().checkpoint().unwrap();
    let ticks = (ahead + 11_644_473_600_000) * 10_000;
    bed.host.directory().set(&dn("svc1"), "pwdLastSet", &ticks.to_string());
    assert_eq!(creds(&bed).data, first.data);
}

#[test]
fn renamed_and_moved_account_is_still_recognized() {
    for flavour in BOTH {
        let bed = with_role(flavour);
        creds(&bed);
        let moved = "CN=svc1-new,OU=leavers,OU=people,DC=corp,DC=example";
        bed.host.directory().rename(&dn("svc1"), moved);
        bed.host.directory().set(moved, "userPrincipalName", "other@corp.example");
        bed.host.advance(601);
        let second = creds(&bed);
        let password = second.data["current_password"].as_str().unwrap();
        assert!(bed.host.directory().has_password(moved, password));
    }
}

#[test]
fn other_entry_in_place_of_account_is_untouched() {
    let bed = with_role(Flavour::ActiveDirectory);
    creds(&bed);
    bed.host.directory().remove(&dn("svc1"));
    let other = [("cn", "svc1"), ("objectGUID", "another-of-svc1!")];
    bed.host.directory().add(&dn("svc1"), "of-another", &other);
    bed.host.advance(601);
    let refused = bed.read("creds/build").err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    assert!(refused.message.contains("not in the directory any more"), "{refused}");
    assert!(bed.host.directory().has_password(&dn("svc1"), "of-another"));
    assert!(bed.read("roles/build").is_ok(), "the role can be read");
}

#[test]
fn manual_rotation_does_not_wait_for_ttl() {
    let bed = with_role(Flavour::ActiveDirectory);
    let first = creds(&bed);
    assert!(bed.write("rotate-role/build", &json!({})).unwrap().data.is_empty());
    let second = creds(&bed);
    assert_eq!(second.data["last_password"], first.data["current_password"]);
    let unknown = bed.write("rotate-role/none", &json!({})).err().unwrap();
    assert!(unknown.message.contains("there is no role \"none\""), "{unknown}");
    assert_eq!(bed.read("creds/none").err().unwrap(), Failure::absent());
}

#[test]
fn refused_password_changes_nothing_and_is_not_retried() {
    let bed = with_role(Flavour::ActiveDirectory);
    let first = creds(&bed);
    bed.host.advance(601);
    bed.host.directory().ask_for_length(100);
    let refused = bed.read("creds/build").err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    assert!(!open_intents(&bed));
    assert_eq!(bed.run_guards().unwrap(), 0);
    assert!(works(&bed, "svc1", &first.data["current_password"]));
    bed.host.directory().ask_for_length(14);
    assert!(works(&bed, "svc1", &creds(&bed).data["current_password"]));
}

#[test]
fn process_death_anywhere_leaves_stored_password_in_force() {
    for flavour in BOTH {
        let change = match flavour {
            Flavour::ActiveDirectory => "ldap-modify",
            Flavour::OpenLdap => "ldap-change-password",
        };
        for is_first in [true, false] {
            for step in ["guard", "checkpoint", change, "ldap-bind", "cancel", "delete"] {
                let bed = with_role(flavour);
                if !is_first {
                    creds(&bed);
                    bed.host.advance(601);
                }
                bed.host.die_after(step);
                bed.read("creds/build").err().unwrap();
                if open_intents(&bed) {
                    let busy = bed.read("creds/build").err().unwrap();
                    assert_eq!(busy.kind, FailureKind::Unavailable, "{step}");
                    let warned = bed.write("rotate-role/build", &json!({})).unwrap();
                    assert!(warned.warnings[0].contains("in progress"), "{:?}", warned.warnings);
                }
                bed.run_guards().unwrap();
                assert!(!open_intents(&bed), "{flavour:?} {step}");
                let now = creds(&bed);
                assert!(works(&bed, "svc1", &now.data["current_password"]), "{flavour:?} {step}");
                assert!(bed.host.directory().failed_logins(&dn("svc1")) <= 1, "{step}");
            }
        }
    }
}

#[test]
fn lost_password_change_answer_is_verified_without_repetition() {
    let bed = with_role(Flavour::ActiveDirectory);
    bed.host.lose_reply("ldap-modify", Failure::new(FailureKind::TimedOut, "no answer"));
    assert_eq!(bed.read("creds/build").err().unwrap().kind, FailureKind::TimedOut);
    assert!(open_intents(&bed));
    bed.host.steps();
    bed.run_guards().unwrap();
    assert!(!bed.host.steps().iter().any(|step| step.starts_with("ldap-modify")));
    assert!(works(&bed, "svc1", &current_password(&bed)));
}

#[test]
fn directory_outage_is_waited_for_without_loss() {
    let bed = with_role(Flavour::ActiveDirectory);
    bed.host.lose_reply("ldap-modify", Failure::new(FailureKind::TimedOut, "no answer"));
    bed.read("creds/build").err().unwrap();
    bed.host.directory().take_down("ldaps://dc1.corp.example");
    assert_eq!(bed.run_guards().unwrap_err().kind, FailureKind::Unreachable);
    assert!(open_intents(&bed));
    bed.host.directory().bring_up("ldaps://dc1.corp.example");
    bed.run_guards().unwrap();
    assert!(works(&bed, "svc1", &creds(&bed).data["current_password"]));
}

#[test]
fn locked_account_gets_same_candidate_again() {
    let bed = with_role(Flavour::ActiveDirectory);
    bed.host.lose_reply("ldap-modify", Failure::new(FailureKind::TimedOut, "no answer"));
    bed.read("creds/build").err().unwrap();
    bed.host.directory().lock(&dn("svc1"), true);
    bed.run_guards().unwrap();
    assert!(!open_intents(&bed));
    assert!(works(&bed, "svc1", &current_password(&bed)));
}

#[test]
fn controller_still_accepting_old_password_causes_no_mistake() {
    let bed = with_role(Flavour::ActiveDirectory);
    creds(&bed);
    bed.host.directory().take_old_passwords();
    bed.host.advance(601);
    bed.host.die_after("ldap-modify");
    bed.read("creds/build").err().unwrap();
    bed.run_guards().unwrap();
    assert!(works(&bed, "svc1", &current_password(&bed)));
}

#[test]
fn the_schema_of_another_server_writes_nothing() {
    let bed = with_role(Flavour::ActiveDirectory);
    bed.write("config", &json!({"schema": "openldap"})).unwrap();
    let refused = bed.read("creds/build").err().unwrap();
    assert!(refused.message.contains("use schema ad"), "{refused}");
    assert!(works(&bed, "svc1", &json!("first-of-svc1")));
    assert_eq!(bed.host.directory().text(&dn("svc1"), "userPassword"), None);
}

#[test]
fn role_deleted_during_open_rotation_is_not_rotated() {
    let bed = with_role(Flavour::ActiveDirectory);
    bed.host.die_after("checkpoint");
    bed.read("creds/build").err().unwrap();
    bed.delete("roles/build").unwrap();
    bed.host.steps();
    bed.run_guards().unwrap();
    assert!(!bed.host.steps().iter().any(|step| step.starts_with("ldap-modify")));
    assert!(works(&bed, "svc1", &json!("first-of-svc1")));
}

#[test]
fn accounts_rotate_themselves_by_their_present_password() {
    for flavour in BOTH {
        let bed = configured(flavour);
        let own = json!({"self_rotation": true, "binddn": "", "bindpass": ""});
        bed.write("config", &own).unwrap();
        let role =
            |password: &str| json!({"service_account_name": dn("svc1"), "password": password});
        for wrong in ["guess", ""] {
            bed.write("roles/build", &role(wrong)).err().unwrap();
        }
        bed.write("roles/build", &role("first-of-svc1")).unwrap();
        let first = creds(&bed);
        assert!(works(&bed, "svc1", &first.data["current_password"]), "{flavour:?}");
        assert_eq!(first.data["last_password"], "first-of-svc1");
        bed.host.advance(601);
        bed.host.die_after(match flavour {
            Flavour::ActiveDirectory => "ldap-modify",
            Flavour::OpenLdap => "ldap-change-password",
        });
        bed.read("creds/build").err().unwrap();
        bed.run_guards().unwrap();
        assert!(works(&bed, "svc1", &creds(&bed).data["current_password"]), "{flavour:?}");
        let set = bed.write("library/team", &json!({"service_account_names": "svc2"}));
        assert!(set.err().unwrap().message.contains("a set needs binddn"));
    }
}

#[test]
fn self_rotated_password_goes_to_no_other_server() {
    let bed = configured(Flavour::ActiveDirectory);
    let own = json!({"self_rotation": true, "binddn": "", "bindpass": ""});
    bed.write("config", &own).unwrap();
    let role = json!({"service_account_name": dn("svc1"), "password": "first-of-svc1"});
    bed.write("roles/build", &role).unwrap();
    bed.write("config", &json!({"url": "ldaps://thief.example"})).unwrap();
    bed.host.steps();
    for body in [json!({}), json!({"ttl": "5m"})] {
        let outcome = match body.get("ttl") {
            Some(_) => bed.write("roles/build", &body).map(drop),
            None => bed.read("creds/build").map(drop),
        };
        let refused = outcome.err().unwrap();
        assert!(refused.message.contains("is not sent to the servers"), "{refused}");
    }
    let steps = bed.host.steps();
    assert!(!steps.iter().any(|step| step.starts_with("ldap")), "{steps:?}");
    bed.write("config", &json!({"url": "ldaps://dc2.corp.example,ldaps://dc1.corp.example"}))
        .unwrap();
    assert!(works(&bed, "svc1", &creds(&bed).data["current_password"]));
}

#[test]
fn change_begun_at_other_server_begins_anew() {
    let bed = with_role(Flavour::ActiveDirectory);
    bed.host.die_after("ldap-modify");
    bed.read("creds/build").err().unwrap();
    let moved = json!({"url": "ldaps://dc2.corp.example", "bindpass": ENGINE_PASSWORD});
    bed.write("config", &moved).unwrap();
    bed.host.steps();
    bed.run_guards().unwrap();
    let steps = bed.host.steps();
    let binds = steps.iter().filter(|step| step.starts_with("ldap-bind")).count();
    assert_eq!(binds, 1, "the fresh password is proven, and no other is tried: {steps:?}");
    assert!(works(&bed, "svc1", &current_password(&bed)) && !open_intents(&bed));
}

#[test]
fn failures_contain_no_password() {
    let bed = with_role(Flavour::ActiveDirectory);
    let first = creds(&bed);
    let password = first.data["current_password"].as_str().unwrap().to_owned();
    bed.host.advance(601);
    let busy = LdapFault {
        result_code: Some(53),
        ..LdapFault::new(LdapFaultCode::RefusedChange, "unwilling")
    };
    bed.host.directory().refuse("ldap-modify", busy);
    let refused = bed.read("creds/build").err().unwrap();
    assert!(refused.message.contains("unwilling") && !refused.message.contains(&password));
    assert!(!bed.host.steps().join("\n").contains(&password));
}
