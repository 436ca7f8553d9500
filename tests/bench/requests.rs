//! A whole request, `GET database/roles/:name` with token, policy and audit, against bare hyper.
//!
//! The same load asks three servers in turns on the same cores: bare hyper with an answer of the
//! same size, Bulkhead with a fresh instance per request (the default), and a second mount that
//! reuses instances (decision T4). The figures are shares of the bare rate of the same round, so
//! that a busy neighbour slows both alike. On a machine with many neighbours, the share by
//! processor time (server and load together) is the reliable figure.

mod bare;
mod figures;
mod load;

use bare::Bare;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::paths::target;
use figures::quantile;
use load::{AnswerLengths, Load, Target};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const CONNECTIONS: [usize; 3] = [16, 64, 256];
/// Minimum number of connections for the goals. With fewer, the server waits for the load, and the
/// figure is only shown.
const BUSY: usize = 64;
const ROUNDS: usize = 7;
const TIME: Duration = Duration::from_millis(1_500);
const WARM_UP: Duration = Duration::from_secs(3);

/// Minimum shares of the rate of bare hyper.
const FRESH_GOAL: f64 = 0.22;
const REUSED_GOAL: f64 = 0.33;

const ROLE: &str =
    r#"CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'"#;

fn main() {
    bare::serve_if_asked();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let bulkhead = Bulkhead::start_in(target().join("bench-requests"));
    let token = configure(&bulkhead);
    let ask = |mount: &str| Target {
        pid: bulkhead.pid(),
        address: bulkhead.url().trim_start_matches("http://").parse().expect("an address"),
        request: load::get(&format!("{mount}/roles/reader"), &token),
        lengths: AnswerLengths::Equal,
    };
    let (fresh, reused) = (ask("database"), ask("database-reuse"));
    let body =
        runtime.block_on(fresh.look()).split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
    let bare = Bare::start(body);
    let ceiling = Target {
        address: bare.address,
        pid: bare.pid,
        request: fresh.request.clone(),
        lengths: AnswerLengths::Equal,
    };
    assert_audited(&runtime, bulkhead.data(), &fresh);
    let servers = [&ceiling, &fresh, &reused];
    for server in servers {
        runtime.block_on(server.load(16, WARM_UP));
    }
    let results: Vec<Value> =
        CONNECTIONS.map(|count| report(count, &runtime.block_on(rounds(servers, count)))).into();
    figures::save("requests", json!({ "answer_bytes": body, "runs": results }));
}

/// Enables both mounts with the same role, and returns a token that may only read the role.
fn configure(bulkhead: &Bulkhead) -> String {
    let root = bulkhead.root();
    let reusing = json!({ "type": "database", "options": { "instance_reuse": "bounded" } });
    root.write("sys/mounts/database-reuse", &reusing).expect(204);
    let mount = root.read("sys/mounts/database-reuse").expect(200);
    assert_eq!(
        mount.body["data"]["options"]["instance_reuse"], "bounded",
        "the mount does not reuse instances"
    );
    for mount in ["database", "database-reuse"] {
        let role =
            json!({ "db_name": "orders", "creation_statements": [ROLE], "default_ttl": "1h" });
        assert!(root.write(&format!("{mount}/roles/reader"), &role).status < 300);
    }
    let rules = r#"path "database/roles/*" { capabilities = ["read"] }
        path "database-reuse/roles/*" { capabilities = ["read"] }"#;
    root.write("sys/policies/acl/reader", &json!({ "policy": rules })).expect(204);
    let answer = root
        .write("auth/token/create", &json!({ "policies": ["reader"], "ttl": "1h" }))
        .expect(200);
    let token = answer.body["auth"]["client_token"].as_str().expect("a token").to_owned();
    let client = bulkhead.client(Some(&token));
    client.read("database/roles/reader").expect(200);
    client.read("database/config/orders").expect(403);
    token
}

/// Checks that request and answer are audited; otherwise the figure would be too good.
fn assert_audited(runtime: &tokio::runtime::Runtime, data: &Path, server: &Target) {
    let lines = || {
        std::fs::read_to_string(data.join("audit.log")).expect("the audit's file").lines().count()
    };
    let before = lines();
    for _ in 0..10 {
        runtime.block_on(server.look());
    }
    assert_eq!(lines() - before, 20, "two lines a request");
}

/// Loads of one round: bare, fresh, reused.
type Round = [Load; 3];

async fn rounds(servers: [&Target; 3], connections: usize) -> Vec<Round> {
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        let [bare, fresh, reused] = servers;
        found.push([
            bare.load(connections, TIME).await,
            fresh.load(connections, TIME).await,
            reused.load(connections, TIME).await,
        ]);
    }
    found
}

fn median(rounds: &[Round], says: impl Fn(&Round) -> f64) -> f64 {
    quantile(&mut rounds.iter().map(says).collect::<Vec<_>>(), 0.5)
}

fn report(connections: usize, rounds: &[Round]) -> Value {
    let title =
        format!("GET database/roles/:name, {connections} connections, {} rounds", rounds.len());
    println!("{title:56} requests/s   of bare   of bare's cpu   server's us");
    let row = |name: &str, server: usize| {
        let rate = median(rounds, |round| round[server].per_second);
        let share = median(rounds, |round| round[server].per_second / round[0].per_second);
        // Estimates the share of the rate for a server with all cores for itself: here the load
        // takes a part.
        let cost = |load: Load| load.server + load.load;
        let cpu_share = median(rounds, |round| cost(round[0]) / cost(round[server]));
        let micros = median(rounds, |round| round[server].server * 1e6);
        let (percent, cpu_percent) = (share * 100.0, cpu_share * 100.0);
        println!("  {name:54} {rate:>10.0} {percent:>7.1} % {cpu_percent:>13.1} % {micros:>13.1}");
        let figures = json!({
            "per_s": rate.round(), "share": share, "cpu_share": cpu_share, "server_us": micros,
        });
        (share, figures)
    };
    let (_, bare) = row("bare hyper", 0);
    let (fresh_share, fresh) = row("a fresh instance each (busy, at least 18 %)", 1);
    let (reused_share, reused) = row("instances reused (busy, at least 30 %)", 2);
    let verdict =
        (connections >= BUSY).then_some(fresh_share >= FRESH_GOAL && reused_share >= REUSED_GOAL);
    println!(
        "  {}",
        verdict.map_or("not judged", |is_held| if is_held { "held" } else { "MISSED" })
    );
    json!({
        "connections": connections, "bare": bare, "fresh": fresh, "fresh_goal": FRESH_GOAL,
        "reused": reused, "reused_goal": REUSED_GOAL, "held": verdict,
    })
}
