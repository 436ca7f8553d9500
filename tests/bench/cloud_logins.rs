//! Logins of Azure machines and Google accounts, for service and batch tokens, against the same
//! build on a disk that ignores flushes.
//!
//! Keys and access tokens are cached, as on a server that has been up for a minute. An Azure login
//! by principal sends no request to the provider. A Google login asks IAM about the account, and
//! most of this cost is the provider in the benchmark's process. The load asks both sides in turns.
//! The report also compares with logins of `tests/guests/doorman`, which verify nothing; the
//! difference is the verification and the reads of role and configuration. `host/sandbox/benches`
//! measures the verification alone.

mod figures;
mod load;

use bulkhead_tests::cloud_a::{AUDIENCE, CloudA, Machine, TENANT};
use bulkhead_tests::cloud_b::{CloudB, now};
use bulkhead_tests::internet::Online;
use bulkhead_tests::paths::{binary, guest};
use bulkhead_tests::{Internet, preload};
use figures::quantile;
use load::{AnswerLengths, Load, Target};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const CONNECTIONS: usize = 64;
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(1_500);
const WARM_UP: Duration = Duration::from_secs(2);

/// Minimum share of the login rate without flushes.
const SHARE: f64 = 0.70;

const OWN: &str = "bulkhead@home.iam.gserviceaccount.com";
const APP: &str = "app@p1.iam.gserviceaccount.com";

/// Logins in the order of the report.
const NAMES: [&str; 5] = [
    "azure, service token",
    "azure, batch token",
    "google, service token",
    "google, batch token",
    "proving nothing, batch token",
];

/// Both providers and the proofs for logins.
struct Clouds {
    internet: Internet,
    azure: Arc<CloudA>,
    google: Arc<CloudB>,
    machine: Machine,
}

impl Clouds {
    fn start() -> Self {
        let internet = Internet::start();
        let (azure, google) = (CloudA::on(&internet), CloudB::on(&internet));
        google.account("bulkhead", "home");
        google.account("app", "p1");
        let machine = azure.add(Machine::vm("apps", "vm1"));
        Self { internet, azure, google, machine }
    }

    /// Starts a server whose mounts issue service and batch tokens.
    fn server(&self, environment: &[(&str, String)]) -> Online {
        let online = self.internet.server_of(binary(), "", environment);
        let root = &online.root;
        root.upload("sys/plugins/catalog/auth/doorman", &guest("doorman")).expect(204);
        let config = json!({ "tenant_id": TENANT, "resource": AUDIENCE });
        let key = json!({ "credentials": self.google.credentials(OWN) });
        let by_principal = json!({
            "bound_service_principal_ids": self.machine.identity.principal, "token_ttl": "1h",
        });
        let account = json!({ "type": "iam", "bound_service_accounts": APP, "max_jwt_exp": "1h" });
        for token_type in ["service", "batch"] {
            for kind in ["azure", "gcp", "doorman"] {
                let mount = json!({ "type": kind, "config": { "token_type": token_type } });
                root.write(&format!("sys/auth/{kind}-{token_type}"), &mount).expect(204);
            }
            root.write(&format!("auth/azure-{token_type}/config"), &config).expect(204);
            root.write(&format!("auth/azure-{token_type}/role/app"), &by_principal).expect(204);
            root.write(&format!("auth/gcp-{token_type}/config"), &key).expect(204);
            root.write(&format!("auth/gcp-{token_type}/role/app"), &account).expect(204);
        }
        online
    }

    /// Returns the requests to a server, in the order of [`NAMES`].
    fn targets(&self, online: &Online) -> [Target; 5] {
        let azure = self.azure.token(&self.azure.claims(&self.machine));
        let claims = json!({ "sub": APP, "aud": "vault/app", "exp": now() + 1_800 });
        let google = self.google.signed(APP, &claims);
        let ask = |mount: &str, body: Value| Target {
            pid: online.server.pid(),
            address: online.server.address(),
            request: load::post(&format!("auth/{mount}/login"), "", &body.to_string()),
            lengths: AnswerLengths::Equal,
        };
        [
            ask("azure-service", json!({ "role": "app", "jwt": azure })),
            ask("azure-batch", json!({ "role": "app", "jwt": azure })),
            ask("gcp-service", json!({ "role": "app", "jwt": google })),
            ask("gcp-batch", json!({ "role": "app", "jwt": google })),
            ask("doorman-batch", json!({ "say": {} })),
        ]
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let clouds = Clouds::start();
    let flushing = clouds.server(&[]);
    let lazy = clouds.server(&preload::no_flushes());
    let targets = [clouds.targets(&flushing), clouds.targets(&lazy)];
    for target in targets.iter().flatten() {
        runtime.block_on(target.load(4, WARM_UP / 4));
    }
    let rounds: Vec<Round> = (0..ROUNDS).map(|_| runtime.block_on(round(&targets))).collect();
    figures::save("cloud_logins", report(&rounds));
}

/// A load for each of [`NAMES`], with and without flushes.
type Round = [[Load; 2]; 5];

async fn round([flushing, lazy]: &[[Target; 5]; 2]) -> Round {
    let mut found = Vec::new();
    for (one, other) in flushing.iter().zip(lazy) {
        found.push([one.load(CONNECTIONS, TIME).await, other.load(CONNECTIONS, TIME).await]);
    }
    found.try_into().unwrap_or_else(|_| panic!("as many loads as names"))
}

fn median(rounds: &[Round], says: impl Fn(&Round) -> f64) -> f64 {
    quantile(&mut rounds.iter().map(says).collect::<Vec<_>>(), 0.5)
}

fn report(rounds: &[Round]) -> Value {
    let title = format!("logins at clouds, {CONNECTIONS} connections, {} rounds", rounds.len());
    println!("{title:56} requests/s  of unflushed  server's us");
    let rows = NAMES.iter().enumerate().map(|(number, name)| {
        let rate = median(rounds, |round| round[number][0].per_second);
        let share =
            median(rounds, |round| round[number][0].per_second / round[number][1].per_second);
        let micros = median(rounds, |round| round[number][0].server * 1e6);
        println!("  {name:54} {rate:>10.0} {:>11.2} % {micros:>12.1}", share * 100.0);
        json!({ "what": name, "per_s": rate.round(), "share": share, "server_us": micros })
    });
    let rows: Vec<Value> = rows.collect();
    let proof = median(rounds, |round| (round[1][0].server - round[4][0].server) * 1e6);
    let share = rows[0]["share"].as_f64().unwrap_or_default();
    println!("  a service token at azure: {:.2} of unflushed, at least {SHARE:.2}", share);
    println!("  a login at azure, over one that proves nothing: {proof:.1} us of the server");
    json!({ "connections": CONNECTIONS, "rows": rows, "over_none_us": proof })
}
