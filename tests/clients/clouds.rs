//! Servers with cloud providers, for clients that log in. The clients' environment is complete.

use bulkhead_tests::Internet;
use bulkhead_tests::cloud_a::{AUDIENCE, Application, CloudA, Machine, SUBSCRIPTION, TENANT};
use bulkhead_tests::cloud_b::{CloudB, Instance};
use bulkhead_tests::internet::Online;
use serde_json::json;
use std::sync::Arc;

/// The account of the Google mount, and the account that logs in.
pub const OWN: &str = "bulkhead@home.iam.gserviceaccount.com";
const APP: &str = "app@p1.iam.gserviceaccount.com";

/// A server with the mount `auth/azure` for an application of Azure, and a machine `vm1`. The
/// client creates the roles.
pub struct Azure {
    pub cloud: Arc<CloudA>,
    pub application: Application,
    pub online: Online,
    jwt: String,
    _internet: Internet,
}

impl Azure {
    pub fn start() -> Self {
        let internet = Internet::start();
        let cloud = CloudA::on(&internet);
        let application = cloud.application();
        let machine = cloud.add(Machine::vm("apps", "vm1"));
        let online = internet.server("");
        online.root.write("sys/auth/azure", &json!({ "type": "azure" })).expect(204);
        let config = json!({
            "tenant_id": TENANT, "resource": AUDIENCE, "client_id": application.client_id,
            "client_secret": application.secret,
        });
        online.root.write("auth/azure/config", &config).expect(204);
        let jwt = cloud.token(&cloud.claims(&machine));
        Self { cloud, application, online, jwt, _internet: internet }
    }

    pub fn environment(&self) -> Vec<(&str, &str)> {
        vec![
            ("VAULT_TOKEN", &self.online.operators.token),
            ("AZURE_JWT", &self.jwt),
            ("AZURE_SUBSCRIPTION", SUBSCRIPTION),
        ]
    }
}

/// A server with the mount `auth/gcp` for an account of Google, with the role `app` for an account
/// and the role `vm` for an instance `i1`.
pub struct Google {
    pub cloud: Arc<CloudB>,
    pub online: Online,
    account: String,
    instance: String,
    _internet: Internet,
}

impl Google {
    pub fn start() -> Self {
        let internet = Internet::start();
        let cloud = CloudB::on(&internet);
        cloud.account("bulkhead", "home");
        let app = cloud.account("app", "p1");
        let instance = Instance::new("p1", "us-east1-b", "i1", &app);
        cloud.start_instance(instance.clone());
        let online = internet.server("");
        online.root.write("sys/auth/gcp", &json!({ "type": "gcp" })).expect(204);
        let config = json!({ "credentials": cloud.credentials(OWN) });
        online.root.write("auth/gcp/config", &config).expect(204);
        let role = json!({ "type": "iam", "bound_service_accounts": APP, "bound_projects": "p1" });
        online.root.write("auth/gcp/role/app", &role).expect(204);
        let role = json!({ "type": "gce", "bound_projects": "p1", "bound_zones": "us-east1-b" });
        // The answer warns that all instances of the role share an entity.
        online.root.write("auth/gcp/role/vm", &role).expect(200);
        let account = cloud.signed(APP, &cloud.claims(APP, "app"));
        let instance = cloud.token(&cloud.identity(&instance, "vm"));
        Self { cloud, online, account, instance, _internet: internet }
    }

    pub fn environment(&self) -> Vec<(&str, &str)> {
        vec![
            ("VAULT_TOKEN", &self.online.operators.token),
            ("GOOGLE_ACCOUNT", APP),
            ("GOOGLE_ACCOUNT_JWT", &self.account),
            ("GOOGLE_INSTANCE_JWT", &self.instance),
        ]
    }
}
