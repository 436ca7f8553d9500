//! The probe: an engine for tests of the host. On request it does the work of engines (leases,
//! timers, intents, counters) and forbidden things (loops, exhausted memory and stack, panics,
//! leaked secrets).

mod figures;
mod lending;
mod memory;
mod outside;
mod passwords;
mod patched;
mod proofs;
mod rotation;

use bulkhead_sdk::migration::MigrationSteps;
use bulkhead_sdk::reservation::{CreationFailure, Reservation};
use bulkhead_sdk::rotation::{RotationBounds, RotationSettings};
use bulkhead_sdk::stored::Stored;
use bulkhead_sdk::table::{Field, Row, patch, read, write};
use bulkhead_sdk::{
    Answer, Call, Context, Failure, FailureKind, Host, Lease, Metric, MountedPlugin, Renewal,
    RevocationReason, SecretsEngine, intent,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

pub struct Probe;

/// Duration of a race for a record.
const RACE: Duration = Duration::from_millis(100);
/// Longer than a request can hold the queue for a record.
const LONGER_THAN_A_TURN: Duration = Duration::from_millis(1_100);
/// Prefix of leases in separate lanes that race for a record.
const APART: &str = "apart";
/// A time in the past.
const LONG_PAST: u64 = 1_000;

const NAME: &[Field] = &[Field::name_of("name", "what it is about")];
const AFTER: &[Field] = &[
    Field::whole("after", "milliseconds from now"),
    Field::text("lane", "what it waits with").or_text("timers"),
];
const CANDIDATE: &[Field] = &[
    Field::text("candidate", "what to put in force"),
    Field::text("how", "ok, unmade, lost or waits"),
];
const GUARD: &[Field] = &[Field::text("how", "left, cancelled, dropped, failed or many")];
const HOW: &[Field] =
    &[Field::text("how", "ok, perhaps, surely or forget"), Field::seconds("ttl", "lifetime")];

/// Data of a lease.
#[derive(Serialize, Deserialize)]
struct Made {
    name: String,
}

impl Stored for Made {
    const KIND: &'static str = "made";
}

impl MountedPlugin for Probe {
    const NAME: &'static str = "probe";
    const VERSION: &'static str = "1.0.0";
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Does on request what engines do, and what they must not.";
    const INDEXED: bool = true;
    const ASKS: &'static [&'static str] = &[
        "http",
        "identity:token",
        "ambient:env/PROBE_NAME",
        "ambient:env/PROBE_SECRET",
        "ambient:cloud-token",
        "ambient:pod-identity",
        "crypto:sign",
        "crypto:generate-key",
        "crypto:issue-certificate",
    ];
    const METRICS: &'static [Metric] = figures::METRICS;
    const TABLE: &'static [Row] = &[
        read("note/{name}", note).about("What was noted.").fields(&[NAME]),
        patch("patched/{name}", patched::patch)
            .about("Changes a record.")
            .fields(&[NAME, patched::MEMBERS]),
        read("patched/{name}", patched::read)
            .about("Shows a record to everybody.")
            .fields(&[NAME])
            .unauthenticated(),
        write("timer/{name}", timer).about("Asks to be woken.").fields(&[NAME, AFTER]),
        write("rotate/{name}", rotation::rotate)
            .about("Changes something.")
            .fields(&[NAME, CANDIDATE]),
        write("recover/{name}", rotation::recover_now)
            .about("Finishes a change of another call.")
            .fields(&[NAME]),
        write("guard/{name}", guard)
            .about("Guards a key and ends in one way or another.")
            .fields(&[NAME, GUARD]),
        write("figure/{name}", figures::give)
            .about("Gives a figure.")
            .fields(&[NAME, figures::FIGURE]),
        write("count/{name}", count).about("Adds one.").fields(&[NAME]),
        write("lease/{name}", lease)
            .about("A lease, made in one way or another.")
            .fields(&[NAME, HOW])
            .leases(),
        write("lend/{name}", lending::lend)
            .about("A lease, of which the handle is kept.")
            .fields(&[NAME])
            .leases(),
        write("return/{name}", lending::give_back)
            .about("Ends a lease of another call.")
            .fields(&[NAME, lending::HOW]),
        write("steps/{name}", lending::in_steps)
            .about("Makes a thing in two steps, of which the second one fails.")
            .fields(&[NAME])
            .leases(),
        write("place/{name}", place)
            .about("Keeps a record, and tells its place in history.")
            .fields(&[NAME]),
        write("fetch/{name}", outside::fetch)
            .about("Asks a web server.")
            .fields(&[NAME, outside::REQUEST]),
        write("fetch-in-time/{name}", outside::fetch_in_time)
            .about("Asks a web server, and tells until when.")
            .fields(&[NAME, outside::REQUEST]),
        write("keep/{name}", outside::keep)
            .about("Keeps a text in memory.")
            .fields(&[NAME, outside::KEPT]),
        read("recall/{name}", outside::recall).about("What is kept in memory.").fields(&[NAME]),
        write("make/{name}", outside::make)
            .about("Keeps what a web server says.")
            .fields(&[NAME, outside::REQUEST]),
        write("prove/{name}", proofs::prove)
            .about("Proves a token.")
            .fields(&[NAME, proofs::TOKEN]),
        write("sign/{name}", proofs::sign).about("Signs a token.").fields(&[NAME, proofs::SIGNING]),
        write("generate/{name}", proofs::generate)
            .about("Makes a key.")
            .fields(&[NAME, proofs::KEY]),
        write("certify/{name}", proofs::certify)
            .about("Issues a certificate.")
            .fields(&[NAME, proofs::CERTIFICATE]),
        write("hash/{name}", proofs::hash)
            .about("Hashes a password, or checks one.")
            .fields(&[NAME, proofs::PASSWORD]),
        write("password/{name}", passwords::password)
            .about("Makes passwords.")
            .fields(&[NAME, passwords::HOW]),
        write("due/{name}", due)
            .about("When a schedule is due next.")
            .fields(&[NAME, bulkhead_sdk::rotation::ROLE_FIELDS]),
        write("identity-token/{name}", outside::identity_token)
            .about("Shows others who the mount is.")
            .fields(&[NAME, outside::TOKEN]),
        read("environment/{name}", outside::environment)
            .about("A value of the server's environment.")
            .fields(&[NAME]),
        write("cloud-token/{name}", outside::cloud_token)
            .about("A token of the machine, of the cloud of that name.")
            .fields(&[NAME, outside::TOKEN]),
        read("pod", outside::pod).about("The cluster in which the server is a pod."),
        read("entity/{name}", outside::entity).about("Whom the mount knows.").fields(&[NAME]),
        read("folder", folder).about("What is noted, and the revision of that."),
        read("loop", endless).about("Never ends.").deadline(1),
        read("memory", memory).about("Takes all memory.").deadline(20),
        read("stack", stack).about("Takes all stack."),
        read("panic", panics).about("Panics."),
        read("tell", show_in_error).about("Tells a secret in an error."),
        read("warn", warn).about("Tells a secret in a warning."),
        write("conflict", conflict).about("Refuses with its own conflict."),
        read("outside/{name}", outside).about("Reads a key of another mount.").fields(&[NAME]),
        read("tally", memory::tally).about("Counts the calls of this instance."),
        read("reserve/{name}", memory::reserve)
            .about("Takes so many KiB of memory, if it may.")
            .fields(&[NAME]),
        read("input", memory::input).about("Reads its input, and keeps the handle."),
        read("say/{name}", memory::say).about("Says it in an error.").fields(&[NAME]),
        read("unmarked", unmarked).about("Answers a lease on a route that is not marked for one."),
    ];

    /// Notes the old schema and the context. Fails with the value in force for `told`, if any.
    /// Increments each number whose name begins with `paged`, in as many steps as needed.
    fn migrate(host: &dyn Host, context: &Context, from: u32) -> Result<(), Failure> {
        rotation::show_in_error(host)?;
        note_context(host, "told-migrate", context)?;
        host.storage().put_plain("note/migrated", &from)?;
        let mut steps = MigrationSteps::begin(host)?;
        steps.table_bytes("note/paged", |_, number| {
            let number = String::from_utf8_lossy(&number).parse().unwrap_or(0_u64);
            Ok(Some((number + 1).to_string().into_bytes()))
        })?;
        steps.end()
    }

    /// Notes the attempt. The beginning of the name chooses the behaviour:
    ///
    /// - `twice`, `refused` and `away` fail at first; `hang` never returns; `again` sets its own
    ///   guard.
    /// - `same` schedules itself again for the same time until the third wake; `same-stored` also
    ///   commits at once.
    /// - `flood` writes and schedules itself without end; `flood-more` writes ever more.
    /// - `tells` fails with the value in force for `told`.
    fn wake(host: &dyn Host, context: &Context, key: &str, attempt: u32) -> Result<(), Failure> {
        if key.starts_with("told") {
            note_context(host, "told-wake", context)?;
        }
        if let Some(name) = intent::key_of(key) {
            return rotation::wake(host, name, attempt);
        }
        if key.starts_with("same") {
            return wake_anew(host, key);
        }
        if key.starts_with("flood") {
            return flood(host, key);
        }
        if key.starts_with("tells") {
            rotation::show_in_error(host)?;
        }
        if key.starts_with("raced") {
            count_slowly(host, RACE)?;
        }
        if key.starts_with("twice") && attempt < 2 {
            return Err(Failure {
                retry_after: Some(20),
                ..Failure::new(FailureKind::Unreachable, "not yet")
            });
        }
        if attempt < 2 && key.starts_with("refused") {
            return Err(Failure::invalid("it was refused"));
        }
        let is_back = || host.storage().get_plain::<u64>("note/back");
        if key.starts_with("down") && is_back()?.is_none() {
            return Err(Failure::new(FailureKind::Unreachable, "it is down"));
        }
        if attempt < 2 && key.starts_with("away") {
            return Err(Failure::new(FailureKind::Unreachable, "it is away"));
        }
        host.storage().put_plain(&format!("note/{key}"), &attempt)?;
        if key.starts_with("hang") {
            host.storage().checkpoint()?;
            std::thread::sleep(Duration::from_secs(600));
        }
        if attempt < 2 && key.starts_with("again") {
            host.clock().guard(key, "timers")?;
        }
        Ok(())
    }
}

impl SecretsEngine for Probe {
    /// Renews a lease. A name that begins with `slow` notes the start, and waits for
    /// `note/go-<name>`. A name that begins with `raced` also increments the callers' counter
    /// slowly.
    fn renew(
        host: &dyn Host,
        context: &Context,
        lease: &Lease,
        increment: u64,
    ) -> Result<Renewal, Failure> {
        if lease.tag.starts_with("told") {
            note_context(host, "told-renew", context)?;
        }
        if lease.tag.starts_with("slow") {
            host.storage().put_plain(&format!("note/renewing-{}", lease.tag), &true)?;
            host.storage().checkpoint()?;
            rotation::wait(host, &lease.tag)?;
        }
        if lease.tag.starts_with("raced") {
            count_slowly(host, RACE)?;
        }
        Ok(Renewal { ttl: increment, max_ttl: 3_600 })
    }

    /// Notes the reason. The beginning of the name chooses the behaviour:
    ///
    /// - `returns` ends the lease itself, like a check-in by expiry; `returns-stored` also commits
    ///   at once.
    /// - `stuck` always fails, `never` fails until `note/go-<name>` exists.
    /// - `tarry` takes a while, `hang` never returns.
    /// - `tells` fails with the value in force for `told`.
    /// - `raced` and `apart` increment the callers' counter slowly.
    fn revoke(
        host: &dyn Host,
        context: &Context,
        lease: &Lease,
        reason: RevocationReason,
    ) -> Result<(), Failure> {
        if lease.tag.starts_with("told") {
            note_context(host, "told-revoke", context)?;
        }
        if lease.tag.starts_with("stuck") {
            return Err(Failure::new(FailureKind::Unreachable, "it is stuck"));
        }
        if lease.tag.starts_with("tells") {
            rotation::show_in_error(host)?;
        }
        if lease.tag.starts_with("raced") {
            count_slowly(host, RACE)?;
        }
        if lease.tag.starts_with(APART) {
            count_slowly(host, LONGER_THAN_A_TURN)?;
        }
        if lease.tag.starts_with("never")
            && host.storage().get_plain::<u64>(&format!("note/go-{}", lease.tag))?.is_none()
        {
            return Err(Failure::invalid("ü".repeat(300)));
        }
        if lease.tag.starts_with("returns") {
            lending::return_in_revocation(host, &lease.tag)?;
        }
        if lease.tag.starts_with("grown") {
            let name = lease.internal::<Made>()?.name;
            host.storage().put_plain(&format!("note/held-{}", lease.tag), &name)?;
        }
        for (beginning, time) in
            [("tarry", Duration::from_millis(100)), ("hang", Duration::from_secs(600))]
        {
            if lease.tag.starts_with(beginning) {
                std::thread::sleep(time);
            }
        }
        host.storage().put_plain(&format!("note/{}", lease.tag), &format!("{reason:?}"))
    }
}

/// Notes the mount and the deadline of the call's context.
fn note_context(host: &dyn Host, name: &str, context: &Context) -> Result<(), Failure> {
    let left = context.deadline.saturating_sub(host.clock().now());
    host.storage().put_plain(&format!("note/{name}"), &format!("{} {left}", context.mount.path))
}

fn folder(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let revision = host.storage().revision("note/")?;
    let mut notes = serde_json::Map::new();
    for (name, entry) in host.storage().scan_bytes("note/", "", 1_000)? {
        notes.insert(name, String::from_utf8_lossy(&entry.value).into());
    }
    Answer::data(&json!({"revision": revision.to_string(), "notes": notes}))
}

fn note(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let key = format!("note/{}", call.text("name"));
    let note = host.storage().get_bytes(&key)?.ok_or_else(Failure::absent)?;
    let note: serde_json::Value =
        serde_json::from_slice(&note).map_err(|_| Failure::internal("a note that is not JSON"))?;
    Answer::data(&json!({"note": note}))
}

/// A name that begins with `same` sets a time in the past, which the wake can name too.
fn timer(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    if call.text("name").starts_with("same") {
        host.clock().schedule(call.text("name"), LONG_PAST, call.text("lane"))?;
        return Ok(Answer::nothing());
    }
    let after = call.text("after").parse().unwrap_or_default();
    host.clock().schedule(
        call.text("name"),
        host.clock().now().saturating_add(after),
        call.text("lane"),
    )?;
    Ok(Answer::nothing())
}

/// Counts the wakes.
fn wake_anew(host: &dyn Host, key: &str) -> Result<(), Failure> {
    let note = format!("note/{key}");
    let rung: u64 = host.storage().get_plain(&note)?.unwrap_or_default();
    host.storage().put_plain(&note, &(rung + 1))?;
    if rung < 2 {
        host.clock().schedule(key, LONG_PAST, "timers")?;
        if key.starts_with("same-stored") {
            host.storage().checkpoint()?;
        }
    }
    Ok(())
}

/// Writes a megabyte twelve times, and schedules the same timer at once. Each write replaces the
/// previous write, or adds to the data.
fn flood(host: &dyn Host, key: &str) -> Result<(), Failure> {
    let count = format!("note/{key}");
    let rung: u64 = host.storage().get_plain(&count)?.unwrap_or_default();
    host.storage().put_plain(&count, &(rung + 1))?;
    let (grows, text) = (key.starts_with("flood-more"), "x".repeat(1_000_000));
    for number in 0..12 {
        let place = if grows { rung * 12 + number } else { 0 };
        host.storage().put_plain(&format!("{key}/{place}"), &text)?;
        if grows {
            host.storage().checkpoint()?;
        }
    }
    host.clock().schedule(key, LONG_PAST, "timers")
}

fn guard(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (name, how) = (call.text("name"), call.text("how"));
    host.clock().guard(name, "guards")?;
    match how {
        "dropped" => return Err(Failure::invalid("before anything was stored")),
        "many" => (1..65)
            .try_for_each(|number| host.clock().guard(&format!("{name}-{number}"), "guards"))?,
        _ => {}
    }
    host.storage().checkpoint()?;
    match how {
        "cancelled" => host.clock().cancel(name)?,
        "failed" => return Err(Failure::invalid("after it was stored")),
        _ => {}
    }
    Ok(Answer::nothing())
}

fn count(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let key = format!("note/{}", call.text("name"));
    let before: u64 = host.storage().get_plain(&key)?.unwrap_or_default();
    host.storage().put_plain(&key, &(before + 1))?;
    Ok(Answer::nothing())
}

/// Increments the callers' counter, with a delay between read and write like that of a network.
fn count_slowly(host: &dyn Host, time: Duration) -> Result<(), Failure> {
    let key = "note/contended";
    let before: u64 = host.storage().get_plain(key)?.unwrap_or_default();
    std::thread::sleep(time);
    host.storage().put_plain(key, &(before + 1))
}

fn place(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let key = format!("place/{}", call.text("name"));
    let before = host.storage().entry_bytes(&key)?;
    host.storage().put_plain(&key, &1_u64)?;
    let index = host.storage().checkpoint()?;
    let after = host.storage().entry_bytes(&key)?.ok_or_else(Failure::absent)?;
    Answer::data(&json!({
        "before": before.map(|entry| [entry.created, entry.modified]),
        "index": index,
        "after": [after.created, after.modified],
    }))
}

fn lease(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (name, how) = (call.text("name"), call.text("how"));
    let lane = if name.starts_with(APART) { name } else { "lane" };
    let creation = Reservation::new(name, lane, &Made { name: name.to_owned() })?.make(
        host,
        || match how {
            "perhaps" => {
                Err(CreationFailure::Perhaps(Failure::new(FailureKind::TimedOut, "nobody knows")))
            }
            "surely" => Err(CreationFailure::Surely(Failure::invalid("it was refused"))),
            "waits" => {
                host.storage().put_plain(&format!("note/making-{name}"), &true)?;
                host.storage().checkpoint()?;
                Ok(rotation::wait(host, name)?)
            }
            _ => Ok(()),
        },
    )?;
    if how == "forget" {
        return Ok(Answer::nothing());
    }
    creation.secret(&json!({"name": name}), call.seconds("ttl"), 3_600)
}

fn endless(_host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}

fn memory(_host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    loop {
        blocks.push(std::hint::black_box(vec![1; 1 << 20]));
    }
}

fn stack(_host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    fn deeper(level: u64) -> u64 {
        let room = std::hint::black_box([level; 64]);
        if level == u64::MAX { 0 } else { deeper(level + 1) + room.iter().sum::<u64>() }
    }
    Answer::data(&json!({"level": deeper(0)}))
}

/// The name is the delay in milliseconds until the timer is due.
fn due(_host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let mut settings = RotationSettings::default();
    settings.merge(call, RotationBounds::STATIC_ROLE)?;
    let after = call.text("name").parse().map_err(|_| Failure::invalid("the name is a time"))?;
    Answer::data(&json!({"due": settings.due_after(after)?}))
}

fn panics(_host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    panic!("on request")
}

fn show_in_error(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let password = host.passwords().generate("")?;
    let piece = password.get(2..16).unwrap_or_default().to_lowercase();
    host.log().write(bulkhead_sdk::host::LogLevel::Warn, "telling", &[("piece", &piece)]);
    Err(Failure::invalid(format!("unrecognised option {piece}")))
}

fn conflict(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    host.log().write(bulkhead_sdk::host::LogLevel::Info, "conflicting", &[]);
    Err(Failure::new(FailureKind::Conflict, "the other side is busy"))
}

fn warn(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let password = host.passwords().generate("")?;
    Ok(Answer::data(&json!({}))?
        .warn([format!("it begins with {}", password.get(..14).unwrap_or_default())]))
}

fn outside(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let found = host.storage().get_bytes(&format!("../{}", call.text("name")))?;
    Answer::data(&json!({"found": found.is_some()}))
}

fn unmarked(_host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let record = Made { name: String::new() };
    let secret = bulkhead_sdk::answer::Secret::without_undo(&json!({}), 60, 60, &record)?;
    Ok(Answer::secret(secret))
}

bulkhead_sdk::export_secrets_engine!(Probe);
