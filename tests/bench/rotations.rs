//! Rotation of a thousand static roles over twenty connections, all due at the same minute, against
//! the same statements and logins without Bulkhead.
//!
//! The bare side has a task for each session that the connections may have. The database flushes to
//! the disk, as in production.

mod figures;
mod watch;

use bulkhead_tests::paths::target;
use bulkhead_tests::{Bulkhead, Client, Postgres};
use figures::micros;
use serde_json::json;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use watch::Watch;

const ROLES: usize = 1_000;
const CONNECTIONS: usize = 20;
/// Number of sessions of each connection.
const SESSIONS: usize = 4;
const FIRST: &str = "Hv3-Pq8-Lm5-Zd1";
/// Counts the accounts that still have the first password.
const UNCHANGED: &str = "SELECT count(*) FROM pg_authid JOIN before USING (rolname, rolpassword) \
                         WHERE rolname LIKE 'account-%'";
/// Minimum share of the bare rate.
const GOAL: f64 = 0.8;
/// Maximum time until all roles are rotated.
const PATIENCE: Duration = Duration::from_secs(180);

fn main() {
    let postgres =
        Postgres::start_with("of-the-bench", &["-c", "fsync=on", "-c", "max_connections=300"]);
    let bulkhead = Bulkhead::start_in(target().join("bench-rotations"));
    let root = bulkhead.root();
    make_accounts(&postgres);
    let bare = bare(&postgres);
    make_accounts(&postgres);
    configure(&root, &postgres);
    let begin = next_minute_but_one();
    write_roles(&root, begin);
    let begin = UNIX_EPOCH + Duration::from_secs(begin * 60);
    let wait = begin.duration_since(SystemTime::now()).expect("the roles are written in time");
    let mut watch = Watch::of(&postgres);
    thread::sleep(wait);
    let start = Instant::now();
    watch.until_none("all roles are rotated", PATIENCE, UNCHANGED);
    let rotated = start.elapsed();
    let share = bare.as_secs_f64() / rotated.as_secs_f64();
    println!(
        "{ROLES} rotations by themselves        {bare:?}, {CONNECTIONS} x {SESSIONS} sessions"
    );
    println!("{ROLES} roles due at once              {rotated:?}, {:.0} %", share * 100.0);
    println!("  {} (goal {:.0} %)", if share >= GOAL { "held" } else { "MISSED" }, GOAL * 100.0);
    figures::save(
        "rotations",
        json!({
            "bare_us": micros(bare), "rotated_us": micros(rotated), "share": share, "goal": GOAL,
        }),
    );
}

/// Creates the accounts with the first password, and saves the stored passwords for the comparison.
fn make_accounts(postgres: &Postgres) {
    postgres.query(&format!(
        "DO $$ BEGIN FOR n IN 0..{} LOOP \
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'account-' || n) THEN \
                EXECUTE format('CREATE ROLE %I LOGIN', 'account-' || n); \
            END IF; \
            EXECUTE format('ALTER ROLE %I PASSWORD %L', 'account-' || n, '{FIRST}'); \
         END LOOP; END $$; \
         DROP TABLE IF EXISTS before; \
         CREATE TABLE before AS SELECT rolname, rolpassword FROM pg_authid",
        ROLES - 1
    ));
}

/// Runs the same number of changes and logins without Bulkhead.
fn bare(postgres: &Postgres) -> Duration {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let tasks = CONNECTIONS * SESSIONS;
    let start = Instant::now();
    runtime.block_on(async {
        let work =
            (0..tasks).map(|first| tokio::spawn(rotate(watch::options(postgres), first, tasks)));
        for task in work.collect::<Vec<_>>() {
            task.await.expect("a task does not panic");
        }
    });
    start.elapsed()
}

async fn rotate(as_root: PgConnectOptions, first: usize, step: usize) {
    let mut root = as_root.connect().await.expect("the database accepts a session");
    for number in (first..ROLES).step_by(step) {
        let password = format!("Wd4-Kf9-Ts2-{number}");
        let change = format!("ALTER ROLE \"account-{number}\" WITH PASSWORD '{password}'");
        sqlx::raw_sql(AssertSqlSafe(change)).execute(&mut root).await.expect("it is changed");
        let account = as_root.clone().username(&format!("account-{number}"));
        let login =
            account.password(&password).connect().await.expect("the shown password logs in");
        login.close().await.expect("a session is closed");
    }
}

fn configure(root: &Client, postgres: &Postgres) {
    for number in 0..CONNECTIONS {
        let config = json!({
            "plugin_name": "postgresql-database-plugin", "allowed_roles": "*",
            "connection_url": postgres.url(), "username": "bulkhead",
            "password": postgres.password, "max_open_connections": SESSIONS,
        });
        root.write(&format!("database/config/of-{number}"), &config).expect_success();
    }
}

/// Returns the minute since the epoch that begins in one to two minutes, so that the roles can be
/// written first.
fn next_minute_but_one() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    now.as_secs() / 60 + 2
}

/// Writes roles with imported passwords, all due at `minute` and then not for a day.
fn write_roles(root: &Client, minute: u64) {
    const WRITERS: usize = 8;
    let schedule = format!("{} {} * * *", minute % 60, minute / 60 % 24);
    thread::scope(|scope| {
        for first in 0..WRITERS {
            let schedule = &schedule;
            scope.spawn(move || {
                for number in (first..ROLES).step_by(WRITERS) {
                    let role = json!({
                        "db_name": format!("of-{}", number % CONNECTIONS),
                        "username": format!("account-{number}"), "rotation_schedule": schedule,
                        "skip_import_rotation": true, "password": FIRST,
                    });
                    root.write(&format!("database/static-roles/app-{number}"), &role).expect(204);
                }
            });
        }
    });
}
