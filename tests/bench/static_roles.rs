//! Static roles: `GET database/static-creds/:name` against `GET database/roles/:name` of the same
//! server, in turns, and a start with ten thousand static roles against a start without.
//!
//! No database is needed: the roles import their passwords, and none is due.

mod figures;
mod load;

use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::target;
use bulkhead_tests::{Bulkhead, Client};
use figures::quantile;
use load::{AnswerLengths, Target};
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 64;
const ROUNDS: usize = 7;
const TIME: Duration = Duration::from_millis(1_500);
const WARM_UP: Duration = Duration::from_secs(3);
/// Minimum share of a role's rate.
const SHARE_GOAL: f64 = 0.9;

const ROLES: usize = 10_000;
const WRITERS: usize = 8;
/// Maximum addition to the duration of a start.
const START_GOAL: Duration = Duration::from_secs(1);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let mut bulkhead = Bulkhead::start_in(target().join("bench-static-roles"));
    configure(&bulkhead.root());
    let empty = start_again(&mut bulkhead);
    let root = bulkhead.root();
    write_roles(&root);
    let filled = start_again(&mut bulkhead);
    let share = runtime.block_on(share(&bulkhead));
    let added = filled.saturating_sub(empty);
    println!(
        "GET database/static-creds/:name, of a role's rate   {:.1} % (goal 90 %)",
        share * 100.0
    );
    println!("{ROLES} static roles add to a start   {added:?} (goal {START_GOAL:?})");
    let is_held = share >= SHARE_GOAL && added < START_GOAL;
    println!("  {}", if is_held { "held" } else { "MISSED" });
    let added_ms = figures::micros(added) / 1_000;
    figures::save(
        "static_roles",
        json!({
            "share": share, "share_goal": SHARE_GOAL, "start_added_ms": added_ms, "held": is_held,
        }),
    );
}

fn configure(root: &Client) {
    let config = json!({
        "plugin_name": "postgresql-database-plugin", "verify_connection": false,
        "allowed_roles": "*", "username": "bulkhead", "password": "of-the-bench",
        "connection_url": "postgresql://{{username}}:{{password}}@127.0.0.1:1/demo?sslmode=disable",
    });
    assert!(root.write("database/config/orders", &config).status < 300);
    let role = json!({ "db_name": "orders", "creation_statements": "CREATE ROLE \"{{name}}\"" });
    assert!(root.write("database/roles/reader", &role).status < 300);
}

/// Writes the static roles; none is due for a day.
fn write_roles(root: &Client) {
    thread::scope(|scope| {
        for first in 0..WRITERS {
            scope.spawn(move || {
                for number in (first..ROLES).step_by(WRITERS) {
                    let role = json!({
                        "db_name": "orders", "username": format!("account-{number}"),
                        "rotation_period": "24h", "skip_import_rotation": true,
                        "password": "as-it-was-before",
                    });
                    root.write(&format!("database/static-roles/app-{number}"), &role).expect(204);
                }
            });
        }
    });
}

/// Returns the duration of a start until the engine answers.
fn start_again(bulkhead: &mut Bulkhead) -> Duration {
    bulkhead.kill();
    let start = Instant::now();
    bulkhead.start_again();
    bulkhead.root().read("database/roles/reader").expect(200);
    start.elapsed()
}

/// Returns the median share of a role's rate.
async fn share(bulkhead: &Bulkhead) -> f64 {
    let ask = |path: &str| Target {
        pid: bulkhead.pid(),
        address: bulkhead.address(),
        request: load::get(path, ROOT),
        lengths: AnswerLengths::Equal,
    };
    let (role, creds) = (ask("database/roles/reader"), ask("database/static-creds/app-7"));
    assert!(creds.look().await.contains("as-it-was-before"), "static credentials are answered");
    role.load(CONNECTIONS, WARM_UP).await;
    let mut shares = Vec::new();
    for _ in 0..ROUNDS {
        let of_role = role.load(CONNECTIONS, TIME).await.per_second;
        shares.push(creds.load(CONNECTIONS, TIME).await.per_second / of_role);
    }
    quantile(&mut shares, 0.5)
}
