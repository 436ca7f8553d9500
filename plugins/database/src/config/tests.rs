//! Writes, reads and removals of connections on the test bed.

use crate::fixture::{empty, issued, orders, ready, with};
use bulkhead_sdk::host::Clock;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

#[test]
fn connection_is_configured_and_verified_before_storage() {
    let bed = empty();
    let reply = bed.write("config/orders", &orders()).unwrap();
    let steps = ["configure orders", "verify orders", "cancel rotate-root/orders"];
    assert_eq!(bed.host.steps(), steps);
    assert!(reply.warnings.is_empty(), "{:?}", reply.warnings);
    assert!(bed.host.stored("config/orders").is_some());
}

#[test]
fn stored_password_goes_to_no_other_server() {
    let url = |text: &str| json!({ "connection_url": text });
    for (change, field) in [
        (url("postgres://{{username}}:{{password}}@thief:5432/orders"), "connection_url"),
        (url("postgres://{{username}}:{{password}}@db:5433/orders"), "connection_url"),
        (url("postgres://{{username}}:{{password}}@db:5432,thief/orders"), "connection_url"),
        (
            url("postgres://{{username}}:{{password}}@db:5432/orders?sslmode=disable"),
            "connection_url",
        ),
        (url("postgres://{{username}}:{{password}}@db:5432/orders?host=thief"), "connection_url"),
        (url("host=thief user={{username}} password={{password}}"), "connection_url"),
        (json!({"tls_ca": "another"}), "tls_ca"),
        (json!({"tls_server_name": "thief"}), "tls_server_name"),
        (json!({"verify_connection": false, "tls_skip_verify": true}), "tls_skip_verify"),
    ] {
        let bed = ready();
        let before = bed.host.stored("config/orders");
        let refused = bed.write("config/orders", &change).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{change}: {refused}");
        let says = format!("{field} changes: give password in the same request");
        assert!(refused.message.starts_with(&says), "{change}: {refused}");
        assert_eq!(bed.host.stored("config/orders"), before);
        assert!(!bed.host.steps().iter().any(|step| step.starts_with("verify")), "{change}");
        bed.write("config/orders", &with(change, json!({"password": "hunter2-of-root"}))).unwrap();
    }
    let bed = ready();
    for harmless in [
        url("postgres://{{username}}:{{password}}@db:5432/other?connect_timeout=3"),
        json!({"max_open_connections": 7, "username": "other", "allowed_roles": "*"}),
    ] {
        bed.write("config/orders", &harmless).unwrap();
    }
}

/// Returns a certificate in PEM that is valid until the year `until`.
fn certificate(until: i32) -> String {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let mut parameters = rcgen::CertificateParams::default();
    parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(until, 1, 1);
    parameters.self_signed(&key).unwrap().pem()
}

#[test]
fn expired_certificate_is_refused_with_its_end() {
    let bed = empty();
    let both = format!("{}{}", certificate(2035), certificate(2029));
    let unverified = json!({"verify_connection": false, "tls_ca": both});
    let refused = bed.write("config/orders", &with(orders(), unverified)).err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    let expected = "tls_ca: certificate 2 ended at 2029-01-01T00:00:00Z; give the successor";
    assert_eq!(refused.message, expected);
    assert!(bed.host.stored("config/orders").is_none() && bed.host.steps().is_empty());
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let refused = bed.write("config/orders", &with(orders(), json!({"sslrootcert": damaged})));
    assert!(refused.err().unwrap().message.starts_with("sslrootcert: "));
    let inside = json!({"pem_json": json!({"certificate": certificate(2035)}).to_string()});
    bed.write("config/inside", &with(orders(), inside)).unwrap();
    let valid = json!({"tls_ca": certificate(2035)});
    bed.write("config/orders", &with(orders(), valid)).unwrap();
}

#[test]
fn plugin_or_database_refusal_stores_nothing() {
    let refusals = [
        (
            "configure",
            Failure::invalid("connection_url: the port is not a number"),
            FailureKind::InvalidRequest,
        ),
        (
            "verify",
            Failure::new(FailureKind::Unreachable, "no answer from db:5432"),
            FailureKind::Unreachable,
        ),
        (
            "verify",
            Failure::invalid("the database refused user \"root\" (SQLSTATE 28P01)"),
            FailureKind::InvalidRequest,
        ),
    ];
    for (step, failure, kind) in refusals {
        let bed = empty();
        bed.host.refuse(step, failure.clone());
        let refused = bed.write("config/orders", &orders()).err().unwrap();
        assert_eq!(refused.kind, kind);
        assert_eq!(refused.message, format!("connection \"orders\": {}", failure.message));
        assert_eq!(bed.host.stored("config/orders"), None);
    }
}

#[test]
fn change_refused_by_database_leaves_connection_unchanged() {
    let bed = ready();
    let before = bed.host.stored("config/orders");
    bed.host.refuse("verify", Failure::new(FailureKind::TimedOut, "db:5432 took too long"));
    assert!(bed.write("config/orders", &json!({"password": "wrong"})).is_err());
    assert_eq!(bed.host.stored("config/orders"), before);
}

#[test]
fn unverified_connection_stays_unverified_on_update() {
    let bed = empty();
    bed.write("config/orders", &with(orders(), json!({"verify_connection": false}))).unwrap();
    bed.write("config/orders", &json!({"username": "admin"})).unwrap();
    let steps = bed.host.steps();
    assert!(!steps.iter().any(|step| step.starts_with("verify")), "{steps:?}");
}

#[test]
fn a_read_shows_everything_but_secrets() {
    let bed = empty();
    let more = json!({
        "root_rotation_statements": "ALTER {{username}}", "password_policy": "long",
        "plugin_version": "v1.0.0", "private_key": "hunter2-PEM",
        "disable_automated_rotation": true, "skip_static_role_import_rotation": "1",
    });
    bed.write("config/orders", &with(orders(), more)).unwrap();
    let reply = bed.read("config/orders").unwrap();
    let expected = json!({
        "plugin_name": "test-database-plugin",
        "plugin_version": "v1.0.0",
        "override_pinned_version": false,
        "running_plugin_version": "1.0.0",
        "connection_details": {
            "connection_url": "postgres://{{username}}:{{password}}@db:5432/orders",
            "username": "root",
        },
        "allowed_roles": ["reader", "writer-*"],
        "root_credentials_rotate_statements": ["ALTER {{username}}"],
        "password_policy": "long",
        "verify_connection": true,
        "skip_static_role_import_rotation": true,
        "rotation_schedule": "",
        "rotation_period": 0,
        "rotation_window": 0,
        "disable_automated_rotation": true,
    });
    assert_eq!(Value::Object(reply.data.clone()), expected);
    assert!(!Value::Object(reply.data).to_string().contains("hunter2"));
}

#[test]
fn omitted_lists_are_empty_and_not_missing() {
    let bed = empty();
    bed.write("config/bare", &json!({"plugin_name": "test"})).unwrap();
    let data = bed.read("config/bare").unwrap().data;
    assert_eq!(data["allowed_roles"], json!([]));
    assert_eq!(data["root_credentials_rotate_statements"], json!([]));
    assert_eq!(data["connection_details"], json!({}));
    assert_eq!(data["plugin_version"], json!(""));
}

#[test]
fn connection_string_password_is_hidden_on_read() {
    let bed = empty();
    let inline = json!({"connection_url": "host=db user=root password=hunter2"});
    bed.write("config/orders", &with(orders(), inline)).unwrap();
    let details = bed.read("config/orders").unwrap().data["connection_details"].clone();
    assert_eq!(details["connection_url"], "host=db user=root password=xxxxx");
}

#[test]
fn connection_without_plugin_is_read_without_details() {
    let bed = ready();
    bed.host.describe_plugin(|plugin| plugin.name = "another-plugin".to_owned());
    let reply = bed.read("config/orders").unwrap();
    assert_eq!(reply.data["connection_details"], json!({}));
    assert_eq!(reply.data["allowed_roles"], json!(["reader", "writer-*"]));
    assert!(reply.warnings[0].contains("test-database-plugin"), "{:?}", reply.warnings);
}

#[test]
fn config_update_keeps_absent_clears_empty_increments_generation() {
    let bed = ready();
    let before = bed.host.stored("config/orders").unwrap();
    bed.write("config/orders", &json!({"username": "admin", "allowed_roles": []})).unwrap();
    let after = bed.host.stored("config/orders").unwrap();
    assert_eq!(after["settings"]["username"], "admin");
    assert_eq!(after["settings"]["password"], "hunter2-of-root");
    assert_eq!(after["allowed_roles"], json!([]));
    assert_eq!(after["plugin_name"], "test-database-plugin");
    assert!(after["generation"].as_u64() > before["generation"].as_u64());
}

#[test]
fn connection_rewritten_after_removal_has_new_generation() {
    let bed = ready();
    bed.write("config/orders", &json!({"username": "admin"})).unwrap();
    let before = bed.host.stored("config/orders").unwrap()["generation"].as_u64();
    bed.delete("config/orders").unwrap();
    bed.host.advance(1);
    bed.write("config/orders", &orders()).unwrap();
    assert!(bed.host.stored("config/orders").unwrap()["generation"].as_u64() > before);
}

#[test]
fn engine_fields_are_no_plugin_settings() {
    let bed = ready();
    let settings = bed.host.stored("config/orders").unwrap()["settings"].clone();
    let names: Vec<&String> = settings.as_object().unwrap().keys().collect();
    assert_eq!(names, ["connection_url", "password", "username"]);
}

#[test]
fn write_warns_of_unknown_settings_and_empty_roles() {
    let bed = empty();
    bed.host.warn_when_configured(&["tls-off"]);
    let body = json!({"plugin_name": "test", "usrename": "root", "allowed_roles": []});
    let warnings = bed.write("config/orders", &body).unwrap().warnings;
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert_eq!(warnings[0], "connection \"orders\" does not use TLS");
    assert!(warnings[1].contains("\"usrename\""), "{warnings:?}");
    assert!(warnings[2].contains("allowed_roles"), "{warnings:?}");
    assert_eq!(bed.host.stored("config/orders").unwrap()["settings"]["usrename"], "root");
}

#[test]
fn plugin_without_known_name_or_version_is_refused() {
    let bad = [
        (json!({"username": "root"}), "plugin_name is required"),
        (json!({"plugin_name": ""}), "plugin_name is required"),
        (json!({"plugin_name": "oracle"}), "\"oracle\""),
        (json!({"plugin_name": "test", "plugin_version": "newest"}), "\"newest\""),
    ];
    for (body, expected) in bad {
        let bed = empty();
        let refused = bed.write("config/orders", &body).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(refused.message.contains(expected), "{}", refused.message);
        assert_eq!(bed.host.stored("config/orders"), None);
    }
}

#[test]
fn plugin_cannot_be_removed_from_connection() {
    let bed = ready();
    let refused = bed.write("config/orders", &json!({"plugin_name": ""})).err().unwrap();
    assert!(refused.message.contains("plugin_name is required"), "{}", refused.message);
}

#[test]
fn root_rotation_is_scheduled_shown_and_ended() {
    let bed = ready();
    bed.write("config/orders", &json!({"rotation_period": "24h"})).unwrap();
    assert_eq!(bed.read("config/orders").unwrap().data["rotation_period"], 86_400);
    assert_eq!(bed.host.timer("rotate-root/orders"), Some(bed.host.now() + 86_400_000));
    let nightly = json!({"rotation_schedule": "0 3 * * *", "rotation_window": "1h"});
    bed.write("config/orders", &nightly).unwrap();
    let data = bed.read("config/orders").unwrap().data;
    assert_eq!(data["rotation_schedule"], "0 3 * * *");
    assert_eq!((&data["rotation_period"], &data["rotation_window"]), (&json!(0), &json!(3_600)));
    assert!(bed.host.timer("rotate-root/orders").is_some());
    bed.write("config/orders", &json!({"disable_automated_rotation": true})).unwrap();
    assert_eq!(bed.host.timer("rotate-root/orders"), None);
    bed.write("config/orders", &json!({"disable_automated_rotation": false})).unwrap();
    assert!(bed.host.timer("rotate-root/orders").is_some());
    bed.write("config/orders", &json!({"rotation_schedule": ""})).unwrap();
    assert_eq!(bed.host.timer("rotate-root/orders"), None);
    let settings = bed.host.stored("config/orders").unwrap()["settings"].clone();
    let names: Vec<&String> = settings.as_object().unwrap().keys().collect();
    assert_eq!(names, ["connection_url", "password", "username"]);
}

#[test]
fn contradictory_or_impossible_rotations_are_refused() {
    let schedule = "0 3 * * *";
    let inline = "postgres://{{username}}:hunter2@db:5432/orders";
    let bad = [
        (json!({"rotation_period": 60, "rotation_schedule": schedule}), "mutually exclusive"),
        (json!({"rotation_period": 9}), "rotation_period must be 10 seconds or more"),
        (
            json!({"rotation_period": 60, "rotation_window": 3_600}),
            "rotation_window does not apply",
        ),
        (json!({"rotation_window": 3_600}), "rotation_window without rotation_schedule"),
        (json!({"rotation_schedule": schedule, "rotation_window": 60}), "3600 seconds or more"),
        (json!({"rotation_schedule": "0 0 30 2 *"}), "could not parse rotation_schedule"),
        (json!({"rotation_period": 60, "username": ""}), "no username in configuration"),
        (json!({"rotation_period": 60, "password": ""}), "no password in configuration"),
        (json!({"rotation_period": 60, "connection_url": inline}), "must template {{password}}"),
        (json!({"rotation_period": 60, "self_managed": true}), "self_managed"),
    ];
    for (change, expected) in bad {
        let bed = empty();
        let refused = bed.write("config/orders", &with(orders(), change)).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(refused.message.contains(expected), "{}", refused.message);
        assert_eq!(bed.host.stored("config/orders"), None);
    }
}

#[test]
fn connection_removal_warns_of_dependent_static_roles() {
    let bed = crate::fixture::with_static_role();
    let reply = bed.delete("config/orders").unwrap();
    assert!(reply.warnings[0].contains("static roles that still need"), "{:?}", reply.warnings);
}

#[test]
fn removal_closes_sessions_and_counts_orphaned_leases() {
    let bed = ready();
    issued(&bed);
    issued(&bed);
    let reply = bed.delete("config/orders").unwrap();
    assert!(reply.warnings[0].contains("\"orders\": 2;"), "{:?}", reply.warnings);
    assert_eq!(bed.host.steps(), ["cancel rotate-root/orders", "close orders"]);
    assert_eq!(bed.read("config/orders").err().unwrap(), Failure::absent());
    assert!(
        bed.delete("config/orders").unwrap().lease.is_none(),
        "a connection that is gone is success"
    );
}

#[test]
fn a_list_names_the_connections() {
    let bed = ready();
    bed.write("config/billing", &orders()).unwrap();
    assert_eq!(bed.list("config").unwrap().data["keys"], json!(["billing", "orders"]));
    assert_eq!(empty().list("config").err().unwrap(), Failure::absent());
}

#[test]
fn read_warns_of_silent_database_and_waiting_work() {
    let bed = ready();
    issued(&bed);
    assert!(bed.read("config/orders").unwrap().warnings.is_empty());
    bed.host.rest_lane("orders", 7_200);
    assert_eq!(
        bed.read("config/orders").unwrap().warnings,
        ["the database of connection \"orders\" does not answer; the next attempt is in 8s, and \
          waiting work (live leases: 1) continues once the database answers"]
    );
}

#[test]
fn concurrency_equals_session_limit_of_connection() {
    for (limit, width) in [
        (json!(9), Some(9)),
        (json!("12"), Some(12)),
        (json!(0), None),
        (json!(u64::MAX), Some(u32::MAX)),
        (json!(-1), Some(u32::MAX)),
        (json!("-1"), Some(u32::MAX)),
    ] {
        let bed = empty();
        let sessions = json!({"max_open_connections": limit});
        bed.write("config/orders", &with(orders(), sessions)).unwrap();
        bed.read("config/orders").unwrap();
        assert_eq!(bed.host.width_of("orders"), width, "{limit}");
    }
    let bed = ready();
    bed.read("config/orders").unwrap();
    assert_eq!(bed.host.width_of("orders"), None, "the host's own");
}

#[test]
fn config_write_warns_of_missing_rights() {
    let bed = empty();
    bed.host.describe_plugin(|plugin| {
        let sentence = "the user of connection {connection} lacks a right".to_owned();
        plugin.warnings.insert("lacks-a-right".to_owned(), sentence);
    });
    bed.host.warn_when_verified(&["lacks-a-right"]);
    let reply = bed.write("config/orders", &orders()).unwrap();
    assert_eq!(reply.warnings, ["the user of connection \"orders\" lacks a right"]);
}

#[test]
fn root_rotation_statements_are_checked_on_write() {
    let bed = ready();
    let before = bed.host.stored("config/orders");
    let body = json!({"root_rotation_statements": "unreadable"});
    let refused = bed.write("config/orders", &body).err().unwrap();
    assert_eq!(
        refused.message,
        "root_rotation_statements: connection \"orders\": statement 0 cannot be read"
    );
    assert_eq!(bed.host.stored("config/orders"), before);
}

#[test]
fn connection_keeps_version_until_write_names_another() {
    let bed = ready();
    bed.host.add_version("2.0.0");
    let versions = || {
        let data = bed.read("config/orders").unwrap().data;
        (data["plugin_version"].clone(), data["running_plugin_version"].clone())
    };
    bed.write("config/orders", &json!({"allowed_roles": "*"})).unwrap();
    assert_eq!(versions(), (json!(""), json!("1.0.0")));
    bed.write("config/orders", &json!({"plugin_version": ""})).unwrap();
    assert_eq!(versions(), (json!(""), json!("1.0.0")), "the same choice chooses nothing");
    bed.write("config/orders", &json!({"plugin_version": "2.0.0"})).unwrap();
    assert_eq!(versions(), (json!("2.0.0"), json!("2.0.0")));
    bed.write("config/orders", &json!({"plugin_version": "v1.0.0"})).unwrap();
    assert_eq!(versions(), (json!("v1.0.0"), json!("1.0.0")));
    let refused = bed.write("config/orders", &json!({"plugin_version": "3.0.0"})).err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    assert!(refused.message.contains("there is 1.0.0, 2.0.0"), "{}", refused.message);
    assert_eq!(versions(), (json!("v1.0.0"), json!("1.0.0")));
    bed.write("config/orders", &json!({"plugin_version": ""})).unwrap();
    assert_eq!(versions(), (json!(""), json!("2.0.0")), "a cleared choice is the newest");
    bed.write("config/other", &with(orders(), json!({"plugin_name": "test"}))).unwrap();
    assert_eq!(bed.host.chosen_version("other").unwrap(), "2.0.0", "a new connection");
    bed.delete("config/other").unwrap();
    assert_eq!(bed.host.chosen_version("other"), None);
}

#[test]
fn version_of_built_in_plugin_is_not_stored() {
    let bed = empty();
    bed.host.build_in();
    bed.write("config/orders", &with(orders(), json!({"plugin_version": "1.0.0"}))).unwrap();
    assert_eq!(bed.host.stored("config/orders").unwrap()["plugin_version"], "");
}

#[test]
fn override_ends_when_version_choice_is_cleared() {
    let bed = ready();
    let is_overriding =
        || bed.read("config/orders").unwrap().data["override_pinned_version"].clone();
    let over = json!({"plugin_version": "1.0.0", "override_pinned_version": true});
    bed.write("config/orders", &over).unwrap();
    assert_eq!(is_overriding(), json!(true));
    bed.write("config/orders", &json!({"allowed_roles": "*"})).unwrap();
    assert_eq!(is_overriding(), json!(true));
    bed.write("config/orders", &json!({"plugin_version": ""})).unwrap();
    assert_eq!(is_overriding(), json!(false));
}
