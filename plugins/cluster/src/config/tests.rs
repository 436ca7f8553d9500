//! Tests of writing, showing and removing the configuration, on the test bed.

use crate::fixture::{OWN, SERVER, bound, empty, token};
use bulkhead_sdk::host::Pod;
use bulkhead_sdk::{FailureKind, RevocationReason};
use serde_json::{Value, json};

const OTHER: &str = "https://other.example:6443";

fn written() -> Value {
    json!({"cluster_host": SERVER, "service_account_jwt": OWN})
}

#[test]
fn a_read_shows_both_vocabularies_and_no_token() {
    let bed = empty();
    let body = json!({
        "kubernetes_host": "https://api.example:6443/", "service_account_jwt": format!(" {OWN}\n"),
        "disable_local_ca_jwt": "true",
    });
    assert!(bed.write("config", &body).unwrap().warnings.is_empty());
    assert_eq!(
        Value::Object(bed.read("config").unwrap().data),
        json!({
            "cluster_host": SERVER, "kubernetes_host": SERVER,
            "cluster_ca_cert": "", "kubernetes_ca_cert": "",
            "disable_local_ca_jwt": true,
        })
    );
    assert_eq!(bed.host.stored("config").unwrap()["service_account_jwt"], OWN);
}

#[test]
fn fields_missing_in_an_update_stay() {
    let bed = empty();
    bed.write("config", &written()).unwrap();
    bed.write("config", &json!({"cluster_host": SERVER})).unwrap();
    let stored = bed.host.stored("config").unwrap();
    assert_eq!(
        (&stored["cluster_host"], &stored["service_account_jwt"]),
        (&json!(SERVER), &json!(OWN))
    );
}

#[test]
fn token_goes_to_no_other_server() {
    let bed = empty();
    bed.write("config", &written()).unwrap();
    let before = bed.host.stored("config");
    let refused = bed.write("config", &json!({"cluster_host": OTHER})).err().unwrap();
    assert!(refused.message.contains("service_account_jwt"), "{}", refused.message);
    assert_eq!(bed.host.stored("config"), before);
    bed.write("config", &json!({"cluster_host": SERVER})).unwrap();
    bed.write("config", &json!({"cluster_host": OTHER, "service_account_jwt": OWN})).unwrap();
}

#[test]
fn token_goes_to_no_server_with_other_proof() {
    let bed = empty();
    bed.write("config", &written()).unwrap();
    let change = json!({"disable_local_ca_jwt": true});
    let refused = bed.write("config", &change).err().unwrap();
    assert!(refused.message.starts_with("disable_local_ca_jwt changes"), "{}", refused.message);
    let mut change = change.as_object().unwrap().clone();
    change.insert("service_account_jwt".to_owned(), json!(OWN));
    bed.write("config", &Value::Object(change)).unwrap();
}

#[test]
fn unusable_configuration_is_refused_on_write() {
    let bed = empty();
    let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (changes, expected) in [
        (json!({"cluster_host": "host"}), "cluster_host"),
        (json!({"cluster_host": "http://api.example"}), "https://"),
        (json!({"cluster_host": ""}), "cluster_host was unset"),
        (json!({"cluster_ca_cert": "cert"}), "cluster_ca_cert"),
        (json!({"cluster_ca_cert": pem}), "cluster_ca_cert"),
        (json!({"service_account_jwt": "hunter2"}), "not a JWT"),
        (json!({"service_account_jwt": "a.b.c\r\nx: y"}), "not a JWT"),
        (json!({"service_account_jwt": ""}), "service_account_jwt is not set"),
        (json!({"service_account_jwt": format!("a.b.{}", "c".repeat(70_000))}), "64 KiB"),
        (json!({"kubernetes_host": OTHER}), "kubernetes_host"),
    ] {
        let mut body = written();
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let refused = bed.write("config", &body).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(refused.message.contains(expected), "{}", refused.message);
        assert!(!refused.message.contains("hunter2"));
        assert_eq!(bed.host.stored("config"), None);
    }
}

#[test]
fn deleted_configuration_is_kept_until_its_leases_end() {
    let bed = bound();
    let lease = bed.write("creds/two", &json!({})).unwrap().lease.unwrap();
    let reply = bed.delete("config").unwrap();
    assert!(reply.warnings[0].contains(": 1;"), "{:?}", reply.warnings);
    assert_eq!(bed.read("config").err().unwrap().kind, FailureKind::NotFound);
    assert!(bed.write("creds/two", &json!({})).err().unwrap().message.contains("config first"));
    assert_eq!(former_count(&bed), 1);
    bed.revoke(&lease, RevocationReason::Requested).unwrap();
    assert_eq!(former_count(&bed), 0);
    assert!(bed.delete("config").unwrap().warnings.is_empty());
}

#[test]
fn leases_of_another_server_end_there() {
    let bed = bound();
    let lease = bed.write("creds/two", &json!({})).unwrap().lease.unwrap();
    bed.write("config", &json!({"cluster_host": OTHER, "service_account_jwt": "x.y.z"})).unwrap();
    bed.host.requests();
    bed.revoke(&lease, RevocationReason::Expired).unwrap();
    for request in bed.host.requests() {
        assert!(request.url.starts_with(SERVER), "{}", request.url);
        assert!(request.headers.contains(&("authorization".to_owned(), format!("Bearer {OWN}"))));
    }
    assert_eq!(former_count(&bed), 0);
}

#[test]
fn replacement_token_ends_leases_of_former_token() {
    let bed = bound();
    let lease = bed.write("creds/two", &json!({})).unwrap().lease.unwrap();
    bed.delete("config").unwrap();
    bed.write("config", &json!({"cluster_host": SERVER, "service_account_jwt": "x.y.z"})).unwrap();
    assert_eq!(former_count(&bed), 0, "the new configuration leads there");
    bed.host.requests();
    bed.revoke(&lease, RevocationReason::Expired).unwrap();
    let sent = bed.host.requests();
    assert!(sent[0].headers.contains(&("authorization".to_owned(), "Bearer x.y.z".to_owned())));
}

/// Returns the pod of the server in these tests.
fn own() -> Pod {
    Pod { host: "10.96.0.1".to_owned(), port: 443, namespace: Some("vault".to_owned()) }
}

#[test]
fn pod_needs_only_empty_configuration() {
    let bed = empty();
    assert!(
        bed.write("config", &json!({})).err().unwrap().message.contains("cluster_host was unset")
    );
    bed.host.set_pod(Some(own()));
    bed.write("config", &json!({})).unwrap();
    assert_eq!(bed.read("config").unwrap().data["cluster_host"], "");
    let role = json!({"allowed_cluster_namespaces": "apps", "service_account_name": "app"});
    bed.write("roles/one", &role).unwrap();
    let place = "https://10.96.0.1:443/api/v1/namespaces/apps/serviceaccounts/app/token";
    bed.host.answer(&format!("POST {place}"), token(3_600));
    bed.write("creds/one", &json!({})).unwrap();
    let sent = bed.host.requests();
    assert!(sent[0].identity.is_some() && sent[0].tls.is_none());
    assert!(sent[0].headers.iter().all(|(name, _)| name != "authorization"));
}

#[test]
fn pod_identity_goes_only_to_its_own_cluster() {
    let bed = empty();
    bed.host.set_pod(Some(own()));
    for refused in [
        json!({"cluster_host": OTHER}),
        json!({"cluster_host": "https://10.96.0.1:6443"}),
        json!({"cluster_host": "https://10.96.0.10"}),
        json!({"disable_local_ca_jwt": true}),
    ] {
        let why = bed.write("config", &refused).err().unwrap().message;
        assert!(why.contains("service_account_jwt is not set"), "{why}");
    }
    bed.write("config", &json!({"cluster_host": "https://10.96.0.1"})).unwrap();
    assert!(bed.write("config", &json!({"cluster_host": OTHER})).is_err());
    bed.write("config", &json!({"cluster_host": OTHER, "service_account_jwt": OWN})).unwrap();
    let role = json!({"allowed_cluster_namespaces": "apps", "service_account_name": "app"});
    bed.write("roles/one", &role).unwrap();
    assert!(bed.write("creds/one", &json!({})).is_err());
    assert!(bed.host.requests()[0].identity.is_none());
}

#[test]
fn configured_token_is_sent_with_pod_authority() {
    let bed = empty();
    bed.host.set_pod(Some(own()));
    bed.write("config", &json!({"service_account_jwt": OWN})).unwrap();
    let role = json!({"allowed_cluster_namespaces": "apps", "service_account_name": "app"});
    bed.write("roles/one", &role).unwrap();
    assert!(bed.write("creds/one", &json!({})).is_err());
    let sent = bed.host.requests();
    assert!(sent[0].identity.is_some());
    assert!(sent[0].headers.contains(&("authorization".to_owned(), format!("Bearer {OWN}"))));
}

#[test]
fn check_says_whether_the_server_is_a_pod() {
    let bed = empty();
    let why = bed.read("check").err().unwrap();
    assert_eq!(why.kind, FailureKind::InvalidRequest);
    assert!(why.message.contains("KUBERNETES_SERVICE_HOST"), "{}", why.message);
    bed.host.set_pod(Some(own()));
    assert!(bed.read("check").is_ok());
}

fn former_count(bed: &bulkhead_sdk::testbed::TestBed<crate::Cluster>) -> usize {
    use bulkhead_sdk::Host;
    bed.host.storage().keys("former/", "", 10).unwrap().len()
}
