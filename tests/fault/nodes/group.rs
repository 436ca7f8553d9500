//! Three nodes on one PostgreSQL with a synchronous standby, each behind a proxy and with its own
//! clock, and a second PostgreSQL for the users of the database engine.
//!
//! Each node has a static seal, so that a node that starts again opens by itself.

use bulkhead_tests::operators::seal_status;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::sealed_server::recovery_operators;
use bulkhead_tests::wait::{self, until_true};
use bulkhead_tests::{Bulkhead, Client, Clock, DatabaseProxy, Postgres, static_seal};
use serde_json::json;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

/// Number of nodes.
pub const NODES: usize = 3;

/// Difference of the nodes' clocks from the right time, in seconds. A node with a difference of
/// more than 10 s does not begin.
const SKEWS: [i64; NODES] = [-6, 0, 6];

/// Longest time until a node answers again after a fault, on a busy machine. A node that was killed
/// may first need the end of its claim, and a stalled commit waits 30 s for its outcome.
pub const BACK: Duration = Duration::from_secs(120);

/// Longest wait for an answer during the faults. A later answer counts as unknown.
const PATIENCE: Duration = Duration::from_secs(8);

/// The health condition of a node whose claim has waited for a confirmation for longer than usual.
const UNCONFIRMED: &str = "database-unconfirmed";

/// A node with its proxy and its clock.
pub struct GroupNode {
    server: Mutex<Bulkhead>,
    /// Client with the root token; `None` while the node does not run.
    root: RwLock<Option<Client>>,
    pub proxy: DatabaseProxy,
    clock: Clock,
    /// Usual difference of the clock from the right time, in seconds.
    skew: i64,
}

/// The nodes and their databases.
pub struct NodeGroup {
    pub nodes: Vec<GroupNode>,
    pub storage: Postgres,
    /// Port of the standby of `storage`.
    standby: u16,
    /// Server of the users that the database engine creates.
    pub target: Postgres,
    /// Proxy in front of `target`.
    pub target_proxy: DatabaseProxy,
    token: String,
}

impl GroupNode {
    fn prepare(number: usize, storage: &Postgres) -> Self {
        let proxy = DatabaseProxy::to(storage.port);
        let data = Folder::new("chaos-node");
        let file = data.path().join("bulkhead.hcl");
        let url = format!(
            "postgresql://bulkhead:{}@127.0.0.1:{}/demo?sslmode=disable",
            storage.password, proxy.port
        );
        let text = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
             api_addr = \"http://node-{number}.example.com:8200\"\n\
             storage \"postgresql\" {{\n  connection_url = {url:?}\n  path = {path:?}\n  \
                 ha_enabled = \"true\"\n  node_id = \"node-{number}\"\n}}\n{seal}",
            path = data.path(),
            seal = static_seal::block(data.path(), &["1"]),
        );
        std::fs::write(&file, text).expect("a file can be written");
        let server = Mutex::new(Bulkhead::prepared(binary(), data).configured(file));
        let skew = SKEWS[number - 1];
        let node = Self { server, root: RwLock::new(None), proxy, clock: Clock::right(), skew };
        node.jump(0);
        node
    }

    /// Sets the clock of the node to its usual difference and these seconds.
    pub fn jump(&self, seconds: i64) {
        self.clock.set_ahead(self.skew + seconds);
    }

    /// The process of the node. Only the nemesis changes the process.
    pub fn server(&self) -> MutexGuard<'_, Bulkhead> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a client with the root token; `None` while the node does not run.
    pub fn root(&self) -> Option<Client> {
        self.root.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Kills the node, or stops the node if `is_asked_to_stop` is set.
    ///
    /// # Panics
    /// If the node does not stop with success.
    pub fn end(&self, is_asked_to_stop: bool) {
        self.set_root(None);
        let mut server = self.server();
        if is_asked_to_stop {
            let status = server.terminate();
            assert!(status.success(), "the node ended with {status}");
        } else {
            server.kill();
        }
    }

    /// Starts the node, and waits until the node is unsealed.
    pub fn start(&self, token: &str) {
        self.listen();
        let server = self.server();
        until_true("the node opens by itself", BACK, || seal_status(&server)["sealed"] == false);
        self.set_root(Some(server.client(Some(token)).waiting_for(PATIENCE)));
    }

    fn listen(&self) {
        let mut server = self.server();
        if let Err(status) = server.start_with(&self.clock.over()) {
            panic!("the node ended with {status}:\n{}", server.printed());
        }
    }

    fn set_root(&self, root: Option<Client>) {
        *self.root.write().unwrap_or_else(PoisonError::into_inner) = root;
    }

    /// Returns the codes of the conditions in `sys/health`, or the reason why there are none.
    fn conditions(&self) -> Result<Vec<String>, String> {
        let client = self.root().ok_or("the node does not run")?;
        let health = client.attempt("GET", "sys/health", b"")?;
        if health.status != 200 {
            return Err(format!("status {}: {}", health.status, health.body));
        }
        let degraded = health.body["degraded"].as_array().cloned().unwrap_or_default();
        let codes = degraded.iter().map(|one| one["code"].as_str().unwrap_or_default().to_owned());
        Ok(codes.filter(|code| code != UNCONFIRMED).collect())
    }
}

impl NodeGroup {
    /// Starts all servers. The data are initialised, and the mounts are empty.
    pub fn start() -> Self {
        let options = ["-c", "max_connections=200"];
        let storage = Postgres::start_with("Vt3-Kp8-Rd5-Lm1", &options);
        let target = Postgres::start_with("Zc6-Wb2-Hn7-Qx4", &options);
        let target_proxy = DatabaseProxy::to(target.port);
        let standby = storage.add_standby();
        let nodes: Vec<_> =
            (1..=NODES).map(|number| GroupNode::prepare(number, &storage)).collect();
        nodes[0].listen();
        let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
        let answer = nodes[0].server().client(None).write("sys/init", &body).expect(200);
        let token = recovery_operators(&answer.body, 1).token;
        nodes[0].set_root(Some(nodes[0].server().client(Some(&token)).waiting_for(PATIENCE)));
        let group = Self { nodes, storage, standby, target, target_proxy, token };
        group.nodes[1..].iter().for_each(|node| node.start(&group.token));
        group
    }

    /// Starts a node that was killed or stopped.
    pub fn start_node(&self, index: usize) {
        self.nodes[index].start(&self.token);
    }

    /// Kills the primary of the storage, makes its standby the primary, and leads the proxies to
    /// the new primary.
    pub fn fail_over(&self) {
        self.storage.end(bulkhead_tests::postgres::acts::ServerEnd::Killed);
        self.nodes.iter().for_each(|node| node.proxy.redirect(self.standby));
        self.storage.promote_standby();
    }

    /// Connection URL of the target through its proxy, with placeholders for user and password.
    pub fn target_url(&self) -> String {
        let port = |port: u16| format!("127.0.0.1:{port}/");
        self.target.url().replace(&port(self.target.port), &port(self.target_proxy.port))
    }

    /// Returns clients with the root token, one for each node that runs.
    pub fn roots(&self) -> Vec<Client> {
        self.nodes.iter().filter_map(GroupNode::root).collect()
    }

    /// Waits until each node answers without a condition. A node whose claim was ended opens again
    /// by itself.
    pub fn wait_until_healthy(&self) {
        for node in &self.nodes {
            wait::until_ok("the node is healthy", BACK, || match node.conditions()?.as_slice() {
                [] => Ok(()),
                codes => Err(format!("conditions {codes:?}")),
            });
        }
    }

    /// Returns the lines of the logs that report a panic.
    pub fn panics(&self) -> Vec<String> {
        self.lines_with(&["panicked"], usize::MAX)
    }

    /// Returns the last warnings and errors of each node.
    pub fn last_lines(&self, count: usize) -> String {
        self.lines_with(&["level=warn", "level=error", "panicked"], count).join("\n")
    }

    fn lines_with(&self, words: &[&str], count: usize) -> Vec<String> {
        let mut found = Vec::new();
        for (number, node) in (1..).zip(&self.nodes) {
            let printed = node.server().printed();
            let is_chosen = |line: &&str| words.iter().any(|word| line.contains(word));
            let lines: Vec<_> = printed.lines().filter(is_chosen).collect();
            let last = lines.iter().skip(lines.len().saturating_sub(count));
            found.extend(last.map(|line| format!("node {number}: {line}")));
        }
        found
    }
}
