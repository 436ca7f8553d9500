//! Creation and revocation of users: sixteen callers that ask for credentials through a group role,
//! against as many sessions with the same statement; and PostgreSQL's default revocation by prefix,
//! against the creation rate of these callers. All sides run in turns.
//!
//! The database flushes to the disk, as in production.

mod figures;
mod load;
mod watch;

use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::target;
use bulkhead_tests::{Bulkhead, Client, Postgres};
use figures::quantile;
use load::Connection;
use serde_json::json;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection as _, PgConnection};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use watch::Watch;

const CALLERS: usize = 16;
const CREDENTIALS: usize = 480;
const ROUNDS: usize = 5;
/// Minimum shares: creation of the bare rate, and revocation of the creation rate.
const GOAL: f64 = 0.8;
/// Maximum time until all users of a round are removed.
const PATIENCE: Duration = Duration::from_secs(120);

const CREATION: &str = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' \
                        VALID UNTIL '{{expiration}}' IN ROLE readers";

fn main() {
    let postgres = Postgres::start_with("of-the-bench", &["-c", "fsync=on"]);
    let bulkhead = Bulkhead::start_in(target().join("bench-revocations"));
    let root = bulkhead.root();
    configure(&root, &postgres);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let mut sessions = runtime.block_on(sessions(&postgres));
    let mut watch = Watch::of(&postgres);
    let [mut creations, mut of_bare, mut ended, mut shares] = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        let bare = rate(|| sessions = runtime.block_on(create_bare(std::mem::take(&mut sessions))));
        drop_bare(&postgres);
        let creation = rate(|| runtime.block_on(make(bulkhead.address())));
        let revocation = rate(|| revoke(&root, &mut watch));
        of_bare.push(creation / bare);
        shares.push(revocation / creation);
        creations.push(creation);
        ended.push(revocation);
    }
    let [creations, of_bare, ended, share] =
        [&mut creations, &mut of_bare, &mut ended, &mut shares].map(|values| quantile(values, 0.5));
    println!(
        "credentials made   {creations:.0} /s, {CALLERS} callers, {:.0} % of bare",
        of_bare * 100.0
    );
    println!("revoked by prefix  {ended:.0} /s, {:.0} % of that", share * 100.0);
    let is_held = of_bare >= GOAL && share >= GOAL;
    println!("  {} (goal 80 % each)", if is_held { "held" } else { "MISSED" });
    figures::save(
        "revocations",
        json!({
            "made": creations, "made_of_bare": of_bare, "revoked": ended, "share": share,
            "goal": GOAL,
        }),
    );
}

async fn sessions(postgres: &Postgres) -> Vec<PgConnection> {
    let options = watch::options(postgres);
    let mut sessions = Vec::new();
    for _ in 0..CALLERS {
        sessions.push(options.connect().await.expect("the database accepts a session"));
    }
    sessions
}

/// Creates as many users by the same statement, each session independently.
async fn create_bare(sessions: Vec<PgConnection>) -> Vec<PgConnection> {
    let work = sessions.into_iter().enumerate().map(|(caller, mut session)| {
        tokio::spawn(async move {
            for number in 0..CREDENTIALS / CALLERS {
                let create = CREATION
                    .replace("{{name}}", &format!("bare-{caller}-{number}"))
                    .replace("{{password}}", "aB3-aB3-aB3-aB3-aB3-")
                    .replace("{{expiration}}", "2099-01-01 00:00:00+0000");
                let mut transaction = session.begin().await.expect("a transaction begins");
                sqlx::raw_sql(AssertSqlSafe(create))
                    .execute(&mut *transaction)
                    .await
                    .expect("the user is created");
                transaction.commit().await.expect("the transaction commits");
            }
            session
        })
    });
    let mut sessions = Vec::new();
    for task in work.collect::<Vec<_>>() {
        sessions.push(task.await.expect("a session does not panic"));
    }
    sessions
}

fn drop_bare(postgres: &Postgres) {
    postgres.query(
        "DO $$ DECLARE name text; BEGIN \
            FOR name IN SELECT rolname FROM pg_roles WHERE rolname LIKE 'bare-%' LOOP \
                EXECUTE format('DROP ROLE %I', name); \
            END LOOP; END $$",
    );
}

fn configure(root: &Client, postgres: &Postgres) {
    let config = json!({
        "plugin_name": "postgresql-database-plugin", "allowed_roles": "*",
        "connection_url": postgres.url(), "username": "bulkhead", "password": postgres.password,
        "max_open_connections": CALLERS,
    });
    root.write("database/config/demo", &config).expect_success();
    let role = json!({
        "db_name": "demo", "creation_statements": [CREATION], "default_ttl": "1h",
    });
    root.write("database/roles/reader", &role).expect_success();
}

fn rate(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    #[allow(clippy::cast_precision_loss, reason = "few credentials")]
    let credentials = CREDENTIALS as f64;
    credentials / start.elapsed().as_secs_f64()
}

/// Creates as many credentials, each caller over a kept connection.
async fn make(address: SocketAddr) {
    let callers = (0..CALLERS).map(|_| {
        tokio::spawn(async move {
            let mut connection = Connection::open(address).await;
            let request = load::get("database/creds/reader", ROOT);
            for _ in 0..CREDENTIALS / CALLERS {
                let given = connection.exchange(&request).await;
                assert!(given.contains("lease_duration"), "{given}");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no caller panics");
    }
}

fn revoke(root: &Client, watch: &mut Watch) {
    root.write("sys/leases/revoke-prefix/database/creds/reader", &json!({})).expect_success();
    let left = "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'v-%'";
    watch.until_none("all users are gone", PATIENCE, left);
}
