//! Writes, reads and removals of static roles on the test bed.

use crate::fixture::{account, app, orders, shown, with, with_account, with_static_role};
use bulkhead_sdk::host::Clock;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

#[test]
fn new_role_changes_and_proves_password_before_storage() {
    let bed = with_account();
    assert!(bed.write("static-roles/app", &app()).unwrap().warnings.is_empty());
    assert_eq!(
        bed.host.steps(),
        [
            "guard intent/static/app in orders",
            "checkpoint",
            "change-credential orders app",
            "check-credential orders app",
            "cancel intent/static/app",
            "log static-role-rotated role=app connection=orders next=3600s",
            "schedule rotate/app in orders",
        ]
    );
    assert_eq!(shown(&bed, "app"), ("Generated-Password-1".to_owned(), true));
    assert_eq!(bed.host.timer("rotate/app"), Some(bed.host.now() + 3_600_000));
}

#[test]
fn role_read_shows_schedule_and_no_password() {
    let bed = with_static_role();
    let data = Value::Object(bed.read("static-roles/app").unwrap().data);
    let rotated = data["last_vault_rotation"].as_str().unwrap().to_owned();
    assert!(rotated.ends_with('Z'), "{rotated}");
    let expected = json!({
        "db_name": "orders", "username": "app", "rotation_statements": [],
        "credential_type": "password", "credential_verified": true,
        "skip_import_rotation": false, "rotation_period": 3600,
        "last_vault_rotation": rotated, "last_service_rotation": rotated,
    });
    assert_eq!(data, expected);
    account(&bed, "orders", "nightly");
    let nightly = json!({
        "db_name": "orders", "username": "nightly", "rotation_schedule": "0 3 * * sat",
        "rotation_window": "2h", "rotation_statements": "ALTER {{name}}",
        "credential_config": {"password_policy": ""},
    });
    bed.write("static-roles/nightly", &nightly).unwrap();
    let data = bed.read("static-roles/nightly").unwrap().data;
    assert_eq!(data["rotation_schedule"], "0 3 * * sat");
    assert_eq!(data["rotation_window"], 7_200);
    assert!(!data.contains_key("rotation_period") && !data.contains_key("credential_config"));
    assert_eq!(bed.list("static-roles").unwrap().data["keys"], json!(["app", "nightly"]));
    let user = bed.host.user("orders", "nightly").unwrap();
    assert_eq!(user.statements, ["ALTER {{name}}"]);
}

#[test]
fn a_bad_role_is_refused_and_changes_nothing() {
    let period = "mutually exclusive fields rotation_period and rotation_schedule";
    let bad = [
        (json!({"db_name": ""}), "db_name"),
        (json!({"username": ""}), "username"),
        (json!({"rotation_schedule": "0 3 * * *"}), period),
        (json!({"rotation_period": 0}), "one of rotation_schedule or rotation_period"),
        (json!({"rotation_period": 4}), "rotation_period must be 5 seconds or more"),
        (json!({"rotation_window": 3_600}), "rotation_window"),
        (json!({"rotation_period": 0, "rotation_schedule": "@daily"}), "could not parse"),
        (json!({"rotation_period": 0, "rotation_schedule": "* * * * * *"}), "could not parse"),
        (json!({"rotation_period": 0, "rotation_schedule": "0 0 30 2 *"}), "could not parse"),
        (json!({"rotation_period": 0, "rotation_schedule": "CRON_TZ=Mars"}), "could not parse"),
        (
            json!({"rotation_period": 0, "rotation_schedule": "0 3 * * *", "rotation_window": 60}),
            "rotation_window must be 3600 seconds or more",
        ),
        (json!({"credential_type": "smoke"}), "invalid credential_type \"smoke\""),
        (json!({"credential_type": "rsa_private_key"}), "unsupported credential_type"),
        (json!({"credential_config": {"key_bits": 2048}}), "\"key_bits\" is not an option"),
        (json!({"rotation_statements": "unreadable"}), "rotation_statements: "),
        (json!({"db_name": "billing"}), "connection \"billing\", which does not exist"),
        (json!({"username": "root"}), "use rotate-root/orders"),
        (json!({"password": "mine"}), "password is only for skip_import_rotation"),
        (json!({"skip_import_rotation": true}), "password is required"),
        (json!({"username": "nobody"}), "no user \"nobody\""),
    ];
    for (change, expected) in bad {
        let bed = with_account();
        let refused = bed.write("static-roles/app", &with(app(), change)).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{}", refused.message);
        assert!(refused.message.contains(expected), "{expected}: {}", refused.message);
        assert_eq!(bed.host.stored("static-role/app"), None, "{expected}");
        assert_eq!(bed.run_guards().unwrap(), 0, "{expected}");
        let app = bed.host.user("orders", "app").unwrap();
        assert!(app.statements.is_empty() && bed.host.timer("rotate/app").is_none());
    }
}

#[test]
fn role_not_admitted_by_connection_is_denied() {
    let bed = with_account();
    bed.write("config/orders", &json!({"allowed_roles": "other"})).unwrap();
    let denied = bed.write("static-roles/app", &app()).err().unwrap();
    assert_eq!(denied.kind, FailureKind::PermissionDenied);
    assert_eq!(bed.host.stored("static-role/app"), None);
}

#[test]
fn role_and_static_role_names_are_one_set() {
    let bed = with_static_role();
    let role = json!({"db_name": "orders", "creation_statements": "CREATE {{name}}"});
    let refused = bed.write("roles/app", &role).err().unwrap();
    assert!(refused.message.contains("names must be unique"), "{}", refused.message);
    let refused = bed.write("static-roles/reader", &app()).err().unwrap();
    assert!(refused.message.contains("names must be unique"), "{}", refused.message);
}

#[test]
fn account_has_one_owner_until_role_removal() {
    let bed = with_static_role();
    let refused = bed.write("static-roles/other", &app()).err().unwrap();
    assert!(refused.message.contains("static role \"app\" rotates user \"app\""), "{refused}");
    assert_eq!(shown(&bed, "app"), ("Generated-Password-1".to_owned(), true));
    let deleted = bed.delete("static-roles/app").unwrap();
    let [lost] = &deleted.warnings[..] else { panic!("{:?}", deleted.warnings) };
    assert!(lost.contains("user \"app\"") && lost.contains("not stored any more"), "{lost}");
    assert!(bed.delete("static-roles/app").unwrap().warnings.is_empty());
    assert_eq!(bed.read("static-roles/app").err().unwrap(), Failure::absent());
    assert_eq!(bed.host.timer("rotate/app"), None);
    bed.write("static-roles/other", &app()).unwrap();
    assert!(shown(&bed, "other").1);
}

#[test]
fn skipped_import_keeps_password_and_counts_from_now() {
    let bed = with_account();
    bed.write("config/orders", &json!({"skip_static_role_import_rotation": true})).unwrap();
    bed.host.steps();
    let refused = bed.write("static-roles/app", &app()).err().unwrap();
    assert!(refused.message.contains("password is required"), "{}", refused.message);
    bed.write("static-roles/app", &with(app(), json!({"self_managed_password": "first"}))).unwrap();
    let steps = ["check-credential orders app", "schedule rotate/app in orders"];
    assert_eq!(bed.host.steps(), steps);
    assert_eq!(shown(&bed, "app"), ("first".to_owned(), true));
    let data = bed.read("static-creds/app").unwrap().data;
    assert_eq!(data["ttl"], 3_600);
    assert!(!data.contains_key("last_vault_rotation"));
    assert_eq!(bed.read("static-roles/app").unwrap().data["skip_import_rotation"], true);
}

#[test]
fn role_with_skip_false_rotates_despite_connection_skip() {
    let bed = with_account();
    bed.write("config/orders", &json!({"skip_static_role_import_rotation": true})).unwrap();
    let explicit = json!({"skip_import_rotation": false});
    bed.write("static-roles/app", &with(app(), explicit.clone())).unwrap();
    assert_eq!(shown(&bed, "app"), ("Generated-Password-1".to_owned(), true));
    assert_eq!(bed.read("static-roles/app").unwrap().data["skip_import_rotation"], false);
    bed.write("static-roles/app", &explicit).unwrap();
}

#[test]
fn imported_password_is_correctable_until_first_rotation() {
    let bed = with_account();
    let skipped = json!({"skip_import_rotation": true, "password": "mistyped"});
    // The write succeeds, because the database cannot tell.
    bed.host.fix_login_answer("app", None);
    let warnings = bed.write("static-roles/app", &with(app(), skipped)).unwrap().warnings;
    assert!(warnings[0].contains("could not be verified"), "{warnings:?}");
    bed.host.try_logins("app");
    let refused = bed.write("static-roles/app", &json!({"password": "again"})).err().unwrap();
    assert!(refused.message.contains("refuses password"), "{}", refused.message);
    assert_eq!(shown(&bed, "app").0, "mistyped", "a refused request changes nothing");
    assert!(
        bed.write("static-roles/app", &json!({"password": "first"})).unwrap().warnings.is_empty()
    );
    assert_eq!(shown(&bed, "app"), ("first".to_owned(), true));
    assert_eq!(bed.read("static-roles/app").unwrap().data["credential_verified"], true);
    bed.write("rotate-role/app", &json!({})).unwrap();
    let refused = bed.write("static-roles/app", &json!({"password": "again"})).err().unwrap();
    assert!(refused.message.contains("not allowed after rotation"), "{}", refused.message);
    let refused =
        bed.write("static-roles/app", &json!({"skip_import_rotation": false})).err().unwrap();
    assert!(refused.message.contains("when a role is created"), "{}", refused.message);
}

#[test]
fn imported_password_is_tried_before_storage() {
    let bed = with_account();
    let wrong = with(app(), json!({"skip_import_rotation": true, "password": "mistyped"}));
    let refused = bed.write("static-roles/app", &wrong).err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    assert!(refused.message.contains("user \"app\""), "{}", refused.message);
    let right = with(app(), json!({"skip_import_rotation": true, "password": "first"}));
    bed.host.refuse("check-credential", crate::fixture::unreachable());
    assert_eq!(bed.write("static-roles/app", &right).err().unwrap().kind, FailureKind::Unreachable);
    assert_eq!(bed.host.stored("static-role/app"), None);
    bed.write("static-roles/other", &right).unwrap();
    assert_eq!(shown(&bed, "other"), ("first".to_owned(), true));
}

#[test]
fn rotation_window_removed_with_schedule_warns() {
    let bed = with_static_role();
    let nightly = json!({"rotation_schedule": "0 3 * * *", "rotation_window": "2h"});
    assert!(bed.write("static-roles/app", &nightly).unwrap().warnings.is_empty());
    let warnings =
        bed.write("static-roles/app", &json!({"rotation_period": "1h"})).unwrap().warnings;
    assert!(warnings[0].contains("rotation_window of 2h was removed"), "{warnings:?}");
    assert!(warnings[0].contains("\"0 3 * * *\""), "{warnings:?}");
    assert!(
        bed.write("static-roles/app", &json!({"rotation_period": "2h"}))
            .unwrap()
            .warnings
            .is_empty()
    );
}

#[test]
fn static_role_update_keeps_absent_fields_without_rotation() {
    let bed = with_static_role();
    bed.host.advance(600);
    bed.write("static-roles/app", &json!({"rotation_statements": "ALTER {{name}}"})).unwrap();
    assert_eq!(bed.read("static-creds/app").unwrap().data["ttl"], 3_000);
    bed.write("static-roles/app", &json!({"rotation_period": "2h"})).unwrap();
    assert_eq!(bed.read("static-creds/app").unwrap().data["ttl"], 6_600);
    bed.write("static-roles/app", &json!({"rotation_schedule": "0 3 * * *"})).unwrap();
    let data = bed.read("static-roles/app").unwrap().data;
    assert_eq!(data["rotation_schedule"], "0 3 * * *");
    assert_eq!(data["rotation_statements"], json!(["ALTER {{name}}"]));
    assert!(!data.contains_key("rotation_period"));
    let steps = bed.host.steps();
    assert!(!steps.iter().any(|step| step.contains("credential")), "{steps:?}");
    assert_eq!(shown(&bed, "app"), ("Generated-Password-1".to_owned(), true));
    for (change, field) in [
        (json!({"username": "other"}), "username"),
        (json!({"db_name": "other"}), "db_name"),
        (json!({"rotation_window": 3_600, "rotation_period": 60}), "rotation_window"),
        (json!({"rotation_schedule": "", "rotation_period": 0}), "one of rotation_schedule"),
    ] {
        let refused = bed.write("static-roles/app", &change).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(refused.message.contains(field), "{}", refused.message);
    }
    bed.write("static-roles/app", &json!({"username": "app", "db_name": "orders"})).unwrap();
}

#[test]
fn rotation_period_below_elapsed_time_makes_role_due() {
    let bed = with_static_role();
    bed.host.advance(600);
    bed.write("static-roles/app", &json!({"rotation_period": 300})).unwrap();
    assert_eq!(bed.read("static-creds/app").unwrap().data["ttl"], 0);
    bed.wake("rotate/app", 1).unwrap();
    assert_eq!(shown(&bed, "app"), ("Generated-Password-2".to_owned(), true));
}

#[test]
fn static_credentials_ask_the_connection_each_time() {
    let bed = with_static_role();
    bed.write("config/orders", &json!({"allowed_roles": "other"})).unwrap();
    assert_eq!(bed.read("static-creds/app").err().unwrap().kind, FailureKind::PermissionDenied);
    let unknown = bed.read("static-creds/other").err().unwrap();
    assert_eq!(unknown.kind, FailureKind::InvalidRequest);
    assert!(unknown.message.contains("unknown role"), "{}", unknown.message);
    bed.delete("config/orders").unwrap();
    let gone = bed.read("static-creds/app").err().unwrap();
    assert_eq!(gone.kind, FailureKind::InvalidRequest);
    bed.write("config/orders", &with(orders(), json!({"allowed_roles": "app"}))).unwrap();
    assert!(shown(&bed, "app").1);
}

#[test]
fn self_managed_connection_lets_account_change_own_password() {
    let bed = with_account();
    let managed = json!({"self_managed": true, "username": "", "password": ""});
    let verified = || bed.host.steps().iter().filter(|step| **step == "verify orders").count();
    let before = verified();
    bed.write("config/orders", &managed).unwrap();
    bed.write("reset/orders", &json!({})).unwrap();
    assert_eq!(verified(), before, "there is nothing to try it with");
    let refused = bed.write("static-roles/app", &app()).err().unwrap();
    assert!(refused.message.contains("password is required"), "{}", refused.message);
    bed.write("static-roles/app", &with(app(), json!({"password": "first"}))).unwrap();
    let steps = bed.host.steps();
    assert!(steps.contains(&"change-credential orders app as itself".to_owned()), "{steps:?}");
    bed.write("rotate-role/app", &json!({})).unwrap();
    assert_eq!(shown(&bed, "app"), ("Generated-Password-2".to_owned(), true));
    let wrong = with(app(), json!({"password": "wrong", "username": "b"}));
    account(&bed, "orders", "b");
    assert_eq!(
        bed.write("static-roles/b", &wrong).err().unwrap().kind,
        FailureKind::InvalidRequest
    );
    assert_eq!(bed.host.stored("static-role/b"), None);
    let role = json!({"db_name": "orders", "creation_statements": "CREATE {{name}}"});
    let refused = bed.write("roles/dynamic", &role).err().unwrap();
    assert!(refused.message.contains("self_managed"), "{}", refused.message);
}
