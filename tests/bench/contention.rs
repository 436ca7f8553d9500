//! Sixty-four clients that write one record, against sixty-four clients that write one record each.
//!
//! Each write is a commit. Writes of different records share a flush. Writes of one record follow
//! each other, each with its own flush, because each write reads the result of the previous write.
//! The report shows two more figures for comparison: the same clients with separate records, and
//! one client alone.

mod figures;
mod load;

use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::{Folder, target};
use figures::quantile;
use load::Connection;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const CLIENTS: usize = 64;
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_secs(2);
/// Minimum share of the rate of one client alone, which also has a flush for each write.
const GOAL: f64 = 0.5;

/// A kind of write. The request depends on the client's number.
struct Kind {
    name: &'static str,
    request: fn(client: usize, tokens: &[String]) -> Vec<u8>,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "a role written",
        request: |client, _| {
            let role = r#"{"db_name":"orders","creation_statements":["CREATE ROLE \"{{name}}\""]}"#;
            load::post(&format!("database/roles/r{client}"), ROOT, role)
        },
    },
    Kind {
        name: "a mount tuned",
        request: |client, _| {
            let path = format!("sys/mounts/own/{client}/tune");
            load::post(&path, ROOT, r#"{"description":"tuned"}"#)
        },
    },
    Kind {
        name: "a token renewed",
        request: |client, tokens| load::post("auth/token/renew-self", &tokens[client], "{}"),
    },
];

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let folder = Folder::at(target().join("bench-contention"));
    let bulkhead = Bulkhead::start_in(folder.path().join("bulkhead"));
    let address = bulkhead.url().trim_start_matches("http://").parse().expect("an address");
    let tokens = prepare(&bulkhead);
    println!("writes by {CLIENTS} clients at once       one thing/s   own things/s   one alone/s");
    let results: Vec<Value> =
        KINDS.iter().map(|kind| runtime.block_on(measure(address, kind, &tokens))).collect();
    figures::save("contention", json!(results));
}

/// Prepares a mount, and a token for each client.
fn prepare(bulkhead: &Bulkhead) -> Vec<String> {
    let root = bulkhead.root();
    (0..CLIENTS)
        .map(|client| {
            let mount = json!({ "type": "database" });
            root.write(&format!("sys/mounts/own/{client}"), &mount).expect(204);
            let token_request = json!({ "policies": ["default"], "ttl": "1h" });
            let answer = root.write("auth/token/create", &token_request).expect(200);
            answer.body["auth"]["client_token"].as_str().expect("a token").to_owned()
        })
        .collect()
}

async fn measure(address: SocketAddr, kind: &Kind, tokens: &[String]) -> Value {
    let request = |client: usize| (kind.request)(client, tokens);
    let one_thing: Vec<_> = (0..CLIENTS).map(|_| request(0)).collect();
    let own_things: Vec<_> = (0..CLIENTS).map(request).collect();
    let alone = vec![request(0)];
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (rates, requests) in rates.iter_mut().zip([&one_thing, &own_things, &alone]) {
            rates.push(rate(address, requests).await);
        }
    }
    let [one, own, alone] = rates.map(|mut rates| quantile(&mut rates, 0.5));
    let is_held = one >= GOAL * alone;
    let verdict = if is_held { "held" } else { "MISSED" };
    println!("  {:32} {one:>14.0} {own:>14.0} {alone:>13.0}   {verdict}", kind.name);
    json!({
        "kind": kind.name, "one_thing_per_s": one.round(), "own_things_per_s": own.round(),
        "alone_per_s": alone.round(), "goal_of_alone": GOAL, "held": is_held,
    })
}

/// Returns answers per second of clients that repeat their requests. Fails if a request is refused.
async fn rate(address: SocketAddr, requests: &[Vec<u8>]) -> f64 {
    let began = Instant::now();
    let clients: Vec<_> = requests
        .iter()
        .cloned()
        .map(|request| {
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await;
                let mut answered = 0_u32;
                while began.elapsed() < TIME {
                    connection.exchange(&request).await;
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    let mut answered = 0;
    for client in clients {
        answered += client.await.expect("no request was refused");
    }
    f64::from(answered) / began.elapsed().as_secs_f64()
}
