//! `creds` of the database engine against its unavoidable cost: the bare SQL and two flushes of a
//! store.
//!
//! All three are measured in turns in one run, on one machine and one disk, so that a slow disk or
//! a busy neighbour slows all alike. Each round measures (a) `GET database/creds/reader` over a
//! kept connection, (b) the same statement through an open session, and (c) two commits of 4 KiB in
//! SQLite with the settings of the store, beside the store's data. The figure is `a - (b + c)`.
//!
//! The benchmark needs the release binary, and ends after [`ROUNDS`] rounds or [`LIMIT`].

mod disk;
mod figures;
mod load;
mod watch;

use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::{Folder, target};
use bulkhead_tests::{Bulkhead, Client, Postgres};
use disk::Disk;
use figures::{micros, quantile};
use load::Connection;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection as _, PgConnection};
use std::time::{Duration, Instant};

const WARM_UP: u32 = 50;
const ROUNDS: u32 = 400;
const LIMIT: Duration = Duration::from_secs(120);

/// Maximum median of the difference.
const GOAL: Duration = Duration::from_millis(2);

const CREATION: &str = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' \
                        VALID UNTIL '{{expiration}}' IN ROLE readers";

/// Everything that one run needs, open and ready.
struct Bench {
    _bulkhead: Bulkhead,
    _postgres: Postgres,
    _folder: Folder,
    root: Client,
    caller: Connection,
    direct: PgConnection,
    disk: Disk,
}

#[derive(Default)]
struct Times {
    creds: Vec<Duration>,
    sql: Vec<Duration>,
    flushes: Vec<Duration>,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let times = runtime.block_on(async { measure(&mut Bench::open().await).await });
    report(times);
}

impl Bench {
    async fn open() -> Self {
        let folder = Folder::at(target().join("bench-data"));
        let postgres = Postgres::start_with("of-the-bench", &["-c", "fsync=on"]);
        let bulkhead = Bulkhead::start_in(folder.path().join("bulkhead"));
        let root = bulkhead.root();
        configure(&root, &postgres);
        Self {
            caller: Connection::open(bulkhead.address()).await,
            direct: session(&postgres).await,
            disk: Disk::open(&folder).await,
            root,
            _bulkhead: bulkhead,
            _postgres: postgres,
            _folder: folder,
        }
    }

    /// Returns the time of one credential. The lease is revoked afterwards, so that each round has
    /// the same number of users.
    async fn creds(&mut self) -> Duration {
        let request = load::get("database/creds/reader", ROOT);
        let start = Instant::now();
        let answer = self.caller.exchange(&request).await;
        let elapsed = start.elapsed();
        let (_, body) = answer.split_once("\r\n\r\n").expect("an answer has a head and a body");
        let body: Value = serde_json::from_str(body).expect("the body is JSON");
        let lease = json!({ "lease_id": body["lease_id"] });
        self.root.write("sys/leases/revoke", &lease).expect(204);
        elapsed
    }

    /// Returns the time to create and commit the same user by hand.
    async fn sql(&mut self, round: u32) -> Duration {
        let name = format!("v-root-reader-bare{round}");
        let create = CREATION
            .replace("{{name}}", &name)
            .replace("{{password}}", "aB3-aB3-aB3-aB3-aB3-")
            .replace("{{expiration}}", "2099-01-01 00:00:00+0000");
        let start = Instant::now();
        let mut transaction = self.direct.begin().await.expect("a transaction begins");
        sqlx::raw_sql(AssertSqlSafe(create))
            .execute(&mut *transaction)
            .await
            .expect("the user is created");
        transaction.commit().await.expect("the transaction commits");
        let elapsed = start.elapsed();
        let drop = format!("DROP ROLE \"{name}\"");
        sqlx::raw_sql(AssertSqlSafe(drop))
            .execute(&mut self.direct)
            .await
            .expect("the user is dropped");
        elapsed
    }
}

fn configure(root: &Client, postgres: &Postgres) {
    let connection = json!({
        "plugin_name": "postgresql-database-plugin",
        "allowed_roles": "*",
        "connection_url": postgres.url(),
        "username": "bulkhead",
        "password": postgres.password,
    });
    assert!(root.write("database/config/bench", &connection).status < 300);
    let role =
        json!({ "db_name": "bench", "creation_statements": [CREATION], "default_ttl": "1h" });
    assert!(root.write("database/roles/reader", &role).status < 300);
}

async fn session(postgres: &Postgres) -> PgConnection {
    watch::options(postgres).connect().await.expect("the database accepts a session")
}

async fn measure(bench: &mut Bench) -> Times {
    let mut times = Times::default();
    let start = Instant::now();
    for round in 0..WARM_UP + ROUNDS {
        let (creds, sql, flushes) =
            (bench.creds().await, bench.sql(round).await, bench.disk.flushes(2).await);
        if round >= WARM_UP {
            times.creds.push(creds);
            times.sql.push(sql);
            times.flushes.push(flushes);
        }
        if start.elapsed() > LIMIT {
            break;
        }
    }
    assert!(
        times.creds.len() >= 50,
        "only {} rounds in {LIMIT:?}: too few to say anything",
        times.creds.len()
    );
    times
}

fn report(mut times: Times) {
    let rounds = times.creds.len();
    let of = |times: &mut Vec<Duration>| (quantile(times, 0.5), quantile(times, 0.99));
    let (creds, sql, flushes) = (of(&mut times.creds), of(&mut times.sql), of(&mut times.flushes));
    let over = micros(creds.0) - micros(sql.0) - micros(flushes.0);
    let is_held = over <= micros(GOAL);
    println!("creds, {rounds} rounds, in microseconds       p50      p99");
    for (name, (p50, p99)) in [
        ("GET database/creds/reader", creds),
        ("  bare CREATE ROLE", sql),
        ("  two store flushes", flushes),
    ] {
        println!("{name:32}{:>12}{:>9}", micros(p50), micros(p99));
    }
    println!(
        "{:32}{over:>12}   (goal: at most {}: {})",
        "over the bare",
        micros(GOAL),
        if is_held { "held" } else { "MISSED" }
    );
    let part =
        |(p50, p99): (Duration, Duration)| json!({ "p50_us": micros(p50), "p99_us": micros(p99) });
    let result = json!({
        "rounds": rounds, "creds": part(creds), "bare_sql": part(sql), "two_flushes": part(flushes),
        "over_bare_p50_us": over, "goal_us": micros(GOAL), "held": is_held,
    });
    figures::save("creds", result);
}
