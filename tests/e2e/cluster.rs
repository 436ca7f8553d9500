//! The cluster engine on a real API server: tokens that may do what was granted, and nothing that
//! is left of them.

mod crashes;
mod modes;
mod refusals;
mod rights;
mod together;

use bulkhead_tests::{Answer, Bulkhead, Client, Kubernetes, Namespace};
use serde_json::{Value, json};
use std::fs;

/// Rules of mode 3.
const RULES: &str = "rules: [{apiGroups: [''], resources: [configmaps], verbs: [list, create]}]";

/// A server and a namespace of the cluster, with the rights of a section of `docs/cluster.md`.
struct Harbour {
    bulkhead: Bulkhead,
    namespace: Namespace,
    root: Client,
    /// The engine's own token.
    token: String,
}

/// A token that was given.
struct Given {
    name: String,
    token: String,
    lease: String,
    answer: Answer,
}

impl Harbour {
    /// With the rights of that section of the page: 1 to 3 for the modes, 4 for the whole cluster.
    fn with_rights(section: usize) -> Self {
        Self::of(Kubernetes::shared(), section)
    }

    /// As [`Harbour::with_rights`], on that cluster.
    fn of(kubernetes: &'static Kubernetes, section: usize) -> Self {
        let bulkhead = Bulkhead::start();
        let namespace = kubernetes.namespace(json!({"team": "blue"}));
        let token = namespace.engine();
        namespace.make("serviceaccounts", &json!({"metadata": {"name": "app"}}));
        namespace.make(
            "roles",
            &json!({
                "metadata": {"name": "pods"},
                "rules": [
                    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "create"]},
                ],
            }),
        );
        namespace.apply(&rights(section));
        let root = bulkhead.root();
        let harbour = Self { bulkhead, namespace, root, token };
        harbour.configure().expect(204);
        harbour
    }

    #[track_caller]
    fn configure(&self) -> Answer {
        let kubernetes = self.namespace.kubernetes;
        let config = json!({
            "cluster_host": kubernetes.url, "cluster_ca_cert": kubernetes.authority,
            "service_account_jwt": self.token,
        });
        self.root.write("cluster/config", &config)
    }

    /// Writes a role for the namespace of this harbour.
    #[track_caller]
    fn role(&self, name: &str, fields: Value) {
        let mut role = json!({
            "allowed_cluster_namespaces": self.namespace.name, "token_default_ttl": "10m",
            "extra_labels": {"test": self.namespace.name},
        });
        role.as_object_mut()
            .expect("an object")
            .extend(fields.as_object().expect("fields").clone());
        let answer = self.root.write(&format!("cluster/roles/{name}"), &role);
        assert!(answer.status < 300, "{answer:?}");
    }

    #[track_caller]
    fn give(&self, role: &str, asked: Value) -> Given {
        let answer = self.root.write(&format!("cluster/creds/{role}"), &asked).expect(200);
        Given {
            name: answer.text("service_account_name").to_owned(),
            token: answer.text("service_account_token").to_owned(),
            lease: answer.lease().to_owned(),
            answer,
        }
    }

    #[track_caller]
    fn revoke(&self, lease: &str) {
        self.root.write("sys/leases/revoke", &json!({"lease_id": lease})).expect(204);
    }

    /// Fails when a piece of a token that is no chance shows in what the server printed or refused.
    #[track_caller]
    fn assert_silent(&self, token: &str) {
        let printed = self.bulkhead.printed();
        let mut pieces = token.as_bytes().chunks(16).filter(|piece| piece.len() == 16);
        let shown = pieces.find(|piece| printed.contains(&*String::from_utf8_lossy(piece)));
        assert!(shown.is_none(), "the server's log shows a piece of a token");
    }

    /// The status of listing and of removing what the roles of these tests allow to list alone.
    fn tries(&self, token: &str) -> [u16; 2] {
        [("GET", "configmaps"), ("GET", "secrets")]
            .map(|(method, kind)| self.namespace.try_as(token, method, kind))
    }
}

/// The rights of a section of the page, as they stand there.
pub fn rights(section: usize) -> String {
    let page = bulkhead_tests::paths::repository().join("docs/cluster.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let block = page.split("```yaml\n").nth(section).expect("the page has that section");
    block.split("```").next().unwrap_or_default().to_owned()
}
