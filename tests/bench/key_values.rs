//! Reads and writes of `kv`, versions 1 and 2, with token, policy and audit, against bare hyper.
//!
//! The same load asks on the same cores in turns: bare hyper with an answer of the same size, reads
//! of a secret, and writes of the secret. All connections write the same secret, so that the writes
//! queue for its record; a write is answered once the record is on the disk. The answer to a write
//! of version 2 grows with the number of the version and has no fixed length.

mod bare;
mod figures;
mod load;
mod rounds;

use bare::Bare;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::paths::target;
use load::{AnswerLengths, Target};
use rounds::{report, rounds};
use serde_json::{Value, json};
use std::time::Duration;

const CONNECTIONS: [usize; 2] = [1, 16];
const WARM_UP: Duration = Duration::from_secs(2);

/// Requests in the order of the report.
const NAMES: [&str; 5] =
    ["bare hyper", "version 1, read", "version 2, read", "version 1, write", "version 2, write"];

fn main() {
    bare::serve_if_asked();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let bulkhead = Bulkhead::start_in(target().join("bench-key-values"));
    let token = configure(&bulkhead);
    let ask = |request, lengths| Target {
        pid: bulkhead.pid(),
        address: bulkhead.url().trim_start_matches("http://").parse().expect("an address"),
        request,
        lengths,
    };
    let value = json!({ "user": "orders", "password": "correct horse battery staple" });
    let versioned = json!({ "data": value }).to_string();
    let kv = [
        ask(load::get("first/orders", &token), AnswerLengths::Equal),
        ask(load::get("second/data/orders", &token), AnswerLengths::Equal),
        ask(load::post("first/orders", &token, &value.to_string()), AnswerLengths::Equal),
        ask(load::post("second/data/orders", &token, &versioned), AnswerLengths::Declared),
    ];
    let answer = runtime.block_on(kv[1].look());
    let body = answer.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
    let bare = Bare::start(body);
    let ceiling = Target {
        address: bare.address,
        pid: bare.pid,
        request: kv[1].request.clone(),
        lengths: AnswerLengths::Equal,
    };
    let servers: Vec<&Target> = std::iter::once(&ceiling).chain(&kv).collect();
    for server in &servers {
        runtime.block_on(server.load(4, WARM_UP));
    }
    let results: Vec<Value> = CONNECTIONS
        .map(|count| report("kv", &NAMES, count, &runtime.block_on(rounds(&servers, count))))
        .into();
    figures::save("key_values", json!({ "answer_bytes": body, "runs": results }));
}

/// Enables a mount of each version with a secret, and returns a token for the two secrets only.
fn configure(bulkhead: &Bulkhead) -> String {
    let root = bulkhead.root();
    for (path, version) in [("first", "1"), ("second", "2")] {
        let mount = json!({ "type": "kv", "options": { "version": version } });
        root.write(&format!("sys/mounts/{path}"), &mount).expect(204);
    }
    let value = json!({ "user": "orders", "password": "correct horse battery staple" });
    root.write("first/orders", &value).expect(204);
    root.write("second/data/orders", &json!({ "data": value })).expect(200);
    let rules = r#"path "first/orders" { capabilities = ["read", "create", "update"] }
        path "second/data/orders" { capabilities = ["read", "create", "update"] }"#;
    root.write("sys/policies/acl/orders", &json!({ "policy": rules })).expect(204);
    let answer = root.write("auth/token/create", &json!({ "policies": ["orders"] })).expect(200);
    answer.body["auth"]["client_token"].as_str().expect("a token").to_owned()
}
