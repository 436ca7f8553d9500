//! A secrets engine that is built against version 1.0 of the contract. `wit/` of this folder is a
//! copy of the released contract without comments, and never changes.
//!
//! `@since` gates in one WIT folder are not enough. Gates choose items, but the names of all
//! interfaces would still have today's version, so the component would not belong to the earlier
//! version.

#![allow(
    clippy::all,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "half of it is generated from wit/"
)]

wit_bindgen::generate!({ path: "wit", world: "secrets-engine" });

use bulkhead::plugin::types::{Answer, Call, Context, Failure, Lease, Outcome, Secret};
use bulkhead::plugin::{clock, leases, log, storage};
use exports::bulkhead::plugin::{engine, leased};

struct First;

/// Keys of the records that count events.
const COUNT: &str = "count";
const RUNG: &str = "rung";
const REVOKED: &str = "revoked";

fn count() -> Result<usize, Failure> {
    let count = storage::get(COUNT)?.map_or(0, |entry| entry.value.len()) + 1;
    storage::put(COUNT, &vec![b'x'; count])?;
    Ok(count)
}

fn state() -> Result<String, Failure> {
    let (rung, revoked) = (storage::get(RUNG)?.is_some(), storage::get(REVOKED)?.is_some());
    Ok(format!(r#"{{"rung":{rung},"revoked":{revoked}}}"#))
}

fn secret() -> Result<Outcome, Failure> {
    leases::reserve("one", "leases", "{}")?;
    Ok(Outcome::Secret(Secret {
        data: r#"{"password":"of the first"}"#.into(),
        tag: Some("one".into()),
        ttl: 3_600,
        max_ttl: 7_200,
        renewable: true,
        internal: "{}".into(),
        ext: Vec::new(),
    }))
}

impl engine::Guest for First {
    fn describe() -> String {
        let row = |path: &str, marks: &str| {
            format!(r#"{{"verb":"read","path":"{path}","about":"A route."{marks}}}"#)
        };
        let rows = [row("count", ""), row("timer", ""), row("state", "")].join(",");
        let lease = row("lease", ",\"leases\":true");
        let head = r#""kind":"secrets-engine","name":"first","version":"1.0.0","schema":1"#;
        format!(r#"{{{head},"about":"Is built for 1.0.","routes":[{rows},{lease}]}}"#)
    }

    fn migrate(_context: Context, _from: u32) -> Result<(), Failure> {
        Ok(())
    }

    fn handle(call: Call) -> Result<Answer, Failure> {
        let outcome = match call.route.as_str() {
            "count" => Outcome::Data(format!(r#"{{"count":{}}}"#, count()?)),
            "timer" => {
                clock::schedule("ring", clock::now(), "timers")?;
                log::write(log::Level::Info, "timer-set", &[]);
                Outcome::Nothing
            }
            "lease" => secret()?,
            _ => Outcome::Data(state()?),
        };
        Ok(Answer { outcome, warnings: Vec::new(), ext: Vec::new() })
    }

    fn wake(_context: Context, _key: String, _attempt: u32) -> Result<(), Failure> {
        storage::put(RUNG, b"1")
    }
}

impl leased::Guest for First {
    fn renew(_: Context, _: Lease, increment: u64) -> Result<leased::Renewal, Failure> {
        Ok(leased::Renewal { ttl: increment, max_ttl: 7_200, ext: Vec::new() })
    }

    fn revoke(_: Context, _: Lease, _reason: String) -> Result<(), Failure> {
        storage::put(REVOKED, b"1")
    }
}

export!(First);
