//! The rotation of `bindpass`, and crashes during a rotation.

use crate::Directory;
use crate::fixture::{ENGINE, configured, empty};
use bulkhead_sdk::testbed::{Flavour, TestBed};
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::json;

const BOTH: [Flavour; 2] = [Flavour::ActiveDirectory, Flavour::OpenLdap];

/// Returns true if the stored password is in force.
fn holds(bed: &TestBed<Directory>) -> bool {
    let stored = bed.host.stored("config").unwrap()["bindpass"].as_str().unwrap().to_owned();
    bed.host.directory().has_password(ENGINE, &stored)
}

#[test]
fn root_rotation_makes_password_known_only_to_engine() {
    for flavour in BOTH {
        let bed = configured(flavour);
        assert!(bed.write("rotate-root", &json!({})).unwrap().warnings.is_empty());
        assert!(holds(&bed) && !bed.host.directory().has_password(ENGINE, "secret-of-engine"));
        let shown = bed.read("config").unwrap().data;
        assert_eq!(shown["last_bind_password_rotation"], "2030-01-01T00:00:00Z");
        assert!(bed.read("rotate-root").unwrap().data.is_empty(), "GET rotates too");
        assert!(holds(&bed));
        bed.write("roles/build", &json!({"service_account_name": "svc1"})).unwrap();
        bed.read("creds/build").unwrap();
    }
}

#[test]
fn process_death_anywhere_leaves_stored_password_in_force() {
    for flavour in BOTH {
        let change = match flavour {
            Flavour::ActiveDirectory => "ldap-modify",
            Flavour::OpenLdap => "ldap-change-password",
        };
        for step in ["guard", "checkpoint", change, "ldap-bind", "cancel", "put"] {
            let bed = configured(flavour);
            bed.host.die_after(step);
            bed.write("rotate-root", &json!({})).err().unwrap();
            if bed.host.stored("intent/root").is_some() {
                let warned = bed.write("rotate-root", &json!({})).unwrap();
                assert!(warned.warnings[0].contains("in progress"), "{:?}", warned.warnings);
            }
            bed.run_guards().unwrap();
            assert!(holds(&bed), "{flavour:?} {step}");
            assert_eq!(bed.host.stored("intent/root"), None, "{step}");
            bed.write("rotate-root", &json!({})).unwrap();
            assert!(holds(&bed), "{flavour:?} {step}");
        }
    }
}

#[test]
fn a_refused_change_leaves_everything_as_it_was() {
    let bed = configured(Flavour::ActiveDirectory);
    bed.host.directory().ask_for_length(100);
    assert_eq!(
        bed.write("rotate-root", &json!({})).err().unwrap().kind,
        FailureKind::InvalidRequest
    );
    assert!(holds(&bed) && bed.host.stored("intent/root").is_none());
}

#[test]
fn login_found_by_domain_must_be_one_entry() {
    let bed = configured(Flavour::ActiveDirectory);
    let directory = bed.host.directory();
    directory.set(ENGINE, "userPrincipalName", "engine@corp.example");
    bed.write("config", &json!({"binddn": "engine", "upndomain": "corp.example"})).unwrap();
    bed.write("rotate-root", &json!({})).unwrap();
    assert!(holds(&bed));
    directory.set(ENGINE, "userPrincipalName", "other@corp.example");
    let refused = bed.write("rotate-root", &json!({})).err().unwrap();
    assert!(refused.kind == FailureKind::InvalidRequest, "{refused}");
    assert!(holds(&bed));
}

#[test]
fn candidate_never_replaces_password_of_another_login() {
    let bed = configured(Flavour::ActiveDirectory);
    bed.host.lose_reply("ldap-modify", Failure::new(FailureKind::TimedOut, "no answer"));
    bed.write("rotate-root", &json!({})).err().unwrap();
    bed.host.directory().add_administrator("CN=next,OU=people,DC=corp,DC=example", "of-next");
    let next = json!({"binddn": "CN=next,OU=people,DC=corp,DC=example", "bindpass": "of-next"});
    bed.write("config", &next).unwrap();
    bed.run_guards().unwrap();
    assert_eq!(bed.host.stored("config").unwrap()["bindpass"], "of-next");
    assert_eq!(bed.host.stored("intent/root"), None);
}

/// Returns the password of the engine's login that is stored as `bindpass`.
fn bindpass(bed: &TestBed<Directory>) -> String {
    bed.host.stored("config").unwrap()["bindpass"].as_str().unwrap().to_owned()
}

#[test]
fn engine_only_candidate_outlives_configuration_leading_elsewhere() {
    let bed = configured(Flavour::ActiveDirectory);
    bed.host.lose_reply("ldap-modify", Failure::new(FailureKind::TimedOut, "no answer"));
    bed.write("rotate-root", &json!({})).err().unwrap();
    let elsewhere = json!({"url": "ldaps://dc2.corp.example", "bindpass": "of-another-engine"});
    bed.write("config", &elsewhere).unwrap();
    bed.run_guards().unwrap();
    assert_eq!(
        (bed.host.stored("intent/root"), bindpass(&bed).as_str()),
        (None, "of-another-engine")
    );
    let back = json!({"url": "ldaps://dc1.corp.example", "bindpass": "unknown to everybody"});
    bed.write("config", &back).unwrap();
    bed.run_guards().unwrap();
    assert!(holds(&bed), "the candidate is in force");
    bed.write("rotate-root", &json!({})).unwrap();
    assert!(holds(&bed));
}

#[test]
fn kept_password_reaches_no_server_with_other_proof() {
    let bed = configured(Flavour::ActiveDirectory);
    bed.write("rotate-root", &json!({})).unwrap();
    let weaker = json!({"bindpass": "any", "insecure_tls": true});
    assert!(bed.write("config", &weaker).unwrap().warnings.iter().any(|one| one.contains("kept")));
    bed.run_guards().unwrap();
    assert_eq!(bindpass(&bed), "any");
    let back = json!({"bindpass": "any", "insecure_tls": false});
    bed.write("config", &back).unwrap();
    bed.run_guards().unwrap();
    assert!(holds(&bed), "the kept password is used where it belongs");
    bed.host.lose_reply("ldap-modify", Failure::new(FailureKind::TimedOut, "no answer"));
    bed.write("rotate-root", &json!({})).err().unwrap();
    bed.write("config", &weaker).unwrap();
    bed.run_guards().unwrap();
    assert_eq!(bindpass(&bed), "any", "nor does a candidate of a change under way");
    bed.write("config", &back).unwrap();
    bed.run_guards().unwrap();
    assert!(holds(&bed));
}

#[test]
fn change_under_way_tries_kept_password() {
    let bed = configured(Flavour::OpenLdap);
    bed.write("rotate-root", &json!({})).unwrap();
    let password = bindpass(&bed);
    // The second rotation dies before the directory is asked, and the directory goes down.
    bed.host.die_after("checkpoint");
    bed.write("rotate-root", &json!({})).err().unwrap();
    bed.host.directory().take_down("ldaps://dc1.corp.example");
    bed.write("config", &json!({"bindpass": "secret-of-engine"})).unwrap();
    assert!(bed.run_guards().is_err());
    bed.host.directory().bring_up("ldaps://dc1.corp.example");
    bed.run_guards().unwrap();
    assert_eq!(bindpass(&bed), password);
    assert!(holds(&bed) && bed.host.stored("intent/root").is_none());
}

#[test]
fn first_password_does_not_replace_engine_password() {
    for flavour in BOTH {
        let bed = configured(flavour);
        bed.write("rotate-root", &json!({})).unwrap();
        let password = bindpass(&bed);
        let first = json!({"bindpass": "secret-of-engine", "ttl": 700});
        let refused = bed.write("config", &first).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(refused.message.contains("leave bindpass out"), "{refused}");
        assert!(refused.message.contains("force=true"), "{refused}");
        assert!(
            !refused.message.contains("secret-of-engine") && !refused.message.contains(&password)
        );
        assert_eq!(bindpass(&bed), password, "{flavour:?}");
        bed.write("config", &json!({"ttl": 700})).unwrap();
        assert_eq!(bindpass(&bed), password);
        bed.host.directory().set_password(ENGINE, "of-the-operator");
        let written = bed.write("config", &json!({"bindpass": "of-the-operator"})).unwrap();
        assert!(written.warnings.is_empty(), "{:?}", written.warnings);
        assert!(holds(&bed));
        bed.write("rotate-root", &json!({})).unwrap();
        let forced = json!({"bindpass": "secret-of-engine", "force": true});
        bed.write("config", &forced).unwrap();
        assert_eq!(bindpass(&bed), "secret-of-engine");
    }
}

#[test]
fn two_refused_passwords_are_tried_by_no_timer() {
    let bed = configured(Flavour::OpenLdap);
    bed.write("rotate-root", &json!({})).unwrap();
    bed.host.directory().set_password(ENGINE, "of-the-operator");
    let failed = bed.host.directory().failed_logins(ENGINE);
    let written = bed.write("config", &json!({"bindpass": "mistyped"})).unwrap();
    assert!(written.warnings[0].contains("refuses both"), "{:?}", written.warnings);
    assert_eq!(bed.run_guards().unwrap(), 0);
    assert_eq!(bed.host.directory().failed_logins(ENGINE), failed + 2);
    bed.write("config", &json!({"bindpass": "of-the-operator"})).unwrap();
    bed.run_guards().unwrap();
    assert!(holds(&bed) && bed.host.stored("intent/root").is_none());
}

#[test]
fn unproven_password_keeps_former_until_either_logs_in() {
    for is_new_in_force in [false, true] {
        let bed = configured(Flavour::OpenLdap);
        bed.write("rotate-root", &json!({})).unwrap();
        let password = bindpass(&bed);
        if is_new_in_force {
            bed.host.directory().set_password(ENGINE, "of-the-operator");
        }
        bed.host.directory().take_down("ldaps://dc1.corp.example");
        let written = bed.write("config", &json!({"bindpass": "of-the-operator"})).unwrap();
        assert!(written.warnings[0].contains("is kept"), "{:?}", written.warnings);
        assert!(bed.run_guards().is_err(), "nothing can be proven");
        bed.host.directory().bring_up("ldaps://dc1.corp.example");
        bed.run_guards().unwrap();
        let expected = if is_new_in_force { "of-the-operator" } else { password.as_str() };
        assert_eq!(bindpass(&bed), expected);
        assert!(holds(&bed) && bed.host.stored("intent/root").is_none());
    }
}

#[test]
fn former_password_is_tried_for_ten_minutes_only() {
    let bed = configured(Flavour::ActiveDirectory);
    bed.write("rotate-root", &json!({})).unwrap();
    // Simulates a controller that has not yet received the change.
    bed.host.directory().set_password(ENGINE, "secret-of-engine");
    let role = json!({"service_account_name": "svc1"});
    bed.write("roles/build", &role).unwrap();
    bed.host.advance(601);
    assert_eq!(bed.write("roles/build", &role).err().unwrap().kind, FailureKind::InvalidRequest);
}

/// Wrong logins lock an account, so the accepted password is cached.
#[test]
fn accepted_password_is_found_once_not_per_request() {
    let bed = configured(Flavour::ActiveDirectory);
    bed.write("rotate-root", &json!({})).unwrap();
    bed.host.directory().set_password(ENGINE, "secret-of-engine");
    let role = json!({"service_account_name": "svc1"});
    bed.write("roles/build", &role).unwrap();
    bed.host.steps();
    bed.write("roles/build", &role).unwrap();
    let binds = bed.host.steps().iter().filter(|step| step.starts_with("ldap-bind")).count();
    assert_eq!(binds, 0, "the password is not tried again at once");
    // The controller has received the change now.
    let stored = bed.host.stored("config").unwrap()["bindpass"].as_str().unwrap().to_owned();
    bed.host.directory().set_password(ENGINE, &stored);
    bed.write("roles/build", &role).unwrap();
}

#[test]
fn missing_configuration_or_login_allows_no_rotation() {
    let bed = empty(Flavour::ActiveDirectory);
    let refused = bed.write("rotate-root", &json!({})).err().unwrap();
    assert!(refused.message.contains("write directory/config first"), "{refused}");
    bed.write("config", &json!({"self_rotation": true})).unwrap();
    let refused = bed.write("rotate-root", &json!({})).err().unwrap();
    assert!(refused.message.contains("no bindpass to rotate"), "{refused}");
}
