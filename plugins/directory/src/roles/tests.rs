//! Storing, showing and refusing roles.

use crate::fixture::{configured, dn, empty, with_role};
use bulkhead_sdk::testbed::Flavour;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

#[test]
fn role_read_returns_written_fields_and_rotation_time() {
    let bed = with_role(Flavour::ActiveDirectory);
    let shown = Value::Object(bed.read("roles/build").unwrap().data);
    assert_eq!(shown, json!({"service_account_name": "svc1@corp.example", "ttl": 600}));
    bed.read("creds/build").unwrap();
    let shown = bed.read("roles/build").unwrap().data;
    for name in ["last_service_rotation", "last_vault_rotation", "password_last_set"] {
        assert_eq!(shown[name], "2030-01-01T00:00:00Z", "{name}");
    }
    assert_eq!(bed.list("roles").unwrap().data["keys"], json!(["build"]));
    assert_eq!(bed.read("roles").unwrap().data["keys"], json!(["build"]));
}

#[test]
fn role_update_keeps_password_and_absent_fields() {
    let bed = with_role(Flavour::ActiveDirectory);
    bed.write("roles/build", &json!({"ttl": "5m"})).unwrap();
    let shown = bed.read("roles/build").unwrap().data;
    assert_eq!(shown["ttl"], 300);
    assert_eq!(shown["service_account_name"], "svc1@corp.example");
    assert!(bed.host.directory().has_password(&dn("svc1"), "first-of-svc1"));
}

#[test]
fn a_bad_role_is_refused_and_not_stored() {
    for (body, why) in [
        (json!({}), "service_account_name is required"),
        (json!({"service_account_name": " "}), "service_account_name is required"),
        (json!({"service_account_name": "none"}), "there is no account \"none\""),
        (json!({"service_account_name": "*"}), "there is no account \"*\""),
        (json!({"service_account_name": "svc1)(cn=*"}), "there is no account"),
        (json!({"service_account_name": "*)(objectClass=*"}), "there is no account"),
        (json!({"service_account_name": "CN=svc9,DC=corp,DC=example"}), "there is no account"),
        (json!({"service_account_name": "svc1", "ttl": "33d"}), "longer than"),
        (json!({"service_account_name": "svc1", "ttl": -1}), "ttl"),
        (json!({"service_account_name": "svc1", "password": "x"}), "self_rotation"),
    ] {
        let bed = configured(Flavour::ActiveDirectory);
        let refused = bed.write("roles/bad", &body).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{refused}");
        assert!(refused.message.contains(why), "{body}: {refused}");
        assert_eq!(bed.host.stored("role/bad"), None);
    }
    let bed = empty(Flavour::ActiveDirectory);
    let unset = bed.write("roles/a", &json!({"service_account_name": "svc1"})).err().unwrap();
    assert!(unset.message.contains("write directory/config first"), "{unset}");
}

#[test]
fn an_account_is_one_under_all_its_names() {
    let bed = with_role(Flavour::ActiveDirectory);
    for name in ["SVC1@corp.example ", "svc1", &dn("svc1").to_lowercase()] {
        bed.write("roles/other", &json!({"service_account_name": name})).unwrap();
        let first = bed.read("creds/build").unwrap().data;
        let other = bed.read("creds/other").unwrap().data;
        assert_eq!(first["current_password"], other["current_password"], "{name}");
    }
    let set = json!({"service_account_names": "svc1"});
    let refused = bed.write("library/team", &set).err().unwrap();
    assert!(refused.message.contains("already managed by role \"build\""), "{refused}");
}

#[test]
fn a_name_that_two_entries_have_is_refused() {
    let bed = configured(Flavour::ActiveDirectory);
    let names = [("cn", "svc1"), ("sAMAccountName", "svc9")];
    bed.host.directory().add("CN=svc1,OU=more,OU=people,DC=corp,DC=example", "x", &names);
    let refused = bed.write("roles/a", &json!({"service_account_name": "svc1"})).err().unwrap();
    assert!(refused.message.contains("several accounts"), "{refused}");
    bed.write("roles/a", &json!({"service_account_name": "svc1@corp.example"})).unwrap();
}

#[test]
fn another_account_for_a_role_begins_anew() {
    let bed = with_role(Flavour::ActiveDirectory);
    let first = bed.read("creds/build").unwrap().data;
    bed.write("roles/build", &json!({"service_account_name": "svc2"})).unwrap();
    let second = bed.read("creds/build").unwrap().data;
    assert_eq!(second["username"], "svc2");
    assert_ne!(first["current_password"], second["current_password"]);
    assert!(!second.contains_key("last_password"));
    bed.write("library/team", &json!({"service_account_names": "svc1"})).unwrap();
}

#[test]
fn removed_role_is_absent_and_account_free() {
    let bed = with_role(Flavour::ActiveDirectory);
    bed.delete("roles/build").unwrap();
    bed.delete("roles/build").unwrap();
    assert_eq!(bed.read("roles/build").err().unwrap(), Failure::absent());
    assert_eq!(bed.read("roles").err().unwrap(), Failure::absent());
    bed.write("library/team", &json!({"service_account_names": "svc1"})).unwrap();
    let role = json!({"service_account_name": "svc1"});
    let refused = bed.write("roles/build", &role).err().unwrap();
    assert!(refused.message.contains("already managed by set \"team\""), "{refused}");
}

#[test]
fn unreadable_id_causes_warning_and_account_stays_one() {
    for (flavour, attribute) in
        [(Flavour::ActiveDirectory, "objectGUID"), (Flavour::OpenLdap, "entryUUID")]
    {
        let bed = configured(flavour);
        bed.host.directory().set(&dn("svc1"), attribute, "");
        let role = json!({ "service_account_name": dn("svc1") });
        let answer = bed.write("roles/build", &role).unwrap();
        assert!(answer.warnings[0].contains("neither entryUUID nor objectGUID"), "{flavour:?}");
        let first = bed.read("creds/build").unwrap().data;
        // The id becomes readable: the account keeps its record and its password.
        let id = ["6f9619ff-8b86-d011-b42d-00cf4fc97777", "guid-seen-later-"];
        let id = id[usize::from(flavour == Flavour::ActiveDirectory)];
        bed.host.directory().set(&dn("svc1"), attribute, id);
        assert!(bed.write("roles/other", &role).unwrap().warnings.is_empty());
        let other = bed.read("creds/other").unwrap().data;
        assert_eq!(first["current_password"], other["current_password"]);
        bed.host.directory().rename(&dn("svc1"), &dn("renamed"));
        bed.host.directory().set(&dn("renamed"), "cn", "renamed");
        let renamed = bed.read("creds/build").unwrap().data;
        assert_eq!(first["current_password"], renamed["current_password"]);
        // Another entry with the former DN is another account.
        let of_others = "6f9619ff-8b86-d011-b42d-00cf4fc98888";
        let of_others = if flavour == Flavour::OpenLdap { of_others } else { "guid-of-another!" };
        bed.host.directory().add(&dn("svc1"), "of-others", &[(attribute, of_others)]);
        bed.write("library/team", &json!({ "service_account_names": [dn("svc1")] })).unwrap();
        assert_eq!(
            bed.read("creds/build").unwrap().data["current_password"],
            renamed["current_password"]
        );
    }
}
