//! Many leases of three nodes that are due in one minute: the revocations at the target, and the
//! time of other requests meanwhile against the same requests before.

use crate::load::{self, Connection};
use crate::shortened;
use crate::steady::{ConnectionUse, SteadyLoad, SteadyOutcome};
use bulkhead_tests::database_nodes::{NodeSeal, url_at};
use bulkhead_tests::{Client, DatabaseNodes, Postgres};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const NODES: usize = 3;
const LEASES: u64 = 100_000;
/// Time over which the ends of the leases are spread.
const SPREAD: Duration = Duration::from_secs(60);
/// Callers that create the leases.
const CALLERS: u32 = 12;
/// Leases after which the rate of the creation counts as measured.
const SAMPLE: u32 = 300;
/// Time of the same requests without due leases.
const QUIET: Duration = Duration::from_secs(20);
/// Requests per second to each node, and their clients.
const RATE: u32 = 100;
const CLIENTS: u32 = 8;
/// Time after the last revocation in which a second revocation would show.
const AFTERWARDS: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Maximum ratio of the 99th percentiles.
const GOAL: f64 = 2.0;

const ROLE: &str = "database/roles/reader";
const CREATION: &str = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}'";
const REVOCATION: [&str; 2] =
    ["INSERT INTO revoked (name) VALUES ('{{name}}')", "DROP ROLE IF EXISTS \"{{name}}\""];

/// The nodes and the target.
struct ExpiryPlace {
    target: Postgres,
    group: DatabaseNodes,
    _database: Postgres,
}

pub fn measure(runtime: &Runtime) -> Value {
    let leases = u32::try_from(shortened("BENCH_LEASES", LEASES)).expect("a number of leases");
    let place = ExpiryPlace::start();
    let (due, made) = runtime.block_on(place.create(leases));
    println!("{leases} leases on {NODES} nodes, created in {:.0} s", made.as_secs_f64());
    let (mut quiet, ()) =
        runtime.block_on(place.ask_during(async { tokio::time::sleep(QUIET).await }));
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
    let (mut busy, took) = runtime.block_on(place.ask_during(place.all_revoked(leases, due)));
    std::thread::sleep(AFTERWARDS);
    let [all, different] = ["count(*)", "count(DISTINCT name)"].map(|count| place.count(count));
    let rows = [quiet.report("without due leases"), busy.report("while leases are due")];
    let ratio = busy.p99().as_secs_f64() / quiet.p99().as_secs_f64();
    println!(
        "  due in {SPREAD:?}, all ended after {:.0} s; {different} revoked, {} more than once: {} \
         (goal {leases} and 0)",
        took.as_secs_f64(),
        all - different,
        held(different == u64::from(leases) && all == different)
    );
    println!("  p99 {ratio:.2} times as long: {} (goal {GOAL})", held(ratio <= GOAL));
    json!({
        "leases": leases, "took_s": took.as_secs_f64(), "revoked": different,
        "again": all - different, "rows": rows, "p99_ratio": ratio,
    })
}

fn held(is_held: bool) -> &'static str {
    if is_held { "held" } else { "MISSED" }
}

impl ExpiryPlace {
    fn start() -> Self {
        let options = ["-c", "fsync=on", "-c", "max_connections=120"];
        let database = Postgres::start_with("of-the-bench", &options);
        let target = Postgres::start_with("of-the-target", &["-c", "max_connections=120"]);
        target.query("CREATE TABLE revoked (name text)");
        let url = url_at(&database, database.port);
        let group = DatabaseNodes::start(&vec![url; NODES], NodeSeal::StaticKey);
        let root = group.root(0);
        root.write("sys/mounts/database", &json!({ "type": "database" })).expect(204);
        let connection = json!({
            "plugin_name": "postgresql-database-plugin", "allowed_roles": "*",
            "connection_url": target.url(), "username": "bulkhead", "password": target.password,
            "max_open_connections": 8,
        });
        root.write("database/config/orders", &connection).expect_success();
        root.write("secret/a", &json!({ "round": 1 })).expect(204);
        Self { target, group, _database: database }
    }

    /// Creates the leases. The time to live shrinks, so that their ends are spread evenly over
    /// [`SPREAD`]. Returns the first end, and the duration of the creation.
    async fn create(&self, leases: u32) -> (Instant, Duration) {
        let (began, root) = (Instant::now(), self.group.root(0));
        write_role(&root, Duration::from_secs(24 * 60 * 60));
        // These end a day later, and are revoked by prefix before the leases are created.
        self.make(SAMPLE).await;
        let sampled = began.elapsed();
        root.write("sys/leases/revoke-prefix/database/creds/reader", &json!({})).expect(204);
        self.target.query("TRUNCATE revoked");
        let needed = sampled * leases / SAMPLE * 3 / 2;
        let (began, due) = (Instant::now(), Instant::now() + needed + QUIET + SPREAD / 2);
        let portion = (leases / 200).max(CALLERS);
        let mut created = 0;
        while created < leases {
            let end = due + SPREAD * created / leases;
            write_role(&root, end.saturating_duration_since(Instant::now()));
            let now = portion.min(leases - created);
            self.make(now).await;
            created += now;
        }
        assert!(Instant::now() + QUIET < due, "the creation became slower; use fewer BENCH_LEASES");
        (due, began.elapsed())
    }

    async fn make(&self, count: u32) {
        let callers: Vec<JoinHandle<()>> = (0..CALLERS)
            .map(|caller| {
                let node = usize::try_from(caller).expect("few callers") % NODES;
                let address = self.group.nodes[node].address();
                let share = count / CALLERS + u32::from(caller < count % CALLERS);
                tokio::spawn(create_some(address, self.group.operators.token.clone(), share))
            })
            .collect();
        for caller in callers {
            caller.await.expect("no caller panicked");
        }
    }

    /// Reads a secret on each node at a steady rate while `other` runs.
    async fn ask_during<T>(&self, other: impl Future<Output = T>) -> (SteadyOutcome, T) {
        let loads = [0, 1, 2].map(|index| SteadyLoad {
            address: self.group.nodes[index].address(),
            request: load::get("secret/a", &self.group.operators.token),
            clients: CLIENTS,
            per_second: RATE,
            connections: ConnectionUse::Kept,
        });
        let [first, second, third] = &loads;
        let (mut outcome, (next, (last, done))) =
            first.during(second.during(third.during(other))).await;
        outcome.add(next);
        outcome.add(last);
        (outcome, done)
    }

    /// Waits until as many users are revoked. Returns the time since `due`.
    async fn all_revoked(&self, leases: u32, due: Instant) -> Duration {
        while self.count("count(DISTINCT name)") < u64::from(leases) {
            assert!(due.elapsed() < PATIENCE, "leases are left after {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        due.elapsed()
    }

    fn count(&self, column: &str) -> u64 {
        let text = self.target.query(&format!("SELECT {column} FROM revoked"));
        text.parse().expect("a number")
    }
}

fn write_role(root: &Client, time_to_live: Duration) {
    let role = json!({
        "db_name": "orders", "creation_statements": [CREATION],
        "revocation_statements": REVOCATION,
        "default_ttl": time_to_live.as_secs().max(1), "max_ttl": "48h",
    });
    root.write(ROLE, &role).expect_success();
}

async fn create_some(address: SocketAddr, token: String, count: u32) {
    let mut connection = Connection::open(address).await;
    let request = load::get("database/creds/reader", &token);
    for _ in 0..count {
        connection.exchange(&request).await;
    }
}
