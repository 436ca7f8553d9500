//! Writing, showing and removing the configuration on the test bed.

use crate::fixture::{AUTHORITY, TOKEN, bed, replica_config};
use serde_json::{Value, json};

#[test]
fn a_read_shows_no_token() {
    let bed = bed();
    bed.write("config", &replica_config()).unwrap();
    let shown = Value::Object(bed.read("config").unwrap().data);
    assert!(!shown.to_string().contains(TOKEN), "{shown}");
    assert_eq!(shown["authoritative_region"], "global");
    assert!(bed.host.timer("replicate/roles").is_some());
    bed.delete("config").unwrap();
    assert_eq!(bed.read("config").unwrap().data["region"], "global");
    assert!(bed.host.timer("replicate/roles").is_none());
}

#[test]
fn token_goes_to_no_other_server() {
    let bed = bed();
    bed.write("config", &replica_config()).unwrap();
    let before = bed.host.stored("config");
    let elsewhere = json!({"addresses": [AUTHORITY, "http://evil.example"]});
    let why = bed.write("config", &elsewhere).err().unwrap();
    assert!(why.message.contains("give replication_token"), "{}", why.message);
    assert_eq!(bed.host.stored("config"), before);
    let both = json!({"addresses": ["http://b.example"], "replication_token": TOKEN});
    bed.write("config", &both).unwrap();
}

#[test]
fn settings_that_have_no_use_are_refused() {
    let bed = bed();
    let config = replica_config();
    let without = |field: &str| {
        let mut body = config.clone();
        body.as_object_mut().unwrap().remove(field);
        body
    };
    let with = |field: &str, value: Value| {
        let mut body = config.clone();
        body[field] = value;
        body
    };
    for (body, expected) in [
        (without("addresses"), "addresses is empty"),
        (without("replication_token"), "replication_token is missing"),
        (without("authoritative_region"), "give authoritative_region too"),
        (with("region", json!("global")), "give authoritative_region too"),
        (with("region", json!("a b")), "region \"a b\" is not a name"),
        (with("addresses", json!(["10.0.0.1:4646"])), "not a base URL"),
        (with("addresses", json!(["http://u:hunter2@h"])), "not a base URL"),
        (with("replication_backoff", json!("1ms")), "give 100ms or more"),
        (with("replication_backoff", json!("soon")), "not a duration"),
        (with("replication_token", json!("a b")), "replication_token has a character"),
        (with("ca_certificate", json!("x")), "ca_certificate"),
    ] {
        let why = bed.write("config", &body).err().unwrap();
        assert!(why.message.contains(expected), "{}", why.message);
        assert!(!why.message.contains("hunter2"));
        assert_eq!(bed.host.stored("config"), None);
    }
}
