//! The server dies, or meets an error, before and after each object that it creates and removes in
//! a Kubernetes cluster: afterwards each object has a lease, and no object outlives its lease.
//!
//! The tests count the objects in the cluster. `kill_loop.rs` covers the failpoints up to the
//! configuration of the mount; these faults begin later. `cuts/cluster.rs` cuts the connections to
//! the API server in the same lives.

use crate::injected::{FaultObserved, InjectedFault, write};
use crate::points;
use crate::stage::{SOON, lease_count};
use bulkhead_tests::paths::{Folder, fault_binary};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Bulkhead, Client, Kubernetes, Namespace};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Rules of mode 3, the mode that creates the most objects.
const RULES: &str = "rules: [{apiGroups: [''], resources: [configmaps], verbs: [list]}]";

const ROLE: &str = "cluster/roles/three";
const CREDS: &str = "cluster/creds/three";

/// A server, and the namespace of the objects of its leases.
pub struct ClusterLife {
    namespace: Namespace,
    /// URL at which the engine finds the API server.
    pub url: String,
    /// The engine's own token.
    token: String,
    server: Bulkhead,
    root: Client,
    /// A token that was issued and not revoked.
    held: Option<GivenToken>,
}

struct GivenToken {
    name: String,
    token: String,
    lease: String,
}

impl ClusterLife {
    /// Creates a namespace for a running server.
    pub fn on(server: Bulkhead) -> Self {
        let namespace = Kubernetes::shared().namespace(json!({}));
        let token = namespace.engine();
        namespace.grant(3);
        let (url, root) = (namespace.kubernetes.url.clone(), server.root());
        Self { namespace, url, token, server, root, held: None }
    }

    /// Starts a server with the environment; `None` if the server died during the start.
    fn begin(environment: &[(&str, String)]) -> Option<Self> {
        let mut server = Bulkhead::prepared(fault_binary(), Folder::new("cluster"));
        server.start_with(environment).ok()?;
        Some(Self::on(server))
    }

    fn write(&self, path: &str, body: &Value) -> Result<Answer, FaultObserved> {
        write(&self.root, path, body)
    }

    pub fn configure(&self) -> Result<(), FaultObserved> {
        let config = json!({
            "cluster_host": self.url, "cluster_ca_cert": self.namespace.kubernetes.authority,
            "service_account_jwt": self.token,
        });
        self.write("cluster/config", &config).map(drop)
    }

    /// Creates the role whose tokens have objects of their own.
    pub fn add_role(&self) -> Result<(), FaultObserved> {
        let role = json!({
            "allowed_cluster_namespaces": self.namespace.name, "generated_role_rules": RULES,
            "token_default_ttl": "1h",
        });
        self.write(ROLE, &role).map(drop)
    }

    pub fn issue(&mut self) -> Result<(), FaultObserved> {
        let given = self.write(CREDS, &json!({}))?.expect(200);
        assert!(self.is_accepted(given.text("service_account_token")), "{}", self.log_text());
        self.held = Some(GivenToken {
            name: given.text("service_account_name").to_owned(),
            token: given.text("service_account_token").to_owned(),
            lease: given.lease().to_owned(),
        });
        Ok(())
    }

    pub fn revoke(&mut self) -> Result<(), FaultObserved> {
        let given = self.held.as_ref().expect("a token was issued before");
        let lease = json!({ "lease_id": given.lease });
        self.write("sys/leases/revoke", &lease)?.expect(204);
        let given = self.held.take().expect("a token was issued before");
        assert!(self.names().is_empty(), "a revoked object still exists");
        self.check_refused(&given);
        Ok(())
    }

    fn give_and_take(&mut self) -> Result<(), FaultObserved> {
        self.add_role()?;
        self.issue()?;
        self.revoke()
    }

    /// The names of the objects in the cluster. All objects of a lease share a name.
    fn names(&self) -> BTreeSet<String> {
        let name = |object: String| object.rsplit('/').next().unwrap_or_default().to_owned();
        self.namespace.made().into_iter().map(name).collect()
    }

    fn leases(&self) -> usize {
        lease_count(&self.root, CREDS)
    }

    /// Checks the objects and leases in the cluster.
    pub fn check(&self) {
        if let Some(held) = &self.held {
            self.check_held(held);
        }
        until_true("everything that is there has a lease", SOON, || {
            self.names().len() <= self.leases()
        });
        until_true("nothing is left without a lease", SOON, || {
            // The answer is 503 while the API server may still create an object of a lease.
            let fields = json!({ "sync": true });
            let ended = self.root.write("sys/leases/revoke-prefix/cluster", &fields);
            assert!(matches!(ended.status, 204 | 503), "{ended:?}");
            self.names().is_empty()
        });
        if let Some(held) = &self.held {
            self.check_refused(held);
        }
        if self.root.read(ROLE).status == 200 {
            let given = self.root.write(CREDS, &json!({})).expect(200);
            assert!(self.is_accepted(given.text("service_account_token")));
        }
        self.assert_silent();
    }

    /// Tells if the API server grants a token the rights of [`RULES`].
    fn is_accepted(&self, token: &str) -> bool {
        self.namespace.try_as(token, "GET", "configmaps") == 200
    }

    /// After an unanswered revocation, the token still works or its revocation has begun.
    fn check_held(&self, held: &GivenToken) {
        let lease = json!({ "lease_id": held.lease });
        if self.root.write("sys/leases/lookup", &lease).status != 200 {
            assert!(!self.names().contains(&held.name), "a lease is gone: {}", self.log_text());
            self.check_refused(held);
        }
    }

    fn check_refused(&self, given: &GivenToken) {
        until_true("the token of a removed account is refused", SOON, || {
            !self.is_accepted(&given.token)
        });
    }

    pub fn log_text(&self) -> String {
        self.server.printed()
    }

    fn assert_silent(&self) {
        let printed = self.log_text();
        let tokens = self.held.iter().map(|held| &held.token).chain([&self.token]);
        for token in tokens {
            let signature = token.rsplit('.').next().expect("a token has parts");
            assert!(!printed.contains(signature), "the server printed a token");
        }
    }
}

#[test]
fn crash_at_any_failpoint_leaves_no_cluster_object() {
    every_point("abort");
}

#[test]
fn error_at_any_failpoint_leaves_no_cluster_object() {
    every_point("fail");
}

fn every_point(fault: &str) {
    let first = points::passed_by(fault, before_tokens);
    points::every_behind("cluster", fault, first, |number| live(fault, number));
}

/// Runs a life up to the configured mount.
fn before_tokens(environment: &[(&str, String)]) -> ClusterLife {
    let life = ClusterLife::begin(environment).expect("the server starts without a fault");
    assert!(life.configure().is_ok(), "{}", life.log_text());
    life
}

/// Runs a life with a fault. Returns false if the life ended before the fault fired.
fn live(fault: &str, number: u32) -> bool {
    let fault = InjectedFault::at(fault, number);
    let Some(mut life) = ClusterLife::begin(&fault.environment()) else { return true };
    let lived = life.configure().and_then(|()| life.give_and_take());
    let came = fault.end(&mut life.server, &lived);
    life.server.start_again();
    life.root = life.server.root();
    life.check();
    came
}
