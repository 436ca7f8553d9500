//! The cluster engine on a real API server: tokens have the granted rights, and revocation leaves
//! no object behind.

mod crashes;
mod liar;
mod lies;
mod modes;
mod pod;
mod refusals;
mod rights;
mod together;

use bulkhead_tests::{Answer, Bulkhead, Client, Kubernetes, Namespace};
use serde_json::{Value, json};
use std::fs;

const RULES: &str = "rules: [{apiGroups: [''], resources: [configmaps], verbs: [list, create]}]";

/// A server, and a namespace with the rights of a section of `docs/cluster.md`.
struct ClusterStage {
    bulkhead: Bulkhead,
    namespace: Namespace,
    root: Client,
    /// The engine's own token.
    token: String,
}

struct GivenToken {
    name: String,
    token: String,
    lease: String,
    answer: Answer,
}

impl ClusterStage {
    /// Starts with the rights of a section of the document: 1 to 3 for the modes, 4 for the whole
    /// cluster.
    fn with_rights(section: usize) -> Self {
        Self::of(Kubernetes::shared(), section)
    }

    /// Like [`ClusterStage::with_rights`], on the given cluster.
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
        namespace.grant(section);
        let root = bulkhead.root();
        let stage = Self { bulkhead, namespace, root, token };
        stage.configure().expect(204);
        stage
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
    fn give(&self, role: &str, body: Value) -> GivenToken {
        let answer = self.root.write(&format!("cluster/creds/{role}"), &body).expect(200);
        GivenToken {
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

    #[track_caller]
    fn assert_silent(&self, token: &str) {
        assert_unprinted(&self.bulkhead, token);
    }

    /// Status of listing configmaps, which the roles of these tests allow, and of listing secrets,
    /// which they do not allow.
    fn tries(&self, token: &str) -> [u16; 2] {
        [("GET", "configmaps"), ("GET", "secrets")]
            .map(|(method, kind)| self.namespace.try_as(token, method, kind))
    }
}

/// Asserts that the log and the audit file contain no characteristic piece of the token.
#[track_caller]
fn assert_unprinted(bulkhead: &Bulkhead, token: &str) {
    let audited = fs::read_to_string(bulkhead.data().join("audit.log")).unwrap_or_default();
    let printed = bulkhead.printed() + &audited;
    let mut pieces = token.as_bytes().chunks(16).filter(|piece| piece.len() == 16);
    let shown = pieces.find(|piece| printed.contains(&*String::from_utf8_lossy(piece)));
    assert!(shown.is_none(), "the server's log shows a piece of a token");
}
