//! The configuration: partial updates, contradictory settings, and the fields shown by reads.

use crate::configuration::{Config, DUE};
use crate::fixture::{CLIENT, RESOURCE, SECRET, TENANT, empty, ready};
use bulkhead_sdk::{FailureKind, Host};
use serde_json::{Value, json};

fn minimal() -> Value {
    json!({"tenant_id": TENANT, "resource": RESOURCE})
}

#[test]
fn a_read_shows_the_defaults_and_no_secret() {
    let bed = ready();
    let shown = Value::Object(bed.read("config").unwrap().data);
    assert_eq!(
        shown,
        json!({
            "tenant_id": TENANT, "resource": RESOURCE, "environment": "", "client_id": CLIENT,
            "identity_token_audience": "", "identity_token_ttl": 3_600,
            "root_password_ttl": 15_768_000, "max_retries": 3, "retry_delay": "4s",
            "max_retry_delay": "60s", "rotation_period": 0, "rotation_schedule": "",
            "rotation_window": 0, "disable_automated_rotation": false,
        })
    );
    assert_eq!(empty().read("config").err().unwrap().kind, FailureKind::NotFound);
}

#[test]
fn client_secret_is_shown_only_with_sudo() {
    let mut bed = ready();
    bed.caller.capabilities = vec!["read".to_owned()];
    assert!(!bed.read("config").unwrap().data.contains_key("client_secret"));
    bed.caller.capabilities = vec!["read".to_owned(), "sudo".to_owned()];
    assert_eq!(bed.read("config").unwrap().data["client_secret"], SECRET);
}

#[test]
fn partial_config_update_keeps_absent_fields() {
    let bed = empty();
    let mut body = minimal();
    let more = json!({
        "client_id": CLIENT, "client_secret": SECRET, "max_retries": 7, "retry_delay": "2s",
        "max_retry_delay": "-1", "root_password_ttl": "1h", "identity_token_ttl": 60,
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bed.write("config", &body).unwrap();
    for update in [
        json!({"environment": "AzureUSGovernmentCloud", "client_secret": SECRET}),
        json!({"max_retries": "", "retry_delay": "", "root_password_ttl": ""}),
    ] {
        bed.write("config", &update).unwrap();
    }
    let shown = bed.read("config").unwrap().data;
    for (name, value) in [
        ("max_retries", json!(7)),
        ("retry_delay", json!("2s")),
        ("max_retry_delay", json!("-1s")),
        ("root_password_ttl", json!(3_600)),
        ("identity_token_ttl", json!(60)),
        ("environment", json!("AzureUSGovernmentCloud")),
        ("client_id", json!(CLIENT)),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    assert_eq!(bed.host.stored("config").unwrap()["client_secret"], SECRET);
}

#[test]
fn azure_mount_shows_delays_in_nanoseconds() {
    let mut bed = ready();
    bed.mount.kind = "azure".to_owned();
    bed.write("config", &json!({"retry_delay": 4, "max_retry_delay": "1m"})).unwrap();
    let shown = bed.read("config").unwrap().data;
    assert_eq!(shown["retry_delay"], json!(4_000_000_000_i64));
    assert_eq!(shown["max_retry_delay"], json!(60_000_000_000_i64));
}

#[test]
fn contradictory_or_missing_settings_are_refused_without_change() {
    let bed = ready();
    let before = bed.host.stored("config");
    for (update, why) in [
        (json!({"tenant_id": ""}), "tenant_id is required"),
        (json!({"tenant_id": "common"}), "tenant_id \"common\""),
        (json!({"tenant_id": "../x"}), "tenant_id \"../x\""),
        (json!({"tenant_id": "x?y="}), "tenant_id \"x?y=\""),
        (json!({"resource": ""}), "resource is required"),
        (json!({"environment": "Moon"}), "no cloud configuration matching the name \"Moon\""),
        (
            json!({"identity_token_audience": "api://AzureADTokenExchange"}),
            "only one of 'client_secret' or 'identity_token_audience' can be set",
        ),
        (json!({"retry_delay": "soon"}), "retry_delay: \"soon\""),
        (json!({"rotation_period": 5}), "rotation_period must be 10 seconds or more"),
        (json!({"rotation_period": 60, "rotation_schedule": "0 0 * * *"}), "mutually exclusive"),
        (json!({"client_secret": "", "rotation_period": 60}), "needs client_id and client_secret"),
    ] {
        let refused = bed.write("config", &update).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{update}");
        assert!(refused.message.contains(why), "{update}: {}", refused.message);
        assert_eq!(bed.host.stored("config"), before, "{update}");
    }
}

#[test]
fn one_request_swaps_secret_for_tried_federated_identity() {
    let bed = ready();
    let federated = json!({"client_secret": "", "identity_token_audience": "api://Exchange"});
    bed.write("config", &federated).unwrap();
    assert!(bed.host.steps().contains(&"token for api://Exchange".to_owned()));
    bed.host
        .refuse("token", bulkhead_sdk::Failure::new(FailureKind::PreconditionFailed, "no issuer"));
    let refused = bed.write("config", &json!({"max_retries": 1})).err().unwrap();
    assert_eq!(refused.kind, FailureKind::PreconditionFailed);
}

#[test]
fn missing_settings_come_from_either_environment_spelling() {
    let bed = empty();
    assert!(bed.write("config", &json!({"client_id": CLIENT})).is_err());
    bed.host.set_environment("AZURE_TENANT_ID", TENANT);
    bed.host.set_environment("CLOUDA_AD_RESOURCE", RESOURCE);
    bed.write("config", &json!({"client_id": CLIENT})).unwrap();
    let shown = bed.read("config").unwrap().data;
    assert_eq!((&shown["tenant_id"], &shown["resource"]), (&json!(""), &json!("")));
    bed.host.set_environment("CLOUDA_TENANT_ID", "common");
    let refused = bed.write("config", &json!({"client_id": CLIENT})).err().unwrap();
    assert!(refused.message.contains("\"common\""), "the contract's word is first");
}

#[test]
fn rotation_and_timer_are_set_moved_and_removed() {
    let bed = ready();
    let now = bed.host.clock().now();
    bed.write("config", &json!({"rotation_period": "1h"})).unwrap();
    assert_eq!(bed.host.timer(DUE), Some(now + 3_600_000));
    bed.write("config", &json!({"max_retries": 1})).unwrap();
    assert_eq!(bed.host.timer(DUE), Some(now + 3_600_000));
    bed.write("config", &json!({"disable_automated_rotation": true})).unwrap();
    assert_eq!(bed.host.timer(DUE), None);
    bed.write("config", &json!({"disable_automated_rotation": false})).unwrap();
    bed.delete("config").unwrap();
    assert_eq!((bed.host.timer(DUE), bed.host.stored("config")), (None, None));
    bed.delete("config").unwrap();
}

#[test]
fn another_credential_is_another_generation() {
    let bed = ready();
    let generation = |bed: &crate::fixture::CloudBed| {
        bed.host.stored("config").unwrap()["generation"].as_u64().unwrap()
    };
    let first = generation(&bed);
    bed.write("config", &json!({"max_retries": 1})).unwrap();
    assert_eq!(generation(&bed), first);
    bed.write("config", &json!({"client_secret": "other"})).unwrap();
    assert_eq!(generation(&bed), first + 1);
    assert_eq!(Config::default().max_retries, 3);
}
