//! Cut connections to a Kubernetes API server.

use super::every_cut;
use crate::cluster::ClusterLife;
use bulkhead_tests::cutting_relay::CuttingRelay;
use bulkhead_tests::{Bulkhead, Kubernetes};

/// Starts a life with a role, whose engine reaches the API server through a relay.
fn begin() -> (CuttingRelay, ClusterLife) {
    let url = &Kubernetes::shared().url;
    let port = url.strip_prefix("https://127.0.0.1:").and_then(|port| port.parse().ok());
    let relay = CuttingRelay::to(port.expect("the cluster is one of this machine"));
    let mut life = ClusterLife::on(Bulkhead::start());
    life.url = format!("https://127.0.0.1:{}", relay.port);
    let configured = life.configure().and_then(|()| life.add_role());
    assert!(configured.is_ok(), "{}", life.log_text());
    (relay, life)
}

/// Cuts message `number` of a creation and a revocation. Returns false if both have fewer messages.
fn cut(number: u32) -> bool {
    let (relay, mut life) = begin();
    relay.cut_at(number);
    let lived = life.issue().and_then(|()| life.revoke());
    let has_cut = relay.pass_all();
    assert!(lived.is_ok() || has_cut, "{}", life.log_text());
    life.check();
    has_cut
}

#[test]
fn cut_connection_leaves_no_cluster_object() {
    every_cut("a creation and a revocation in a cluster", cut);
}
