//! The method's own identity at Azure: a rotated secret, federation, the server's machine, and a
//! token that Azure has revoked.

use super::{CloudStage, bound};
use crate::ambient::metadata::{MetadataServices, TOKEN};
use bulkhead_tests::cloud_a::Machine;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

#[test]
fn rotated_secret_replaces_and_removes_old_secret() {
    let mut stage = CloudStage::with_role(&bound());
    let vm = stage.azure.add(Machine::vm("apps", "vm1"));
    let claims = stage.azure.claims(&vm);
    let secrets = |stage: &CloudStage| stage.azure.secrets(&stage.application.client_id);
    stage.online.root.write("auth/azure/rotate-root", &json!({})).expect(204);
    stage.online.root.write("auth/azure/rotate-root", &json!({})).expect(400);
    let [(_, first), (name, second)] = secrets(&stage).try_into().expect("two secrets");
    assert!(name.starts_with("bulkhead-") && first == stage.application.secret);
    stage.login(&claims, &json!({})).expect(200);
    assert_eq!(secrets(&stage).len(), 2, "the new one is not tried for a minute");
    stage.online.restart_later(Duration::from_secs(300));
    until_true("the old secret is removed", SOON, || secrets(&stage).len() == 1);
    assert_eq!(secrets(&stage), [(name, second.clone())]);
    stage.login(&claims, &json!({})).expect(200);
    let config = stage.online.root.read("auth/azure/config").expect(200);
    assert!(config.body["data"]["root_password_expiration_date"].is_string(), "{config:?}");
    // Each secret of the provider begins with a common prefix.
    let (_, random) = second.split_at(16);
    stage.online.server.assert_silent(random);
}

#[test]
fn secret_is_rotated_after_its_period() {
    let mut stage = CloudStage::with_role(&bound());
    let config = json!({ "rotation_period": "1h" });
    stage.online.root.write("auth/azure/config", &config).expect(204);
    let secrets = |stage: &CloudStage| stage.azure.secrets(&stage.application.client_id);
    stage.online.restart_later(Duration::from_secs(3_700));
    until_true("a secret is made", SOON, || secrets(&stage).len() == 2);
    stage.online.restart_later(Duration::from_secs(4_000));
    until_true("the old secret is removed", SOON, || secrets(&stage).len() == 1);
    assert!(secrets(&stage)[0].0.starts_with("bulkhead-"));
}

#[test]
fn mount_without_secret_uses_identity_token() {
    let stage = CloudStage::with_role(&bound());
    let (root, azure) = (&stage.online.root, &stage.azure);
    let claims = azure.claims(&azure.add(Machine::vm("apps", "vm1")));
    let audience = "api://AzureADTokenExchange";
    let federated = json!({ "client_secret": "", "identity_token_audience": audience });
    root.write("auth/azure/config", &federated).expect(204);
    // Azure does not know the issuer yet.
    stage.login(&claims, &json!({})).expect(400);
    let stranger = stage.online.server.client(None);
    let issuer =
        stranger.read("identity/oidc/plugins/.well-known/openid-configuration").expect(200);
    let keys = stranger.read("identity/oidc/plugins/.well-known/keys").expect(200).body;
    let accessor = root.read("sys/auth/azure").expect(200).text("accessor").to_owned();
    let subject = format!("plugin-identity:root:auth:{accessor}");
    let issuer = issuer.body["issuer"].as_str().expect("an issuer").to_owned();
    azure.federate(&issuer, &keys, &subject, audience);
    stage.login(&claims, &json!({})).expect(200);
    azure.federate(&issuer, &keys, "plugin-identity:root:auth:another", audience);
    azure.revoke_access();
    stage.login(&claims, &json!({})).expect(400);
    root.write("auth/azure/rotate-root", &json!({})).expect(400);
}

#[test]
fn a_token_revoked_by_azure_is_replaced() {
    let stage = CloudStage::with_role(&bound());
    let claims = stage.azure.claims(&stage.azure.add(Machine::vm("apps", "vm1")));
    stage.login(&claims, &json!({})).expect(200);
    stage.azure.revoke_access();
    stage.login(&claims, &json!({})).expect(200);
    let given = stage.internet.asked("login.microsoftonline.com");
    assert_eq!(given.iter().filter(|request| request.method == "POST").count(), 2);
}

#[test]
fn mount_without_credentials_uses_server_machine_identity() {
    let metadata = MetadataServices::start();
    let block = format!("ambient {{ azure_metadata = \"{}\" }}\n", metadata.address);
    let stage = CloudStage::configured(&bound(), &block);
    stage.online.root.write("auth/azure/config", &json!({ "client_secret": "" })).expect(204);
    let claims = stage.azure.claims(&stage.azure.add(Machine::vm("apps", "vm1")));
    stage.azure.give(&format!("{TOKEN}-1"), "https://management.azure.com");
    for _ in 0..2 {
        stage.login(&claims, &json!({})).expect(200);
    }
    let requests = metadata.asked();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(requests[0].contains("resource=https%3A%2F%2Fmanagement.azure.com%2F"), "{requests:?}");
    let given = stage.internet.asked("login.microsoftonline.com");
    assert!(given.iter().all(|request| request.method == "GET"), "no secret was asked with");
    stage.online.server.assert_silent(TOKEN);
}
