//! How quickly leases are revoked: the default revocation of PostgreSQL by prefix, against the rate
//! at which sixteen callers make the same credentials through a group role, in turns.
//!
//! The database flushes to the disk, as it does where it counts.

mod figures;

use bulkhead_tests::paths::target;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Client, Postgres};
use figures::quantile;
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

const CALLERS: usize = 16;
const CREDENTIALS: usize = 480;
const ROUNDS: usize = 5;
/// What revocation reaches of the rate of creation.
const GOAL: f64 = 0.8;
/// For all users of a round to be gone.
const PATIENCE: Duration = Duration::from_secs(120);

const CREATION: &str = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' \
                        VALID UNTIL '{{expiration}}' IN ROLE readers";

fn main() {
    let postgres = Postgres::start_with("of-the-bench", &["-c", "fsync=on"]);
    let bulkhead = Bulkhead::start_in(target().join("bench-revocations"));
    let root = bulkhead.root();
    configure(&root, &postgres);
    let (mut made, mut ended, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let creation = rate(|| make(&root));
        let revocation = rate(|| revoke(&root, &postgres));
        shares.push(revocation / creation);
        made.push(creation);
        ended.push(revocation);
    }
    let [made, ended, share] =
        [&mut made, &mut ended, &mut shares].map(|values| quantile(values, 0.5));
    println!("credentials made   {made:.0} /s, {CALLERS} callers");
    println!("revoked by prefix  {ended:.0} /s, {:.0} % of that (goal 80 %)", share * 100.0);
    println!("  {}", if share >= GOAL { "held" } else { "MISSED" });
    figures::save(
        "revocations",
        json!({ "made": made, "revoked": ended, "share": share, "goal": GOAL }),
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

/// Credentials a second of what does them all.
fn rate(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    #[allow(clippy::cast_precision_loss, reason = "few credentials")]
    let credentials = CREDENTIALS as f64;
    credentials / start.elapsed().as_secs_f64()
}

fn make(root: &Client) {
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                for _ in 0..CREDENTIALS / CALLERS {
                    root.read("database/creds/reader").expect(200);
                }
            });
        }
    });
}

fn revoke(root: &Client, postgres: &Postgres) {
    root.write("sys/leases/revoke-prefix/database/creds/reader", &json!({})).expect_success();
    let left = "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'v-%'";
    until_true("all users are gone", PATIENCE, || postgres.query(left) == "0");
}
