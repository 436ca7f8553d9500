//! The method's own identity at Google: a rotated key, federation, and a token that Google has
//! revoked; and the groups of a project.

use super::google::{EMAIL, Google, OWN};
use super::{client, configured, login, ready, renew};
use crate::ambient::metadata::{MetadataServices, TOKEN};
use bulkhead_tests::internet::Online;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);
const POOL: &str = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/\
                    providers/x";

#[test]
fn key_rotation_removes_old_key_one_minute_later() {
    let google = Google::start();
    let mut online = ready(&google);
    let before = google.cloud.keys(OWN);
    let rotated = online.root.write("auth/gcp/config/rotate-root", &json!({})).expect(200);
    let key_id = rotated.body["data"]["private_key_id"].as_str().expect("a key").to_owned();
    assert_eq!(google.cloud.keys(OWN), [before, vec![key_id.clone()]].concat());
    online.restart_later(Duration::from_secs(300));
    until_true("the old key is removed", SOON, || google.cloud.keys(OWN).len() == 1);
    assert_eq!(google.cloud.keys(OWN), [key_id]);
    let jwt = google.of_account(&json!({ "exp": bulkhead_tests::cloud_b::now() + 900 }));
    login(&online, "dev", &jwt).expect(200);
}

#[test]
fn rotation_does_not_postpone_end_of_earlier_key() {
    let google = Google::start();
    let mut online = ready(&google);
    let rotate = |online: &Online| {
        let rotated = online.root.write("auth/gcp/config/rotate-root", &json!({})).expect(200);
        rotated.body["data"]["private_key_id"].as_str().expect("a key").to_owned()
    };
    let second = rotate(&online);
    online.restart_later(Duration::from_secs(40));
    let third = rotate(&online);
    online.restart_later(Duration::from_secs(75));
    until_true("the first key is removed, and no other", SOON, || {
        google.cloud.keys(OWN) == [second.clone(), third.clone()]
    });
    online.restart_later(Duration::from_secs(120));
    until_true("then the second", SOON, || google.cloud.keys(OWN) == [third.clone()]);
}

#[test]
fn exhausted_key_quota_is_reported_with_remedy() {
    let google = Google::start();
    let online = ready(&google);
    while google.cloud.keys(OWN).len() < 10 {
        google.cloud.credentials(OWN);
    }
    let full = online.root.write("auth/gcp/config/rotate-root", &json!({})).expect(400).errors();
    for part in ["answered 429 (RESOURCE_EXHAUSTED)", "has 10 keys", "remove an unused key"] {
        assert!(full.contains(part), "{full}");
    }
}

#[test]
fn key_is_rotated_after_its_period() {
    let google = Google::start();
    let mut online = ready(&google);
    let before = google.cloud.keys(OWN);
    online.root.write("auth/gcp/config", &json!({ "rotation_period": "1h" })).expect(204);
    online.restart_later(Duration::from_secs(3_700));
    until_true("a key is made and in force", SOON, || {
        let config = online.root.read("auth/gcp/config").expect(200);
        config.body["data"]["private_key_id"] != before[0].as_str()
    });
    online.restart_later(Duration::from_secs(4_000));
    until_true("the old key is removed", SOON, || google.cloud.keys(OWN).len() == 1);
    assert_ne!(google.cloud.keys(OWN), before);
}

#[test]
fn mount_without_key_uses_identity_token() {
    let google = Google::start();
    let online = ready(&google);
    let jwt = google.of_account(&json!({}));
    let config = json!({
        "credentials": "", "identity_token_audience": format!("https:{POOL}"),
        "service_account_email": OWN,
    });
    online.root.write("auth/gcp/config", &config).expect(204);
    // Google does not know the issuer yet.
    login(&online, "dev", &jwt).expect(400);
    let stranger = online.server.client(None);
    let issuer =
        stranger.read("identity/oidc/plugins/.well-known/openid-configuration").expect(200);
    let keys = stranger.read("identity/oidc/plugins/.well-known/keys").expect(200).body;
    let accessor = online.root.read("sys/auth/gcp").expect(200).text("accessor").to_owned();
    let subject = format!("plugin-identity:root:auth:{accessor}");
    let issuer = issuer.body["issuer"].as_str().expect("an issuer").to_owned();
    google.cloud.federate(POOL, &issuer, &keys, &subject);
    login(&online, "dev", &jwt).expect(200);
    google.cloud.federate(POOL, &issuer, &keys, "plugin-identity:root:auth:another");
    google.cloud.revoke_access();
    login(&online, "dev", &jwt).expect(400);
    online.root.write("auth/gcp/config/rotate-root", &json!({})).expect(400);
}

#[test]
fn a_token_revoked_by_google_is_replaced() {
    let google = Google::start();
    let online = ready(&google);
    login(&online, "dev", &google.of_account(&json!({}))).expect(200);
    google.cloud.revoke_access();
    login(&online, "dev", &google.of_account(&json!({}))).expect(200);
    assert_eq!(google.internet.asked("oauth2.googleapis.com").len(), 2);
}

#[test]
fn project_folders_and_organization_become_groups() {
    let google = Google::start();
    let online = ready(&google);
    google.cloud.put_below("p1", &[("folder", "123"), ("organization", "456")]);
    online.root.write("auth/gcp/role/dev", &json!({ "add_group_aliases": true })).expect(204);
    let accessor = online.root.read("sys/auth/gcp").expect(200).text("accessor").to_owned();
    for name in ["project-p1", "folder-123", "organization-456", "organization-9"] {
        let rules = json!({ "policy": format!("path \"{name}\" {{ capabilities = [\"read\"] }}") });
        online.root.write(&format!("sys/policies/acl/of-{name}"), &rules).expect(204);
        let group = json!({ "name": name, "type": "external", "policies": [format!("of-{name}")] });
        let group = online.root.write("identity/group", &group).expect(200);
        let alias = json!({
            "name": name, "mount_accessor": accessor, "canonical_id": group.body["data"]["id"],
        });
        online.root.write("identity/group-alias", &alias).expect(200);
    }
    let answer = login(&online, "dev", &google.of_account(&json!({}))).expect(200);
    let given = &answer.body["auth"]["identity_policies"];
    let mut given: Vec<&str> =
        given.as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
    given.sort_unstable();
    assert_eq!(given, ["of-folder-123", "of-organization-456", "of-project-p1"]);
    assert_eq!(answer.body["auth"]["metadata"]["service_account_email"], EMAIL);
    let first = client(&online, &answer);
    let of_first = || {
        let own = first.read("auth/token/lookup-self").expect(200);
        own.body["data"]["identity_policies"].clone()
    };
    // The project moves to another organization.
    google.cloud.put_below("p1", &[("organization", "9")]);
    let answer = login(&online, "dev", &google.of_account(&json!({}))).expect(200);
    let given = &answer.body["auth"]["identity_policies"];
    let moved = json!(["of-organization-9", "of-project-p1"]);
    assert_eq!(given, &moved);
    let proven = json!(["of-folder-123", "of-organization-456", "of-project-p1"]);
    assert_eq!(of_first(), proven, "another login does not change the first login");
    renew(&first).expect(200);
    assert_eq!(of_first(), moved, "proven again");
}

#[test]
fn mount_without_credentials_uses_server_machine_identity() {
    let (google, metadata) = (Google::start(), MetadataServices::start());
    let block = format!("ambient {{ google_metadata = \"{}\" }}\n", metadata.address);
    let online = configured(&google, &block);
    online.root.write("auth/gcp/config", &json!({ "credentials": "" })).expect(204);
    google.cloud.give(&format!("{TOKEN}-1"));
    for _ in 0..2 {
        login(&online, "dev", &google.of_account(&json!({}))).expect(200);
    }
    let requests = metadata.asked();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(google.internet.asked("oauth2.googleapis.com").is_empty());
    online.server.assert_silent(TOKEN);
}

#[test]
fn errors_about_credentials_are_not_redacted() {
    let google = Google::start();
    let online = ready(&google);
    let written = google.cloud.credentials(OWN);
    let credentials: serde_json::Value = serde_json::from_str(&written).expect("a file of JSON");
    for (member, why) in [
        ("private_key", "credentials have no signing key"),
        ("client_email", "credentials belong to a user without a sound address"),
    ] {
        let mut file = credentials.clone();
        // The marker of a key is not redacted: its letters may be part of any text.
        file["private_key"] = json!("-----BEGIN PRIVATE KEY-----");
        file[member] = json!("");
        let config = json!({ "credentials": file.to_string() });
        let refused = online.root.write("auth/gcp/config", &config).expect(400);
        assert!(refused.errors().contains(why), "{refused:?}");
    }
    login(&online, "dev", &google.of_account(&json!({}))).expect(200);
}
