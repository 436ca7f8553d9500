//! Azure logins of machines and identities, through the configured proxy; forged and borrowed
//! identities are refused.

mod credentials;
mod weaknesses;

use bulkhead_tests::Answer;
use bulkhead_tests::cloud_a::{
    AUDIENCE, Application, CloudA, Machine, ResourceKind, SUBSCRIPTION, TENANT,
};
use bulkhead_tests::internet::{Fault, Internet, Online};
use serde_json::{Value, json};
use std::sync::Arc;

/// A simulated Azure, and a server whose mount `auth/azure` is an application there.
struct CloudStage {
    internet: Internet,
    azure: Arc<CloudA>,
    application: Application,
    online: Online,
}

impl CloudStage {
    /// A stage with the role `dev`, which has the bounds `role`.
    fn with_role(role: &Value) -> Self {
        Self::configured(role, "")
    }

    /// Like [`CloudStage::with_role`], with additions to the server's configuration.
    fn configured(role: &Value, more: &str) -> Self {
        let internet = Internet::start();
        let azure = CloudA::on(&internet);
        let application = azure.application();
        let online = internet.server(more);
        online.root.write("sys/auth/azure", &json!({ "type": "azure" })).expect(204);
        let config = json!({
            "tenant_id": TENANT, "resource": AUDIENCE, "client_id": application.client_id,
            "client_secret": application.secret, "max_retries": 1, "retry_delay": "10ms",
        });
        online.root.write("auth/azure/config", &config).expect(204);
        online.root.write("auth/azure/role/dev", role).expect(204);
        Self { internet, azure, application, online }
    }

    fn login(&self, claims: &Value, fields: &Value) -> Answer {
        let mut body = json!({ "role": "dev", "jwt": self.azure.token(claims) });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.online.server.client(None).write("auth/azure/login", &body)
    }
}

fn bound() -> Value {
    json!({
        "bound_resource_groups": "Apps", "bound_subscription_ids": SUBSCRIPTION,
        "bound_locations": "West US 2", "token_policies": "dev",
    })
}

#[test]
fn machines_scale_sets_and_other_resources_log_in() {
    let stage = CloudStage::with_role(&bound());
    let vm = stage.azure.add(Machine::vm("apps", "vm1"));
    let given = stage.azure.add(Machine::vm("apps", "vm2").with_identity("shared", "id1"));
    let uniform = stage.azure.add(Machine::scale_set(ResourceKind::Uniform, "apps", "web"));
    let flexible = Machine::scale_set(ResourceKind::Flexible, "apps", "flex");
    let flexible = stage.azure.add(flexible.with_identity("shared", "id2"));
    let part = stage.azure.add(Machine::of_flexible(&flexible, "0a1b"));
    let site = stage.azure.add(Machine::site("apps", "site1"));
    let around = |more: Value| {
        let mut all = json!({ "subscription_id": SUBSCRIPTION, "resource_group_name": "APPS" });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    for (machine, fields, named) in [
        (&vm, around(json!({ "vm_name": "VM1", "vmss_name": "" })), ("vm_name", "vm1")),
        (&vm, json!({}), ("vm_name", "vm1")),
        (&given, around(json!({ "vm_name": "vm2" })), ("vm_name", "vm2")),
        (&uniform, around(json!({ "vmss_name": "web" })), ("vmss_name", "web")),
        (&part, around(json!({ "vmss_name": "flex" })), ("vmss_name", "flex")),
        (&site, json!({ "resource_id": site.id }), ("resource_group_name", "apps")),
    ] {
        let answer = stage.login(&stage.azure.claims(machine), &fields).expect(200);
        let auth = &answer.body["auth"];
        assert_eq!(auth["token_policies"], json!(["default", "dev"]), "{answer:?}");
        assert_eq!(auth["metadata"][named.0], named.1, "{answer:?}");
        let token = auth["client_token"].as_str().unwrap();
        let client = stage.online.server.client(Some(token));
        client.read("auth/token/lookup-self").expect(200);
        client.write("auth/token/renew-self", &json!({})).expect(200);
    }
}

#[test]
fn forged_and_borrowed_identities_are_refused_with_400() {
    let stage = CloudStage::with_role(&bound());
    let vm = stage.azure.add(Machine::vm("apps", "vm1").with_identity("apps", "id1"));
    let elsewhere = stage.azure.add(Machine::vm("evil", "vm1").with_identity("apps", "id1"));
    let stated = json!({
        "subscription_id": SUBSCRIPTION, "resource_group_name": "apps", "vm_name": "vm1",
    });
    let claims = stage.azure.claims(&vm);
    stage.login(&claims, &stated).expect(200);
    let mismatch = "xms_az_rid and xms_mirid do not match vm_name";
    let refused = stage.login(&stage.azure.claims(&elsewhere), &stated).expect(400);
    assert!(refused.errors().contains(mismatch), "{refused:?}");
    for (name, value, words) in [
        ("aud", json!("https://vault.azure.net"), "the token is for another audience"),
        ("iss", json!("https://sts.windows.net/another/"), "the token is of another issuer"),
        ("tid", json!("7a1f0f3e-9b7c-4f35-8d1e-00000000000f"), "the token is of tenant"),
        ("exp", json!(1), "the token has ended at 1"),
        ("exp", json!("9999999999"), "exp is not a number of seconds"),
        ("nbf", json!(9_999_999_999_u64), "the token does not hold before"),
        ("oid", json!("another"), "token object id does not match expected identities"),
        ("xms_az_rid", json!(vm.id.replace("vm1", "vm10")), mismatch),
        ("xms_az_rid", json!(format!("{}/../vm1", vm.id)), "is not an id of a resource"),
    ] {
        let mut forged = claims.clone();
        forged[name] = value;
        let answer = stage.login(&forged, &stated);
        assert_eq!(answer.status, 400, "{name}: {answer:?}");
        assert!(answer.errors().contains(words), "{name}: {answer:?}");
    }
    stage.internet.fail("management.azure.com", "/subscriptions", Fault::Status(500), 9);
    stage.login(&claims, &stated).expect(502);
}

#[test]
fn failed_requests_are_retried_as_configured() {
    let stage = CloudStage::with_role(&bound());
    let claims = stage.azure.claims(&stage.azure.add(Machine::vm("apps", "vm1")));
    let tried = |faults: usize, retries: u32| {
        let config = json!({ "max_retries": retries, "retry_delay": "10ms" });
        stage.online.root.write("auth/azure/config", &config).expect(204);
        stage.internet.heal();
        stage.internet.forget();
        stage.internet.fail("management.azure.com", "/subscriptions", Fault::Status(503), faults);
        let status = stage.login(&claims, &json!({})).status;
        (status, stage.internet.asked("management.azure.com").len())
    };
    assert_eq!([tried(2, 2), tried(9, 2), tried(1, 0)], [(200, 3), (502, 3), (502, 1)]);
    stage.internet.heal();
    stage.internet.forget();
    let later = json!({ "max_retries": 5, "retry_delay": "10ms", "max_retry_delay": "2s" });
    stage.online.root.write("auth/azure/config", &later).expect(204);
    // The provider's `Retry-After` is longer than a caller's timeout.
    stage.internet.fail("management.azure.com", "/", Fault::RetryAfter(503, 60), 9);
    stage.login(&claims, &json!({})).expect(502);
    assert_eq!(stage.internet.asked("management.azure.com").len(), 1);
}
