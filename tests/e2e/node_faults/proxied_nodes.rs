//! Two nodes, each behind a proxy of its own, which cuts the node off from the database.

use bulkhead_tests::database_nodes::{NodeSeal, url_at};
use bulkhead_tests::database_proxy::Direction;
use bulkhead_tests::{Client, DatabaseNodes, DatabaseProxy, Postgres};
use serde_json::json;

pub(super) struct ProxiedNodes {
    pub(super) database: Postgres,
    pub(super) proxies: [DatabaseProxy; 2],
    pub(super) group: DatabaseNodes,
}

impl ProxiedNodes {
    #[track_caller]
    pub(super) fn start(seal: NodeSeal) -> Self {
        let database = Postgres::start();
        let proxies = [0; 2].map(|_| DatabaseProxy::to(database.port));
        let urls = proxies.each_ref().map(|proxy| url_at(&database, proxy.port));
        let group = DatabaseNodes::start(&urls, seal);
        Self { database, proxies, group }
    }

    /// Cuts a node off: nothing arrives, and connections stay open.
    pub(super) fn cut_off(&self, index: usize) {
        self.proxies[index].stall(Direction::ToServer);
        self.proxies[index].stall(Direction::ToClient);
    }

    /// Ends the claim of a node that was killed, paused or cut off.
    #[track_caller]
    pub(super) fn lose_claim(&self, silent: usize) {
        self.group.lose_claim(&self.database, (silent, 1 - silent));
    }

    /// Creates a token that may read `secret/a`. Returns a client of the second node with the
    /// token, and the token.
    #[track_caller]
    pub(super) fn holder(&self) -> (Client, String) {
        let root = self.group.root(0);
        let policy = json!({ "policy": "path \"secret/a\" { capabilities = [\"read\"] }" });
        root.write("sys/policies/acl/reader", &policy).expect(204);
        let created = root.write("auth/token/create", &json!({ "policies": ["reader"] }));
        let token = created.expect(200).body["auth"]["client_token"].clone();
        let token = token.as_str().expect("a token").to_owned();
        (self.group.nodes[1].client(Some(&token)), token)
    }
}
