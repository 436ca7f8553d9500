//! Several nodes on one database under random faults: nodes are killed, stopped and paused, their
//! clocks jump, their connections to the database stall and break, and the primary dies.
//!
//! Clients send requests to random nodes, and models that know only the answers check the promises:
//! no acknowledged write is lost (I1), each user at the target belongs to a lease (I2), the stored
//! password of a rotated account logs in (I3), a period has one rotation at most (I4), no node
//! accepts a revoked token (I5), no node panics (I9), and no refused write has an effect (I11). A
//! wrapped answer is unwrapped once, a token is used as often as permitted, and a name is given
//! once.
//!
//! `CHAOS_SECONDS` sets the duration of the faults.

mod appends;
mod group;
mod journal;
mod leases;
mod names;
mod nemesis;
mod registers;
mod rotations;
mod single_use;
mod tokens;

use crate::stage::{report, seed, thorough};
use appends::{AppendClient, AppendLists};
use bulkhead_tests::Client;
use bulkhead_tests::disk::SeededRandom;
use bulkhead_tests::wait::{self, StopOnDrop};
use group::NodeGroup;
use journal::{Journal, Outcome};
use nemesis::Nemesis;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Longest time for which a node may answer with an earlier version of a secret.
const LAG: Duration = Duration::from_millis(400);

/// Longest time for anything that happens by itself after the faults.
const SOON: Duration = Duration::from_secs(90);

/// Maximum number of lines of a node's log in a failure message.
const MOST_LINES: usize = 60;

/// The requests of one kind, with a model of their effects.
trait ChaosClient: Send {
    /// Sends a few requests, and checks the answers.
    fn step(&mut self, place: &mut WorkPlace<'_>);

    /// Compares the nodes with the model. No fault is left, and no request is under way.
    fn finish(&mut self, place: &mut WorkPlace<'_>);
}

/// The nodes, as a client sees them.
struct WorkPlace<'a> {
    group: &'a NodeGroup,
    journal: &'a Journal,
    random: SeededRandom,
}

impl WorkPlace<'_> {
    /// Returns a client of a random node that runs.
    fn root(&mut self) -> Client {
        self.roots().swap_remove(0)
    }

    /// Returns clients of all nodes that run, in random order.
    fn roots(&mut self) -> Vec<Client> {
        let mut roots = self.group.roots();
        assert!(!roots.is_empty(), "no node runs");
        for last in (1..roots.len()).rev() {
            roots.swap(last, self.random.below(last + 1));
        }
        roots
    }

    /// Returns true once in `times` on average.
    fn is_once_in(&mut self, times: usize) -> bool {
        self.random.below(times) == 0
    }

    /// Sends a request to a random node.
    fn send(&mut self, work: &'static str, request: (&str, &str, Value)) -> Outcome {
        let root = self.root();
        self.journal.send(work, &root, request)
    }

    /// Sends the same request to each client at the same moment.
    fn send_at_once(
        &self,
        work: &'static str,
        clients: &[Client],
        (method, path, body): (&str, &str, &Value),
    ) -> Vec<Outcome> {
        thread::scope(|scope| {
            let send = |client| self.journal.send(work, client, (method, path, body.clone()));
            let sent: Vec<_> =
                clients.iter().map(|client| scope.spawn(move || send(client))).collect();
            sent.into_iter().map(|one| one.join().expect("a request ends")).collect()
        })
    }
}

#[test]
fn nodes_keep_promises_under_random_faults() {
    let group = NodeGroup::start();
    let journal = Journal::new();
    prepare(&group);
    let lists = AppendLists::default();
    let mut clients: Vec<Box<dyn ChaosClient + '_>> = vec![
        Box::new(registers::RegisterClient::of("a")),
        Box::new(registers::RegisterClient::of("b")),
        Box::new(AppendClient::of(&lists)),
        Box::new(AppendClient::of(&lists)),
        Box::new(tokens::TokenClient::default()),
        Box::new(single_use::SingleUseClient),
        Box::new(leases::LeaseClient::default()),
        Box::new(rotations::RotationClient::default()),
        Box::new(names::NameClient::default()),
    ];
    let length = length();
    let place = |number: u64| WorkPlace {
        group: &group,
        journal: &journal,
        random: SeededRandom::new(seed().wrapping_add(number)),
    };
    work_under_faults(&mut clients, length, &place);
    journal.calm();
    let is_back = journal.guard("the return of the nodes", || group.wait_until_healthy());
    // Without all nodes, each client would wait in vain.
    for (number, client) in (0..).zip(&mut clients).filter(|_| is_back) {
        journal.guard("the end of a client", || client.finish(&mut place(number)));
    }
    group.panics().into_iter().for_each(|line| journal.broken(format!("I9: {line}")));
    report(&format!("nodes, FAULT_SEED={}, {length:?}: {}", seed(), journal.summary()));
    let failure = journal.failure();
    assert!(
        failure.is_none(),
        "FAULT_SEED={} CHAOS_SECONDS={}: {}\n{}",
        seed(),
        length.as_secs(),
        failure.unwrap_or_default(),
        group.last_lines(MOST_LINES)
    );
}

/// Runs the clients, each in a thread, while the nemesis breaks the nodes.
fn work_under_faults<'a>(
    clients: &mut [Box<dyn ChaosClient + '_>],
    length: Duration,
    place: &(impl Fn(u64) -> WorkPlace<'a> + Sync),
) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopOnDrop(&is_over);
        for (number, client) in (1..).zip(clients) {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut place = place(number);
                let journal = place.journal;
                journal.guard("a client", || {
                    while !is_over.load(Ordering::Relaxed) {
                        client.step(&mut place);
                    }
                });
            });
        }
        let WorkPlace { group, journal, random } = place(0);
        let mut nemesis = Nemesis { group, journal, random };
        journal.guard("the nemesis", || nemesis.rage(length));
    });
}

/// Creates the mounts, policies and roles of the clients.
fn prepare(group: &NodeGroup) {
    let root = &group.roots()[0];
    let policy = json!({ "policy": "path \"kv/*\" { capabilities = [\"read\"] }" });
    let connection = json!({
        "plugin_name": "postgresql-database-plugin",
        "connection_url": group.target_url(),
        "allowed_roles": "*",
        "username": "bulkhead",
        "password": group.target.password,
    });
    let versioned = json!({ "type": "kv", "options": { "version": "2" } });
    create(root, "sys/mounts/kv", &json!({ "type": "kv" }));
    create(root, "sys/mounts/secret", &versioned);
    create(root, "sys/mounts/database", &json!({ "type": "database" }));
    create(root, tokens::SEED, &json!({ "value": 0 }));
    create(root, &format!("sys/policies/acl/{}", tokens::POLICY), &policy);
    create(root, "database/config/orders", &connection);
    leases::create_roles(root);
    rotations::create_role(root, &group.target);
}

/// Sends a write before the faults. A slow machine may let a node wait for the others for too long.
fn create(root: &Client, path: &str, body: &Value) {
    wait::until_ok("a write before the faults", SOON, || {
        let answer = root.write(path, body);
        if answer.status == 503 { Err(answer) } else { Ok(answer.expect_success()) }
    });
}

/// Returns the duration of the faults: `CHAOS_SECONDS`, or 20 seconds, and ten minutes in
/// `make fault`.
///
/// # Panics
/// If `CHAOS_SECONDS` is not a number.
fn length() -> Duration {
    let seconds = match std::env::var("CHAOS_SECONDS") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("CHAOS_SECONDS={text} is not a number")),
        Err(_) if thorough() => 600,
        Err(_) => 20,
    };
    Duration::from_secs(seconds)
}
