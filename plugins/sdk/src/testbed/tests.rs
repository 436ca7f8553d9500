//! The test bed itself: commits, timers, guards and dropped writes.

use super::TestBed;
use crate::host::Clock;
use crate::http::Request;
use crate::table::{Field, Row, read, write};
use crate::{Answer, Call, Context, Failure, FailureKind, Host, MountedPlugin, SecretsEngine};
use bulkhead_wire::call_limits::CallLimits;
use serde_json::json;

struct Egg;

const KEY: &[Field] = &[Field::name_of("key", "the timer's name")];

impl MountedPlugin for Egg {
    const NAME: &'static str = "egg";
    const VERSION: &'static str = "1.0.0";
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Boils eggs.";
    const INDEXED: bool = true;
    const ASKS: &'static [&'static str] = &["http", "limit:http-calls=3"];
    const TABLE: &'static [Row] = &[
        write("boil/{key}", boil).about("Starts a timer.").fields(&[KEY]),
        read("crack", crack).about("Writes and then fails."),
        read("order/{key}", order)
            .about("Asks a shop for this many eggs, one by one.")
            .fields(&[KEY]),
        write("hatch/{key}", hatch).about("Writes this many records at once.").fields(&[KEY]),
        write("watch", watch).about("Leaves a guard."),
        write("lay/{key}", lay)
            .about("Keeps an egg, and tells its place in history.")
            .fields(&[KEY]),
    ];

    fn wake(host: &dyn Host, _: &Context, key: &str, attempt: u32) -> Result<(), Failure> {
        if key == "guarded" {
            host.storage().put_plain("woken", &attempt)?;
            host.storage().checkpoint()?;
        }
        if attempt == 1 {
            return Err(Failure::new(FailureKind::Unreachable, "no pot"));
        }
        if key == "anew" {
            host.clock().schedule(key, host.clock().now() + 240_000, "kitchen")?;
            host.storage().checkpoint()?;
        }
        host.storage().put_plain(key, "done")
    }
}

impl SecretsEngine for Egg {}

fn boil(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    host.clock().schedule(call.text("key"), host.clock().now() + 240_000, "kitchen")?;
    Ok(Answer::nothing())
}

fn lay(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let key = call.text("key");
    host.storage().put_plain(key, &1_u32)?;
    let own = host.storage().entry_bytes(key)?.map(|own| (own.created, own.modified));
    assert_eq!(own, Some((0, 0)), "the write is not committed yet");
    let index = host.storage().checkpoint()?;
    let entry = host.storage().entry_bytes(key)?.ok_or_else(Failure::absent)?;
    assert_eq!(host.storage().checkpoint()?, 0, "nothing was written");
    Answer::data(&json!({"index": index, "created": entry.created, "modified": entry.modified}))
}

fn watch(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    host.clock().guard("guarded", "kitchen")?;
    host.storage().checkpoint()?;
    Err(Failure::internal("left"))
}

fn crack(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    host.storage().put_plain("shell", &1_u32)?;
    assert_eq!(host.storage().get_plain::<u32>("shell")?, Some(1), "a call sees its own writes");
    Err(Failure::internal("broken"))
}

fn count_of(call: &Call) -> usize {
    call.text("key").parse().unwrap_or_default()
}

fn order(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    for _ in 0..count_of(call) {
        // An engine that ignores failures is stopped nevertheless.
        drop(host.http().send(&Request::get("https://shop.example/egg")));
    }
    Ok(Answer::nothing())
}

fn hatch(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    for number in 0..count_of(call) {
        host.storage().put_plain(&format!("chick/{number}"), &1_u32)?;
    }
    Ok(Answer::nothing())
}

#[test]
fn a_call_beyond_a_limit_is_stopped() {
    let bed = TestBed::<Egg>::new().unwrap();
    bed.read("order/3").unwrap();
    let stopped = bed.read("order/4").err().unwrap();
    assert_eq!(stopped.message, "the call was stopped at its limit http-calls");
    bed.read("order/3").unwrap();
    bed.host.set_limits(CallLimits { storage_bytes: 10, ..CallLimits::DEFAULT });
    let stopped = bed.write("hatch/2", &json!({})).err().unwrap();
    assert_eq!(stopped.message, "the call was stopped at its limit storage");
    assert_eq!(bed.host.stored("chick/0"), None);
}

#[test]
fn a_commit_beyond_its_bounds_is_refused() {
    let bed = TestBed::<Egg>::new().unwrap();
    bed.write("hatch/2048", &json!({})).unwrap();
    let refused = bed.write("hatch/2049", &json!({})).err().unwrap();
    assert_eq!(refused.kind, FailureKind::TooLarge);
}

#[test]
fn indexed_engine_sees_record_creation_and_modification_index() {
    let bed = TestBed::<Egg>::new().unwrap();
    for (key, index, created) in [("a", 1, 1), ("b", 2, 2), ("a", 3, 1)] {
        let data =
            serde_json::Value::Object(bed.write(&format!("lay/{key}"), &json!({})).unwrap().data);
        assert_eq!(data, json!({"index": index, "created": created, "modified": index}), "{key}");
    }
}

#[test]
fn a_timer_rings_until_it_is_heard() {
    let bed = TestBed::<Egg>::new().unwrap();
    bed.write("boil/a", &json!({})).unwrap();
    assert_eq!(bed.host.timer("a"), Some(bed.host.now() + 240_000));
    assert!(bed.wake("a", 1).is_err());
    assert!(bed.host.timer("a").is_some());
    bed.wake("a", 2).unwrap();
    assert_eq!((bed.host.timer("a"), bed.host.stored("a")), (None, Some(json!("done"))));
    assert_eq!(bed.wake("a", 3).err().unwrap().kind, FailureKind::NotFound);
}

#[test]
fn timer_reset_to_same_time_by_wake_stays() {
    let bed = TestBed::<Egg>::new().unwrap();
    bed.write("boil/anew", &json!({})).unwrap();
    bed.wake("anew", 2).unwrap();
    assert_eq!(bed.host.timer("anew"), Some(bed.host.now() + 240_000));
}

#[test]
fn abandoned_guard_runs_until_success_and_counts_attempts() {
    let bed = TestBed::<Egg>::new().unwrap();
    assert!(bed.write("watch", &json!({})).is_err());
    assert_eq!(bed.host.timer("guarded"), Some(bed.host.now()), "due when its call has ended");
    assert_eq!(bed.run_guards().unwrap_err().message, "no pot");
    assert_eq!(bed.host.stored("woken"), Some(json!(1)));
    assert!(bed.host.timer("guarded").is_some(), "a checkpoint of the wake keeps the timer");
    assert_eq!((bed.run_guards(), bed.run_guards()), (Ok(1), Ok(0)));
    assert_eq!(bed.host.stored("woken"), Some(json!(2)));
}

#[test]
fn dead_process_answers_and_commits_nothing_more() {
    let bed = TestBed::<Egg>::new().unwrap();
    bed.host.die_after("schedule");
    assert_eq!(bed.write("boil/a", &json!({})).err().unwrap().message, "the process died");
    assert_eq!(bed.host.timer("a"), None);
    bed.write("boil/a", &json!({})).unwrap();
    assert!(bed.host.timer("a").is_some(), "the next process works");
}

#[test]
fn a_failed_call_leaves_nothing_behind() {
    let bed = TestBed::<Egg>::new().unwrap();
    assert_eq!(bed.read("crack").err().unwrap().message, "broken");
    assert_eq!(bed.host.stored("shell"), None);
}

#[test]
fn unknown_request_fields_warn() {
    let bed = TestBed::<Egg>::new().unwrap();
    assert_eq!(bed.write("boil/a", &json!({"salt": 1})).unwrap().warnings, ["ignored: salt"]);
    assert_eq!(bed.write("boil/-a", &json!({})).err().unwrap().kind, FailureKind::NotFound);
}

#[test]
fn a_table_that_contradicts_itself_is_not_mounted() {
    struct Twice;
    impl MountedPlugin for Twice {
        const NAME: &'static str = "twice";
        const VERSION: &'static str = "1.0.0";
        const SCHEMA: u32 = 1;
        const ABOUT: &'static str = "Serves one path twice.";
        const TABLE: &'static [Row] =
            &[read("crack", crack).about("One."), read("crack", crack).about("Two.")];
    }
    impl SecretsEngine for Twice {}
    assert!(TestBed::<Twice>::new().is_err());
}
