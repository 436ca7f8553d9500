//! Logins by `approle`, by `jwt` and by the auth method of `plugins/examples/passphrase`, for
//! service and batch tokens, against bare hyper.
//!
//! The same load asks on the same cores in turns: bare hyper with an answer of the same size,
//! logins for service tokens (a commit each), and logins for batch tokens (nothing is stored). Most
//! of a passphrase login's processor time is the key derivation, which is slow by design. A mount
//! of `tests/guests/doorman` verifies nothing and shows the rest of the cost. The secret id of
//! `approle` has no limit of uses, so that a login writes only its token. A
//! login by `jwt` verifies an RS256 signature with a key that the operator wrote.

mod bare;
mod figures;
mod load;
mod rounds;
mod standard;

use bare::Bare;
use bulkhead_tests::paths::{guest, target};
use bulkhead_tests::{Bulkhead, Client};
use load::{AnswerLengths, Target};
use rounds::{report, rounds};
use serde_json::{Value, json};
use standard::{approle, jwt};
use std::time::Duration;

const CONNECTIONS: [usize; 2] = [1, 16];
const WARM_UP: Duration = Duration::from_secs(2);

/// Requests in the order of the report.
const NAMES: [&str; 9] = [
    "bare hyper",
    "proving nothing, service token",
    "proving nothing, batch token",
    "approle, service token",
    "approle, batch token",
    "jwt, service token",
    "jwt, batch token",
    "passphrase, service token",
    "passphrase, batch token",
];

fn main() {
    bare::serve_if_asked();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let bulkhead = Bulkhead::start_in(target().join("bench-logins"));
    configure(&bulkhead.root());
    let [by_role, by_batch_role] = approle(&bulkhead.root());
    let [by_jwt, by_batch_jwt] = jwt(&bulkhead.root());
    let ask = |path: &str, body: &Value| Target {
        pid: bulkhead.pid(),
        address: bulkhead.url().trim_start_matches("http://").parse().expect("an address"),
        request: load::post(path, "", &body.to_string()),
        lengths: AnswerLengths::Equal,
    };
    let (say, passphrase) = (json!({ "say": {} }), json!({ "passphrase": "open sesame" }));
    let logins = [
        ask("auth/service-door/login", &say),
        ask("auth/batch-door/login", &say),
        ask("auth/approle/login", &by_role),
        ask("auth/approle/login", &by_batch_role),
        ask("auth/jwt/login", &by_jwt),
        ask("auth/jwt/login", &by_batch_jwt),
        ask("auth/service/login/amy", &passphrase),
        ask("auth/batch/login/amy", &passphrase),
    ];
    let body =
        runtime.block_on(logins[0].look()).split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
    let bare = Bare::start(body);
    let ceiling = Target {
        address: bare.address,
        pid: bare.pid,
        request: logins[0].request.clone(),
        lengths: AnswerLengths::Equal,
    };
    let servers: Vec<&Target> = std::iter::once(&ceiling).chain(&logins).collect();
    for server in &servers {
        runtime.block_on(server.load(4, WARM_UP));
    }
    let results: Vec<Value> = CONNECTIONS
        .map(|count| report("logins", &NAMES, count, &runtime.block_on(rounds(&servers, count))))
        .into();
    figures::save("logins", json!({ "answer_bytes": body, "runs": results }));
}

/// Enables two mounts of each auth method, for service and for batch tokens.
fn configure(root: &Client) {
    for name in ["passphrase", "doorman"] {
        root.upload(&format!("sys/plugins/catalog/auth/{name}"), &guest(name)).expect(204);
    }
    for (path, kind) in [("", "passphrase"), ("-door", "doorman")] {
        for token_type in ["service", "batch"] {
            let mount = json!({ "type": kind, "config": { "token_type": token_type } });
            root.write(&format!("sys/auth/{token_type}{path}"), &mount).expect(204);
        }
    }
    let amy = json!({ "passphrase": "open sesame", "token_ttl": "1h" });
    for token_type in ["service", "batch"] {
        root.write(&format!("auth/{token_type}/users/amy"), &amy).expect(204);
    }
}
