//! Measures the verification of a token by an engine through the SDK (decision T5): the process's
//! CPU time for a token with RS256 and its key from a set, as the difference between a call with a
//! thousand verifications and a call with a single verification.
//!
//! Includes reading the token, finding its key in the issuer's set, the host call, the signature,
//! and the claims. The key is parsed once. Prints results to the terminal and writes JSON to
//! `target/bench.json`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark stops by panicking and reports by printing"
)]

#[path = "bed/sandbox.rs"]
mod bed;
#[path = "../../benches/figures.rs"]
mod figures;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bed::{Bed, call};
use bulkhead_crypto::{KeyParameters, PrivateKey, sign};
use bulkhead_sandbox::contract::AnswerPayload;
use bulkhead_sandbox::{InstanceReuse, MountLimits};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Maximum CPU time of a verification, in microseconds.
const TARGET: f64 = 60.0;
const PROOFS: u32 = 1_000;
const ROUNDS: usize = 20;

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let target = figures::target();
    let directory = target.join(format!("bench-signature-{}", std::process::id()));
    // High enough for a thousand verifications in a call.
    let limits = MountLimits { host_bytes: 256 << 20, ..MountLimits::default() };
    let component = target.join("guests/probe.wasm");
    let bed = runtime.block_on(Bed::prepare(&component, &directory, limits));
    let (jwt, keys) = token();
    let many = |times: u32| {
        let fields = json!({ "name": "a", "jwt": jwt, "keys": keys, "algorithm": "RS256",
                             "times": times });
        runtime.block_on(prove(&bed, &fields))
    };
    many(PROOFS);
    let mut each: Vec<f64> =
        (0..ROUNDS).map(|_| (many(PROOFS + 1) - many(1)) / f64::from(PROOFS)).collect();
    each.sort_by(f64::total_cmp);
    let (p50, most) = (each[ROUNDS / 2], each[ROUNDS - 1]);
    println!("RS256 through the SDK: {p50:.1} µs of CPU, at most {most:.1} (target {TARGET})");
    figures::write("signature", json!({ "p50_us": p50, "most_us": most, "target_us": TARGET }));
    drop(bed);
    std::fs::remove_dir_all(directory).unwrap();
}

/// Returns a token like an identity provider's, and the issuer's set of four keys.
fn token() -> (String, String) {
    let keys: Vec<_> = (0..4)
        .map(|_| KeyParameters::read("rsa", 2_048, "pkcs8").unwrap().generate_key().unwrap())
        .collect();
    let named = keys.iter().enumerate().map(|(number, key)| {
        let mut jwk: Value = serde_json::from_str(&key.public_key.jwk().unwrap()).unwrap();
        jwk["kid"] = format!("k{number}").into();
        jwk["use"] = "sig".into();
        jwk
    });
    let set = json!({ "keys": named.collect::<Vec<_>>() }).to_string();
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = part(json!({ "alg": "RS256", "typ": "JWT", "kid": "k2" }));
    let claims = part(json!({
        "iss": "https://issuer.example/0f5f1e6c", "aud": "bulkhead", "sub": "a1b2c3d4e5f6",
        "exp": 4_102_444_800_u64, "nbf": 0, "iat": 0, "groups": ["one", "two", "three"],
    }));
    let signed = format!("{header}.{claims}");
    let key = PrivateKey::read(&keys[2].private_key).unwrap();
    let signature = sign("RS256", &key, signed.as_bytes()).unwrap();
    (format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)), set)
}

/// Returns the CPU time of the call, in microseconds.
async fn prove(bed: &Bed, fields: &Value) -> f64 {
    let before = cpu();
    let call = call("update", "prove/{name}", "a", fields);
    let done = bed.engine.handle(bed.scope(&InstanceReuse::Fresh), bed.store.begin(), &call).await;
    assert!(matches!(done.result.unwrap().outcome, AnswerPayload::Data(_)));
    cpu() - before
}

fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
