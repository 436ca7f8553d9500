//! A simulated Google with the method's own account, an account that logs in, and a labelled
//! instance of this account in a group.

use bulkhead_tests::Internet;
use bulkhead_tests::cloud_b::{Account, CloudB, Instance};
use serde_json::Value;
use std::sync::Arc;

pub(super) const OWN: &str = "bulkhead@home.iam.gserviceaccount.com";
pub(super) const EMAIL: &str = "app@p1.iam.gserviceaccount.com";

pub(super) struct Google {
    pub(super) internet: Internet,
    pub(super) cloud: Arc<CloudB>,
    pub(super) account: Account,
    pub(super) instance: Instance,
}

impl Google {
    pub(super) fn start() -> Self {
        let internet = Internet::start();
        let cloud = CloudB::on(&internet);
        cloud.account("bulkhead", "home");
        let account = cloud.account("app", "p1");
        let instance = Instance::new("p1", "us-east1-b", "i1", &account);
        let google = Self { internet, cloud, account, instance };
        google.label("blue");
        google.group(&[&google.instance]);
        google
    }

    /// Replaces the instance's labels with the label `team`.
    pub(super) fn label(&self, team: &str) {
        self.cloud.start_instance(self.instance.clone().labelled("team", team));
    }

    /// Sets the members of the group `web`.
    pub(super) fn group(&self, members: &[&Instance]) {
        self.cloud.group("p1", "regions/us-east1", "web", members);
    }

    /// A JWT signed by the account, with changed claims.
    pub(super) fn of_account(&self, change: &Value) -> String {
        self.cloud.signed(EMAIL, &changed(self.cloud.claims(EMAIL, "dev"), change))
    }

    /// An identity token that Google signs for the instance, with changed claims.
    pub(super) fn of_instance(&self, change: &Value) -> String {
        self.cloud.token(&self.identity(change))
    }

    /// The claims of the instance's identity token, with changes.
    pub(super) fn identity(&self, change: &Value) -> Value {
        changed(self.cloud.identity(&self.instance, "vm"), change)
    }
}

fn changed(mut claims: Value, change: &Value) -> Value {
    for (name, value) in change.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    claims
}
