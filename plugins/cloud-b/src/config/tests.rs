//! Configurations: stored, shown and refused values.

use crate::fixture::{ACCOUNT_KEY, OTHER_KEY, OWN, SHORT_KEY, configured, empty, key_file};
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

#[test]
fn unwritten_configuration_is_read_with_client_defaults() {
    let expected = json!({
        "iam_alias": "role_id",
        "gce_alias": "role_id",
        "iam_metadata": ["project_id", "role", "service_account_email", "service_account_id"],
        "gce_metadata": [
            "instance_creation_timestamp", "instance_id", "instance_name", "project_id",
            "project_number", "role", "service_account_email", "service_account_id", "zone",
        ],
        "service_account_email": "",
        "identity_token_audience": "",
        "rotation_period": 0,
        "rotation_schedule": "",
        "rotation_window": 0,
        "disable_automated_rotation": false,
        "ttl": 3600,
        "max_ttl": 2_764_800,
    });
    assert_eq!(Value::Object(empty().read("config").unwrap().data), expected);
}

#[test]
fn a_configuration_cannot_be_removed() {
    let refused = configured().delete("config").err().unwrap();
    assert_eq!(refused.kind, FailureKind::UnsupportedOperation);
}

#[test]
fn credentials_omit_key_and_empty_text_removes_credentials() {
    let bed = configured();
    let shown = bed.read("config").unwrap().data;
    for (name, value) in [
        ("client_email", OWN),
        ("client_id", "100000000000000000001"),
        ("private_key_id", "k-own"),
        ("project_id", "home"),
    ] {
        assert_eq!(shown[name], value);
    }
    let text = Value::Object(shown).to_string();
    assert!(!text.contains("PRIVATE KEY") && !text.contains("evil"), "{text}");
    bed.write("config", &json!({ "credentials": "" })).unwrap();
    assert_eq!(bed.read("config").unwrap().data.get("client_email"), None);
    assert!(!bed.host.stored("config").unwrap().to_string().contains("PRIVATE KEY"));
    assert!(bed.host.steps().iter().all(|step| !step.starts_with("send")));
}

#[test]
fn addresses_in_a_key_file_are_not_stored() {
    let bed = configured();
    assert!(!bed.host.stored("config").unwrap().to_string().contains("evil"));
}

#[test]
fn config_update_keeps_absent_fields() {
    let bed = configured();
    let first = json!({
        "custom_endpoint": {"api": "api.p.example", "iam": "https://iam.p.example:444"},
        "iam_alias": "unique_id", "gce_metadata": "zone, role", "identity_token_ttl": "10m",
    });
    let moved = |mut change: Value| {
        let refused = bed.write("config", &change).err().unwrap();
        assert!(refused.message.starts_with("custom_endpoint changes: give credentials"));
        change["credentials"] = json!(key_file("k-own", ACCOUNT_KEY).to_string());
        bed.write("config", &change).unwrap();
    };
    moved(first);
    moved(json!({"gce_alias": "instance_id", "custom_endpoint": {"api": ""}}));
    let shown = bed.read("config").unwrap().data;
    assert_eq!(shown["custom_endpoint"], json!({"iam": "https://iam.p.example:444"}));
    assert_eq!(
        (&shown["iam_alias"], &shown["gce_alias"]),
        (&json!("unique_id"), &json!("instance_id"))
    );
    assert_eq!(shown["gce_metadata"], json!(["role", "zone"]));
    assert_eq!((&shown["identity_token_ttl"], &shown["client_email"]), (&json!(600), &json!(OWN)));
}

#[test]
fn metadata_is_all_or_a_list_or_nothing() {
    let bed = empty();
    let read = || bed.read("config").unwrap().data["iam_metadata"].clone();
    for (given, shown) in [
        (json!("Project_ID , role,role"), json!(["project_id", "role"])),
        (json!([]), json!([])),
        (
            json!(["default"]),
            json!(["project_id", "role", "service_account_email", "service_account_id"]),
        ),
        (json!(""), json!([])),
    ] {
        bed.write("config", &json!({ "iam_metadata": given })).unwrap();
        assert_eq!(read(), shown);
    }
}

#[test]
fn federation_replaces_credentials_in_one_request() {
    let bed = configured();
    let audience = "https://iam.googleapis.com/projects/1/locations/global/x";
    let federation = json!({"identity_token_audience": audience, "service_account_email": OWN});
    let refused = bed.write("config", &federation).err().unwrap();
    assert!(refused.message.starts_with("only one of 'credentials' or"), "{refused}");
    let mut both = federation;
    both["credentials"] = json!("");
    bed.write("config", &both).unwrap();
    let minted = format!("token for {audience}");
    assert!(bed.host.steps().contains(&minted), "a token is made before a login needs one");
    let back = json!({ "credentials": key_file("k", ACCOUNT_KEY).to_string() });
    assert!(bed.write("config", &back).is_err(), "the audience is still set");
}

#[test]
fn federation_without_server_identity_tokens_is_refused() {
    let bed = empty();
    bed.host.refuse("token", Failure::new(FailureKind::PreconditionFailed, "no issuer is set"));
    let federation = json!({"identity_token_audience": "a", "service_account_email": OWN});
    let refused = bed.write("config", &federation).err().unwrap();
    assert_eq!(refused.message, "identity_token_audience: no issuer is set");
    assert_eq!(bed.host.stored("config"), None);
}

#[test]
fn bad_configuration_is_refused_and_not_stored() {
    let file = |change: Value| {
        let mut file = key_file("k", ACCOUNT_KEY);
        for (name, value) in change.as_object().unwrap() {
            file[name] = value.clone();
        }
        json!({ "credentials": file.to_string() })
    };
    for (body, why) in [
        (json!({"credentials": "{"}), "failed to read credentials"),
        (json!({"credentials": {"client_email": OWN}}), "credentials"),
        (json!({"credentials": "[]"}), "failed to read credentials"),
        (file(json!({"private_key_id": ""})), "credentials have no signing key"),
        (file(json!({"private_key": "secret-nonsense"})), "no PEM to sign with"),
        (file(json!({"private_key": SHORT_KEY})), "2048 bits"),
        (file(json!({"client_email": "../x"})), "without a sound address"),
        (
            json!({"iam_alias": "instance_id"}),
            "invalid IAM alias type: must be one of: role_id, unique_id",
        ),
        (
            json!({"gce_alias": "unique_id"}),
            "invalid GCE alias type: must be one of: instance_id, role_id",
        ),
        (
            json!({"iam_metadata": "zone"}),
            "failed to parse iam metadata: \"zone\" contains an unavailable field",
        ),
        (
            json!({"gce_metadata": "default,zone"}),
            "failed to parse gce metadata: [\"default\" \"zone\"] contains default",
        ),
        (
            json!({"custom_endpoint": {"sts": "x.example"}}),
            "Available types are: 'api', 'iam', 'crm', 'compute'",
        ),
        (json!({"custom_endpoint": {"api": "http://x.example"}}), "custom_endpoint api"),
        (json!({"custom_endpoint": {"api": "https://169.254.169.254"}}), "custom_endpoint api"),
        (json!({"identity_token_audience": "a"}), "missing required 'service_account_email'"),
        (json!({"service_account_email": "a"}), "service_account_email \"a\""),
        (json!({"rotation_period": 9}), "rotation_period"),
        (json!({"rotation_period": 60, "rotation_schedule": "* * * * *"}), "mutually exclusive"),
    ] {
        let bed = empty();
        let refused = bed.write("config", &body).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{refused}");
        assert!(refused.message.contains(why), "{refused}");
        assert!(!refused.message.contains("secret-nonsense"), "{refused}");
        assert_eq!(bed.host.stored("config"), None);
    }
}

#[test]
fn rotation_due_requires_key_and_ignores_other_settings() {
    let bed = empty();
    let warned = bed.write("config", &json!({ "rotation_period": "1h" })).unwrap();
    assert!(warned.warnings[0].contains("nothing is rotated"), "{:?}", warned.warnings);
    assert_eq!(bed.host.timer("rotation"), None);
    let credentials = key_file("k", ACCOUNT_KEY).to_string();
    bed.write("config", &json!({ "credentials": credentials })).unwrap();
    let due = bed.host.timer("rotation").unwrap();
    bed.host.advance(60);
    bed.write("config", &json!({ "iam_alias": "unique_id" })).unwrap();
    assert_eq!(bed.host.timer("rotation"), Some(due));
    let other = key_file("k2", OTHER_KEY).to_string();
    bed.write("config", &json!({ "credentials": other })).unwrap();
    assert_eq!(bed.host.timer("rotation"), Some(due + 60_000), "a new key begins its own period");
    bed.write("config", &json!({ "disable_automated_rotation": true })).unwrap();
    assert_eq!(bed.host.timer("rotation"), None);
}
