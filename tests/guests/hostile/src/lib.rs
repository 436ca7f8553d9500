//! The hostile guest: each route is an act that the host must prevent.
//!
//! The guest does not use the SDK, which cannot express most of these acts.
//! `host/api/tests/service/hostile.rs` requires a test for every act and fails for a new act
//! without a test.

#![allow(
    clippy::all,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "half of it is generated from wit/"
)]

wit_bindgen::generate!({ path: "../../../wit", world: "secrets-engine" });

mod allocator;
mod answers;
mod floods;
mod leaks;
mod prints;
mod reaches;
mod steps;
mod traps;

use bulkhead::plugin::types::{Answer, Call, Context, Failure, Lease, Outcome};
use bulkhead::plugin::{clock, leases, storage};
use exports::bulkhead::plugin::{engine, leased};

struct Hostile;

type Ending = Result<Answer, Failure>;

/// The act of a route.
struct Act {
    name: &'static str,
    /// Members of the act's row in the route table.
    marks: &'static str,
    run: fn(&Call) -> Ending,
}

const fn act(name: &'static str, run: fn(&Call) -> Ending) -> Act {
    Act { name, marks: "", run }
}

/// An act with a deadline of one second.
const fn long(name: &'static str, run: fn(&Call) -> Ending) -> Act {
    Act { name, marks: ",\"deadline\":1", run }
}

/// An act that calls database plugins.
const fn nested(name: &'static str, run: fn(&Call) -> Ending) -> Act {
    Act { name, marks: ",\"nested\":true", run }
}

/// An act that returns leases.
const fn leasing(name: &'static str, run: fn(&Call) -> Ending) -> Act {
    Act { name, marks: ",\"leases\":true", run }
}

const ACTS: &[Act] = &[
    long("endless-loop", traps::endless_loop),
    long("loop-in-allocator", allocator::endless),
    long("waits-in-host-calls", floods::waits),
    act("storm-of-host-calls", floods::storm),
    long("flood-of-gets", floods::gets),
    act("flood-of-puts", floods::puts),
    act("flood-of-scans", floods::scans),
    act("flood-of-secrets", floods::secrets),
    act("flood-of-hashes", floods::hashes),
    act("flood-of-keys", floods::keys),
    act("flood-of-logs", floods::logs),
    act("memory-bomb", traps::memory),
    act("handle-bomb", traps::handles),
    act("stack-overflow", traps::stack),
    act("panic", traps::panics),
    act("unreachable", traps::unreachable),
    act("huge-answer", answers::huge),
    act("answer-beyond-all-bounds", answers::beyond_all_bounds),
    act("many-warnings", answers::many_warnings),
    act("not-json", answers::not_json),
    act("not-an-object", answers::not_an_object),
    act("deep-answer", answers::deep),
    act("many-values", answers::many_values),
    act("key-twice", answers::key_twice),
    act("not-utf8", answers::not_utf8),
    act("impossible-status", answers::impossible_status),
    act("split-header", answers::split_header),
    act("unmarked-secret", answers::unmarked_secret),
    leasing("unknown-tag", answers::unknown_tag),
    act("forged-log-line", leaks::forged_log_line),
    act("secret-in-log", leaks::secret_in_log),
    act("secret-in-key", leaks::secret_in_key),
    act("secret-in-timer", leaks::secret_in_timer),
    act("secret-in-lane", leaks::secret_in_lane),
    leasing("secret-in-tag", leaks::secret_in_tag),
    act("foreign-key", leaks::foreign_key),
    act("secret-in-output", prints::secret),
    act("secret-in-panic", prints::secret_in_panic),
    act("flood-of-output", prints::flood),
    act("forged-output", prints::forged),
    act("unmarked-nested", reaches::unmarked_nested),
    nested("database-without-grant", reaches::every_function),
    act("private-keys-without-grant", reaches::every_private_key),
    act("endless-wake", |_| woken("endless-wake")),
    act("panicking-wake", |_| woken("panicking-wake")),
    leasing("endless-revoke", |_| lease("endless-revoke")),
    leasing("panicking-revoke", |_| lease("panicking-revoke")),
    leasing("endless-renew", |_| lease("endless-renew")),
    leasing("panicking-renew", |_| lease("panicking-renew")),
];

/// Schema of data with an endless migration.
const ENDLESS_SCHEMA: u32 = 0;
/// Schema of data that can be migrated. The migration from any other schema panics.
const MIGRATED_SCHEMA: u32 = 2;
/// Schema of data that is migrated in steps.
const STEPPED_SCHEMA: u32 = 6;
/// Record that a migration writes.
const MIGRATED: &str = "migrated";

/// Schedules a wake that does the act named by the key.
fn woken(key: &str) -> Ending {
    clock::schedule(key, clock::now(), "timers")?;
    Ok(answers::of(Outcome::Nothing))
}

/// Reserves a lease; its end or renewal does the act named by the tag.
fn lease(tag: &str) -> Ending {
    leases::reserve(tag, "leases", "{}")?;
    Ok(answers::of(answers::secret(Some(tag))))
}

/// Does the act of the tag or key, if the tag or key is about this kind of call.
fn behave(tag: &str, now: &str) {
    match tag.strip_suffix(now) {
        Some("endless-") => traps::forever(),
        Some(_) => panic!("on request"),
        None => {}
    }
}

impl engine::Guest for Hostile {
    fn describe() -> String {
        if let Some(answered) = reaches::answered_without_grants() {
            return format!("{answered} answered a component that is only being described");
        }
        let row = |path: &str, marks: &str| {
            format!(r#"{{"verb":"read","path":"{path}","about":"An act."{marks}}}"#)
        };
        let rows: Vec<String> = ACTS.iter().map(|act| row(act.name, act.marks)).collect();
        let others = ["acts", "fill", "rows"].map(|path| row(path, "")).join(",");
        let rows = format!("{},{others}", rows.join(","));
        // A test writes a member into the blanks of the built component.
        let head = concat!(
            r#""kind":"secrets-engine","name":"hostile","version":"1.0.0","schema":2"#,
            "                        "
        );
        format!(r#"{{{head},"about":"Does harm.","asks":["database"],"routes":[{rows}]}}"#)
    }

    fn migrate(_context: Context, from: u32) -> Result<(), Failure> {
        match from {
            ENDLESS_SCHEMA => traps::forever(),
            STEPPED_SCHEMA => steps::migrate()?,
            MIGRATED_SCHEMA => storage::put(MIGRATED, b"{}")?,
            _ => panic!("it migrates nothing"),
        }
        Ok(())
    }

    fn handle(call: Call) -> Ending {
        match (ACTS.iter().find(|act| act.name == call.route), call.route.as_str()) {
            (Some(act), _) => (act.run)(&call),
            (None, "fill") => steps::fill(),
            (None, "rows") => steps::rows(),
            (None, _) => {
                let names: Vec<String> =
                    ACTS.iter().map(|act| format!("\"{}\"", act.name)).collect();
                let (names, is_migrated) = (names.join(","), storage::get(MIGRATED)?.is_some());
                Ok(answers::data(format!(r#"{{"acts":[{names}],"migrated":{is_migrated}}}"#)))
            }
        }
    }

    fn wake(_context: Context, key: String, _attempt: u32) -> Result<(), Failure> {
        behave(&key, "wake");
        Ok(())
    }
}

impl leased::Guest for Hostile {
    fn renew(_: Context, lease: Lease, _increment: u64) -> Result<leased::Renewal, Failure> {
        behave(&lease.tag, "renew");
        Ok(leased::Renewal { ttl: 60, max_ttl: 60, ext: Vec::new() })
    }

    fn revoke(_context: Context, lease: Lease, _reason: String) -> Result<(), Failure> {
        behave(&lease.tag, "revoke");
        Ok(())
    }
}

export!(Hostile);
