//! Bridge between a component and a [`SecretsEngine`]: converts the types of the contract and
//! decides nothing.

use crate::answer::{Answer, Outcome, RawAnswer, Secret};
use crate::bindings::secrets_engine::exports::bulkhead::plugin::{engine, leased};
use crate::engine::{Lease, Renewal, RevocationReason, SecretsEngine};
use crate::imports::Imports;
use crate::translation::{call, context, failure, words};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value};
use std::marker::PhantomData;

/// A component with the answers of `E`.
pub struct EngineComponent<E>(PhantomData<E>);

impl<E: SecretsEngine> engine::Guest for EngineComponent<E> {
    /// Returns the description; empty if it cannot be serialised, which registration refuses.
    fn describe() -> String {
        serde_json::to_string(&E::description()).unwrap_or_default()
    }

    fn migrate(host_context: words::Context, from: u32) -> Result<(), words::Failure> {
        E::migrate(&Imports, &context(host_context), from).map_err(failure)
    }

    fn handle(given: words::Call) -> Result<words::Answer, words::Failure> {
        let served = call(given).and_then(|call| E::handle(&Imports, &call));
        served.and_then(answer).map_err(failure)
    }

    fn wake(host_context: words::Context, key: String, attempt: u32) -> Result<(), words::Failure> {
        E::wake(&Imports, &context(host_context), &key, attempt).map_err(failure)
    }
}

impl<E: SecretsEngine> leased::Guest for EngineComponent<E> {
    fn renew(
        host_context: words::Context,
        host_lease: words::Lease,
        increment: u64,
    ) -> Result<leased::Renewal, words::Failure> {
        E::renew(&Imports, &context(host_context), &lease(host_lease), increment)
            .map(renewal)
            .map_err(failure)
    }

    fn revoke(
        host_context: words::Context,
        host_lease: words::Lease,
        reason: String,
    ) -> Result<(), words::Failure> {
        E::revoke(
            &Imports,
            &context(host_context),
            &lease(host_lease),
            RevocationReason::of_word(&reason),
        )
        .map_err(failure)
    }
}

fn renewal(granted: Renewal) -> leased::Renewal {
    leased::Renewal { ttl: granted.ttl, max_ttl: granted.max_ttl, ext: Vec::new() }
}

fn lease(given: words::Lease) -> Lease {
    Lease { tag: given.tag, internal: given.internal, issued: given.issued, expires: given.expires }
}

/// Converts an answer.
///
/// # Errors
/// For a login, which this world cannot express.
fn answer(answer: Answer) -> Result<words::Answer, Failure> {
    let outcome = match answer.outcome {
        Outcome::Data(data) => words::Outcome::Data(data),
        Outcome::Nothing => words::Outcome::Nothing,
        Outcome::Secret(one) => words::Outcome::Secret(secret(one)),
        Outcome::Login(_) => {
            return Err(Failure::internal(
                "a secrets engine answered a login, which only an auth method can",
            ));
        }
        Outcome::Raw(RawAnswer { status, content_type, body }) => {
            words::Outcome::Raw(words::RawAnswer { status, content_type, body, ext: Vec::new() })
        }
    };
    let absent = answer.is_absent.then(|| ("absent".to_owned(), String::new()));
    let duration = answer.lease_duration.map(|seconds| seconds.to_string());
    let duration = duration.map(|seconds| ("lease-duration".to_owned(), seconds));
    let ext = absent.into_iter().chain(duration).collect();
    Ok(words::Answer { outcome, warnings: answer.warnings, ext })
}

/// Serialises directly into a text: `to_string` would call the formatter for each piece. The keys
/// are texts, so serialisation cannot fail.
fn object(members: &Map<String, Value>) -> String {
    serde_json::to_string(members).unwrap_or_default()
}

fn secret(secret: Secret) -> words::Secret {
    words::Secret {
        data: object(&secret.data),
        tag: secret.tag().map(str::to_owned),
        ttl: secret.ttl,
        max_ttl: secret.max_ttl,
        renewable: secret.renewable,
        internal: secret.internal,
        ext: Vec::new(),
    }
}
