//! Two nodes behind HAProxy, by the commands and files of `docs/nodes.md`: the commands as printed,
//! a node that is killed, and a node that is stopped, under steady reads and writes.
//!
//! The tests count failures and compare values; the benchmark `nodes` measures times.

use bulkhead_tests::haproxy::NodeTransport;
use bulkhead_tests::wait::{StopOnDrop, until_true};
use bulkhead_tests::{Client, NodeDeployment};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Longest wait for a condition on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of clients, each with a secret of its own.
const CLIENTS: usize = 8;
/// Number of writes before and after each event.
const WRITES: u32 = 200;
/// Error of a node that could not read the changes of other nodes in time.
const STARVED: &str = "this node has not read the changes of other nodes for too long";

/// Returns two nodes with the mount `secret/`.
fn two_nodes() -> NodeDeployment {
    let deployment = NodeDeployment::start(2, NodeTransport::Tls);
    deployment.client().write("sys/mounts/secret", &json!({ "type": "kv" })).expect(204);
    deployment
}

/// Writes of one client to its secret.
#[derive(Default)]
struct NumberedWrites {
    /// Number of the last write that was sent.
    sent: u32,
    /// Number of the last write that was acknowledged.
    acknowledged: u32,
    failures: Vec<String>,
}

impl NumberedWrites {
    /// Writes the next number and reads the secret, once. A failure of either is noted.
    fn step(&mut self, client: &Client, path: &str) {
        self.sent += 1;
        let body = json!({ "number": self.sent }).to_string();
        match client.attempt("POST", path, body.as_bytes()) {
            Ok(answer) if answer.status == 204 => self.acknowledged = self.sent,
            other => self.failures.push(format!("write: {other:?}")),
        }
        match client.attempt("GET", path, b"") {
            Ok(answer) if answer.status == 200 => {}
            other => self.failures.push(format!("read: {other:?}")),
        }
    }

    /// Fails unless the stored number is the last acknowledged one, or one that was sent later. A
    /// node may answer with an earlier value for a moment.
    fn check(&self, client: &Client, path: &str) {
        let possible = self.acknowledged.into()..=self.sent.into();
        let last = format!("{path} has number {} of {}", self.acknowledged, self.sent);
        until_true(&last, PATIENCE, || {
            let stored = client.read(path).body["data"]["number"].as_u64();
            stored.is_some_and(|number| possible.contains(&number))
        });
    }
}

/// Writes by all clients while `event` runs, and until [`WRITES`] more writes are acknowledged.
fn write_during(client: &Client, event: impl FnOnce()) -> Vec<NumberedWrites> {
    let (is_over, stored) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut writes: Vec<_> = (0..CLIENTS).map(|_| NumberedWrites::default()).collect();
    thread::scope(|scope| {
        let _stop = StopOnDrop(&is_over);
        for (place, writes) in writes.iter_mut().enumerate() {
            let (client, is_over, stored) = (client.clone(), &is_over, &stored);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let before = writes.acknowledged;
                    writes.step(&client, &path_of(place));
                    stored.fetch_add(u32::from(writes.acknowledged > before), Ordering::Relaxed);
                }
            });
        }
        let continues = || {
            let before = stored.load(Ordering::Relaxed);
            until_true("writes go on", PATIENCE, || {
                stored.load(Ordering::Relaxed) > before + WRITES
            });
        };
        continues();
        event();
        continues();
    });
    for (place, writes) in writes.iter().enumerate() {
        writes.check(client, &path_of(place));
    }
    writes
}

fn path_of(place: usize) -> String {
    format!("secret/client-{place}")
}

/// Returns the failures, without those of a node that got no processor for two seconds: a busy
/// machine causes them, and no other node.
fn failures(writes: &[NumberedWrites]) -> Vec<&String> {
    let all = writes.iter().flat_map(|writes| &writes.failures);
    all.filter(|failure| !failure.contains(STARVED)).collect()
}

#[test]
fn two_nodes_from_nothing_work_as_printed() {
    let deployment = NodeDeployment::start(2, NodeTransport::Tls);
    let (token, nodes) = (format!("{}\n", deployment.root), &deployment.nodes);
    let listed = deployment.types("members", ("node-2", nodes[1].address()), &token);
    for name in ["node-1", "node-2"] {
        assert!(listed.contains(&format!("https://{name}.example.com:8200")), "{listed}");
    }
    let proxy = ("bulkhead", deployment.proxy.tls_address);
    let output = deployment.types("through", proxy, &token);
    assert!(output.ends_with("correct-horse"), "{output}");
    assert_client_is_audited(&deployment);
}

/// Sends a request from an address of its own, and expects the address in an audit line of a node,
/// not the address of HAProxy or the address that the client claims.
fn assert_client_is_audited(deployment: &NodeDeployment) {
    let address = deployment.proxy.tls_address;
    let url = format!("https://bulkhead.example.com:{}/v1/secret/orders", address.port());
    let place = format!("bulkhead.example.com:{}:{}", address.port(), address.ip());
    let done = Command::new("curl")
        .args(["-sS", "-q", "--fail", "--noproxy", "*", "--interface", "127.9.8.7"])
        .args(["--cacert", &deployment.path_of("ca.crt"), "--resolve", &place])
        .args(["-H", &format!("X-Vault-Token: {}", deployment.root)])
        .args(["-H", "X-Forwarded-For: 203.0.113.9", &url])
        .output()
        .expect("curl can be started");
    let answer = String::from_utf8_lossy(&done.stdout);
    assert!(answer.contains("correct-horse"), "{}", String::from_utf8_lossy(&done.stderr));
    let mut addresses = Vec::new();
    for node in &deployment.nodes {
        let lines = fs::read_to_string(node.data().join("audit.log")).expect("audit lines");
        let of_secret = lines.lines().filter(|line| line.contains("\"path\":\"secret/orders\""));
        let parsed = of_secret.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        addresses.extend(parsed.map(|line| line["request"]["remote_address"].clone()));
    }
    assert!(addresses.contains(&json!("127.9.8.7")), "{addresses:?}");
    assert!(!addresses.contains(&json!("203.0.113.9")), "{addresses:?}");
}

#[test]
fn killed_node_loses_no_acknowledged_write() {
    let mut deployment = two_nodes();
    let client = deployment.client();
    let killed = write_during(&client, || deployment.nodes[0].kill());
    // Requests that the node had not answered, and a request on each connection that HAProxy used
    // before it read the end of the connection.
    let failed = failures(&killed);
    assert!(failed.len() <= 2 * CLIENTS, "{failed:#?}\n{}", deployment.proxy.failures());
    let returned = write_during(&client, || deployment.nodes[0].start_again());
    assert!(failures(&returned).is_empty(), "{:#?}", failures(&returned));
    deployment.wait_until_used(0);
    // The other node is killed next: the returned node has every write, too.
    write_during(&client, || deployment.nodes[1].kill());
}

#[test]
fn stopped_node_fails_no_request() {
    let mut deployment = two_nodes();
    let client = deployment.client();
    for place in 0..2 {
        let node = &mut deployment.nodes[place];
        let writes = write_during(&client, || assert!(node.stop(), "{}", node.printed()));
        let failed = failures(&writes);
        assert!(failed.is_empty(), "{failed:#?}\n{}", deployment.proxy.failures());
        deployment.nodes[place].start_again();
        deployment.wait_until_used(place);
    }
}
