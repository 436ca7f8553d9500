//! Servers that share a PostgreSQL database as nodes (`ha_enabled`), each with a URL of its own, so
//! that a proxy can stand between a node and the database.

use crate::operators::seal_status;
use crate::paths::{Folder, binary};
use crate::sealed_server::recovery_operators;
use crate::{Bulkhead, Client, Operators, Postgres, static_seal, wait};
use serde_json::json;
use std::net::TcpListener;
use std::time::Duration;

/// Longest time until a node is open or has left the list, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The seal of all nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NodeSeal {
    /// Two of three shares unseal a node.
    Shares,
    /// Each node opens by itself.
    StaticKey,
}

/// Unsealed nodes on one database.
pub struct DatabaseNodes {
    pub nodes: Vec<Bulkhead>,
    pub operators: Operators,
    seal: NodeSeal,
}

/// Returns the connection URL of `database` at these places (`HOST:PORT`, maybe several).
pub fn connection_url(database: &Postgres, places: &str) -> String {
    format!("postgresql://bulkhead:{}@{places}/demo?sslmode=disable", database.password)
}

/// Returns the connection URL of `database` at this port of this machine.
pub fn url_at(database: &Postgres, port: u16) -> String {
    connection_url(database, &format!("127.0.0.1:{port}"))
}

/// Returns a node that is not started, whose key holders may act without a token. `number` counts
/// from 1.
pub fn prepared(number: usize, url: &str, seal: NodeSeal) -> Bulkhead {
    let data = Folder::new("node");
    let file = data.path().join("bulkhead.hcl");
    let text = format!(
        "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
         api_addr = \"http://node-{number}.example.com:8200\"\n\
         storage \"postgresql\" {{\n  connection_url = {url:?}\n  path = {path:?}\n  \
             ha_enabled = \"true\"\n  node_id = \"node-{number}\"\n}}\n\
         allow_key_holders = true\n{seal}",
        path = data.path(),
        seal = match seal {
            NodeSeal::Shares => String::new(),
            NodeSeal::StaticKey => static_seal::block(data.path(), &["1"]),
        },
    );
    std::fs::write(&file, text).expect("a file can be written");
    Bulkhead::prepared(binary(), data).configured(file)
}

impl DatabaseNodes {
    /// Starts a node for each URL, and mounts `secret/`.
    #[track_caller]
    pub fn start(urls: &[String], seal: NodeSeal) -> Self {
        Self::start_prepared(prepared_at(urls, seal).collect(), seal)
    }

    /// Starts a node for each URL, which listens on the socket beside it at each start, and mounts
    /// `secret/`.
    #[track_caller]
    pub fn start_on(sockets: &[TcpListener], urls: &[String], seal: NodeSeal) -> Self {
        let nodes = prepared_at(urls, seal).zip(sockets);
        Self::start_prepared(nodes.map(|(node, socket)| node.activated_by(socket)).collect(), seal)
    }

    #[track_caller]
    fn start_prepared(mut nodes: Vec<Bulkhead>, seal: NodeSeal) -> Self {
        let first = nodes.first_mut().expect("at least one node");
        first.start_again();
        let operators = match seal {
            NodeSeal::Shares => Operators::initialise(first, 3, 2),
            NodeSeal::StaticKey => {
                let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
                let answer = first.client(None).write("sys/init", &body).expect(200);
                recovery_operators(&answer.body, 1)
            }
        };
        let mut group = Self { nodes, operators, seal };
        group.open(0);
        group.root(0).write("sys/mounts/secret", &json!({ "type": "kv" })).expect(204);
        (1..group.nodes.len()).for_each(|index| group.start_again(index));
        group
    }

    /// Returns a client of a node, with the root token.
    pub fn root(&self, index: usize) -> Client {
        self.operators.root(&self.nodes[index])
    }

    /// Starts a node that was stopped or killed, and waits until it is open.
    #[track_caller]
    pub fn start_again(&mut self, index: usize) {
        self.nodes[index].start_again();
        self.open(index);
    }

    /// Unseals a node, or waits until it has opened by itself.
    #[track_caller]
    pub fn open(&self, index: usize) {
        let node = &self.nodes[index];
        match self.seal {
            NodeSeal::Shares => self.operators.unseal(node),
            NodeSeal::StaticKey => {
                wait::until_true("the node opens by itself", PATIENCE, || {
                    seal_status(node)["sealed"] == false
                });
            }
        }
    }

    /// Ends the time of the claim of a silent node, which was killed, paused or cut off, by the
    /// clock of the database. Waits until another node has ended the claim, which takes seconds
    /// instead of twenty.
    #[track_caller]
    pub fn lose_claim(&self, database: &Postgres, (silent, other): (usize, usize)) {
        database.query(&format!(
            "UPDATE bulkhead_node SET until = CURRENT_TIMESTAMP - INTERVAL '1 second' \
             WHERE holder IS NOT NULL AND about LIKE '%\"node-{}\"%'",
            silent + 1
        ));
        let root = self.root(other);
        let is_listed = || root.read("sys/ha-status").expect(200).body.to_string();
        let name = format!("\"node-{}\"", silent + 1);
        wait::until_true("the silent node leaves the list", PATIENCE, || {
            !is_listed().contains(&name)
        });
    }
}

fn prepared_at(urls: &[String], seal: NodeSeal) -> impl Iterator<Item = Bulkhead> + '_ {
    (1..).zip(urls).map(move |(number, url)| prepared(number, url, seal))
}
