//! Storing, showing, refusing and verifying configurations.

use crate::fixture::{ENGINE, config, configured, empty};
use bulkhead_sdk::testbed::Flavour;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

const AD: Flavour = Flavour::ActiveDirectory;

fn with(change: Value) -> Value {
    let mut body = config(AD).as_object().unwrap().clone();
    body.extend(change.as_object().unwrap().clone());
    Value::Object(body)
}

#[test]
fn configuration_is_read_with_defaults_without_password() {
    let bed = empty(AD);
    assert_eq!(bed.read("config").err().unwrap(), Failure::absent());
    bed.write("config", &json!({"binddn": ENGINE, "bindpass": "secret-of-engine"})).unwrap();
    let expected = json!({
        "url": "ldap://127.0.0.1", "binddn": ENGINE, "userdn": "", "upndomain": "",
        "schema": "ad", "self_rotation": false, "ttl": 3600, "max_ttl": 2764800,
        "last_rotation_tolerance": 5, "password_policy": "", "length": 64, "formatter": "",
        "connection_timeout": 30, "starttls": false,
        "insecure_tls": false, "certificate": "", "tls_min_version": "tls12",
        "tls_max_version": "tls13",
    });
    assert_eq!(Value::Object(bed.read("config").unwrap().data), expected);
    let steps = bed.host.steps();
    assert!(
        !steps.iter().any(|step| step.starts_with("ldap") && !step.starts_with("ldap-close")),
        "nothing is asked of the directory"
    );
    bed.delete("config").unwrap();
    bed.delete("config").unwrap();
    assert_eq!(bed.read("config").err().unwrap(), Failure::absent());
}

#[test]
fn config_update_keeps_absent_fields() {
    let bed = configured(AD);
    bed.write("config", &json!({"length": "20", "ttl": "5m"})).unwrap();
    bed.write("config", &json!({"request_timeout": 7})).unwrap();
    let shown = bed.read("config").unwrap().data;
    assert_eq!((&shown["length"], &shown["ttl"]), (&json!(20), &json!(300)));
    assert_eq!(shown["request_timeout"], 7);
    bed.write("config", &json!({"request_timeout": 0})).unwrap();
    let shown = bed.read("config").unwrap().data;
    assert_eq!(shown.get("request_timeout"), None, "a default that was not written is not shown");
    assert_eq!(bed.host.stored("config").unwrap()["bindpass"], "secret-of-engine");
}

#[test]
fn policy_and_length_with_formatter_replace_each_other() {
    let bed = configured(AD);
    bed.write("config", &json!({"length": 20, "formatter": "x{{PASSWORD}}"})).unwrap();
    bed.write("config", &json!({"password_policy": "long"})).unwrap();
    let shown = bed.read("config").unwrap().data;
    assert_eq!((&shown["length"], &shown["formatter"]), (&json!(0), &json!("")));
    bed.write("config", &json!({"length": 30})).unwrap();
    assert_eq!(bed.read("config").unwrap().data["password_policy"], "");
    for both in [
        json!({"password_policy": "p", "length": 20}),
        json!({"password_policy": "p", "formatter": "{{PASSWORD}}"}),
    ] {
        let refused = bed.write("config", &both).err().unwrap();
        assert!(refused.message.contains("exclude each other"), "{refused}");
    }
}

#[test]
fn bad_configuration_is_refused_and_not_stored() {
    for (change, why) in [
        (json!({"url": "http://x"}), "url \"http://x\""),
        (json!({"url": ","}), "names 0 servers"),
        (json!({"binddn": ""}), "binddn is required"),
        (json!({"bindpass": ""}), "bindpass is required"),
        (json!({"bindpass": "", "self_rotation": true}), "bindpass is required"),
        (json!({"schema": "novell"}), "schema \"novell\""),
        (json!({"tls_min_version": "tls10"}), "tls_min_version \"tls10\""),
        (json!({"tls_max_version": "tls11"}), "tls_max_version \"tls11\""),
        (json!({"tls_min_version": "tls13", "tls_max_version": "tls12"}), "is above"),
        (json!({"certificate": "nonsense"}), "certificate"),
        (json!({"ttl": "2h", "max_ttl": "1h"}), "ttl 2h is longer than max_ttl 1h"),
        (json!({"ttl": "33d"}), "longer than max_ttl"),
        (json!({"length": 13}), "length 13"),
        (json!({"formatter": "none"}), "formatter \"none\""),
        (json!({"request_timeout": -1}), "request_timeout"),
        (json!({"starttls": "perhaps"}), "starttls"),
    ] {
        let bed = empty(AD);
        let refused = bed.write("config", &with(change)).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{refused}");
        assert!(refused.message.contains(why), "{refused}");
        assert!(!refused.message.contains("secret-of-engine"), "{refused}");
        assert_eq!(bed.host.stored("config"), None);
    }
}

#[test]
fn insecure_settings_are_reported() {
    let bed = empty(AD);
    let insecure = json!({"insecure_tls": true, "url": "ldaps://a, ldap://dc1.corp"});
    let warnings = bed.write("config", &with(insecure)).unwrap().warnings;
    assert!(warnings[0].contains("insecure_tls") && warnings[1].contains("ldap://dc1.corp"));
    let secure = json!({"insecure_tls": false, "starttls": true, "bindpass": "secret-of-engine"});
    assert!(bed.write("config", &secure).unwrap().warnings.is_empty());
}

#[test]
fn password_goes_to_no_other_or_weaker_server() {
    let bed = empty(AD);
    bed.write("config", &with(json!({"url": "ldaps://a.example,ldaps://b.example"}))).unwrap();
    let before = bed.host.stored("config");
    for (change, field) in [
        (json!({"url": "ldaps://thief.example"}), "url"),
        (json!({"url": "ldaps://a.example,ldaps://b.example,ldaps://thief.example"}), "url"),
        (json!({"url": "ldap://a.example"}), "url"),
        (json!({"url": "ldaps://a.example:1636"}), "url"),
        (json!({"insecure_tls": true}), "insecure_tls"),
        (json!({"starttls": true}), "starttls"),
        (json!({"url": "ldaps://thief.example", "verify": true}), "url"),
    ] {
        let refused = bed.write("config", &change).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{change}");
        let says = format!("{field} changes: give bindpass in the same request");
        assert!(refused.message.starts_with(&says), "{change}: {refused}");
        assert_eq!(bed.host.stored("config"), before);
        let mut body = change.as_object().unwrap().clone();
        body.remove("verify");
        body.insert("bindpass".to_owned(), json!("secret-of-engine"));
        bed.write("config", &Value::Object(body)).unwrap();
        bed.write(
            "config",
            &with(json!({"url": "ldaps://a.example,ldaps://b.example",
            "insecure_tls": false, "starttls": false})),
        )
        .unwrap();
    }
    bed.write("config", &json!({"userdn": "ou=x", "tls_min_version": "tls13"})).unwrap();
}

#[test]
fn dry_run_tries_settings_and_stores_nothing() {
    let bed = empty(AD);
    let tried = bed.write("config", &with(json!({"verify": true}))).unwrap();
    assert_eq!(Value::Object(tried.data), json!({"verified": true, "stored": false}));
    assert_eq!(bed.host.stored("config"), None);
    for (change, why) in [
        (json!({"bindpass": "wrong"}), "binddn and bindpass: "),
        (json!({"schema": "openldap"}), "use schema ad"),
        (json!({"userdn": "OU=none,DC=corp,DC=example"}), "userdn: "),
    ] {
        let mut body = with(change);
        body["verify"] = json!(true);
        let refused = bed.write("config", &body).err().unwrap();
        assert!(refused.message.contains(why), "{refused}");
        assert_eq!(bed.host.stored("config"), None);
    }
}

#[test]
fn new_bindpass_removes_previous_bindpass() {
    let bed = configured(AD);
    bed.write("rotate-root", &json!({})).unwrap();
    bed.host.directory().set_password(ENGINE, "by-hand");
    bed.write("config", &json!({"bindpass": "by-hand"})).unwrap();
    let stored = bed.host.stored("config").unwrap();
    assert_eq!(stored["previous_bindpass"], "");
    assert_eq!(stored["bindpass_rotated"], Value::Null);
}

#[test]
fn verification_warns_if_binddn_cannot_read_ids() {
    for (flavour, attribute) in
        [(AD, "objectGUID"), (Flavour::OpenLdap, "entryUUID"), (Flavour::OpenLdap, "nsUniqueId")]
    {
        let bed = empty(flavour);
        let mut body = config(flavour);
        body["verify"] = json!(true);
        let people = "OU=people,DC=corp,DC=example";
        assert!(bed.write("config", &body).unwrap().warnings.is_empty());
        bed.host.directory().set(people, "objectGUID", "");
        bed.host.directory().set(people, "entryUUID", "");
        let answer = bed.write("config", &body).unwrap();
        assert!(answer.warnings[0].contains("neither entryUUID nor objectGUID"), "{attribute}");
        let id = if attribute == "nsUniqueId" { "66446001-1dd211b2-80a6f6d0-0a7c0000" } else { "" };
        bed.host.directory().set(people, attribute, id);
        assert_eq!(bed.write("config", &body).unwrap().warnings.is_empty(), !id.is_empty());
    }
}
