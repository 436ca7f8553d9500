//! How a call into a component ended, as a failure that may leave the process.
//!
//! All that a guest may do ends here: in an answer, or in a failure that names the plugin, its
//! version and the cause. What a trap shows of the guest goes to the operator's log and to no
//! caller.

use crate::closing::Cut;
use crate::contract;
use crate::grants::Grants;
use crate::host_services::Level;
use crate::identity::Identity;
use crate::limits::{self, Exceeded, Limits};
use crate::state::{CallState, Ungranted};
use bulkhead_wire::failure::{Failure, Kind};
use wasmtime::Trap;
use wasmtime::component::ResourceTableError;

/// How a component left a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It answered.
    Answered,
    /// It refused, in its own words.
    Refused,
    /// It crashed: it trapped, went over a limit, never ended by itself, or answered what cannot be
    /// read.
    Trapped,
    /// The call ended while the host was at work for it, or for want of what all components share.
    Late,
}

/// What entering a component gave: an answer or a refusal, a trap, or nothing before it was cut.
pub(crate) type Entered<T, Refusal = contract::Failure> =
    Result<wasmtime::Result<Result<T, Refusal>>, Cut>;

/// What the component itself did.
pub(crate) fn how_it_ended<T>(state: &CallState, outcome: &Entered<T>) -> Ended {
    let is_interrupted =
        |trap: &wasmtime::Error| matches!(trap.downcast_ref::<Trap>(), Some(Trap::Interrupt));
    match outcome {
        Ok(Ok(Ok(_))) => Ended::Answered,
        Ok(Ok(Err(_))) => Ended::Refused,
        Ok(Err(_)) if state.memory.starved => Ended::Late,
        Ok(Err(trap)) if !is_interrupted(trap) => Ended::Trapped,
        Err(Cut::Sealed) => Ended::Late,
        // Its time is over: did the guest take it, or the host?
        Ok(Err(_)) | Err(Cut::Late) if state.is_computing => Ended::Trapped,
        Ok(Err(_)) | Err(Cut::Late) => Ended::Late,
    }
}

/// The result of a call into a component, as a failure that may leave the process.
pub(crate) fn settle<T>(state: &CallState, outcome: Entered<T>) -> Result<T, Failure> {
    let result = match outcome {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(refused))) => Err(scrub_refusal(state, &refused)),
        Ok(Err(trap)) => Err(report_trap(state, &trap)),
        Err(Cut::Late) => Err(past_deadline(state)),
        Err(Cut::Sealed) => Err(cut_by_seal(state)),
    };
    if state.conflict {
        return Err(Failure::new(
            Kind::Conflict,
            "another request changed the same data; try again",
        ));
    }
    result
}

fn scrub_refusal(state: &CallState, refused: &contract::Failure) -> Failure {
    // A conflict of the store is known by the state. What else a component calls one is no reason
    // to enter it again.
    let kind = match Kind::of_code(&refused.code) {
        Kind::Conflict => Kind::Unavailable,
        kind => kind,
    };
    let failure = Failure::new(kind, state.scrub_for_caller(&refused.message));
    Failure { retry_after: refused.retry_after, ..failure }
}

/// A trap as a failure, without guest memory: its cause for the caller, its frames for the
/// operator's log.
fn report_trap(state: &CallState, trap: &wasmtime::Error) -> Failure {
    let title = state.plugin.title();
    let frames = state.scrub(&format!("{trap:#}"));
    let pairs = [("trap".to_owned(), frames)];
    state.context.services.log(Level::Error, &title, "plugin-trapped", &pairs);
    if state.memory.starved {
        let message =
            format!("{title} was stopped: the memory for plugins is used up; try again later");
        return Failure::new(Kind::Unavailable, message).recordable();
    }
    if matches!(trap.downcast_ref::<Trap>(), Some(Trap::Interrupt)) {
        return past_deadline(state);
    }
    stopped(&state.plugin, &find_cause(state, trap), &state.context.grants, state.limits())
}

/// What a component did, as its operator and its author call it.
pub(crate) struct Cause {
    words: String,
    /// The limit that it met, as a grant words it.
    limit: Option<&'static str>,
}

impl Cause {
    pub(crate) fn of(exceeded: &Exceeded) -> Self {
        Self { words: format!("went over its {exceeded}"), limit: Some(exceeded.word) }
    }
}

fn find_cause(state: &CallState, trap: &wasmtime::Error) -> Cause {
    if let Some(exceeded) = trap.downcast_ref::<Exceeded>() {
        return Cause::of(exceeded);
    }
    if state.memory.exhausted {
        let words = format!("ran out of its {} MiB of memory", state.memory.limit >> 20);
        return Cause { words, limit: Some("memory") };
    }
    if matches!(trap.downcast_ref(), Some(ResourceTableError::Full)) {
        let words = format!("holds more than its {} handles", state.limits().handles);
        return Cause { words, limit: Some("handles") };
    }
    Cause { words: describe_fault(trap), limit: None }
}

/// What a component did that no limit bounds.
fn describe_fault(trap: &wasmtime::Error) -> String {
    if trap.downcast_ref::<std::str::Utf8Error>().is_some() {
        return "answered text that is not UTF-8".to_owned();
    }
    if let Some(ungranted) = trap.downcast_ref::<Ungranted>() {
        return format!("called an import without its grant: {ungranted}");
    }
    match trap.downcast_ref() {
        Some(Trap::StackOverflow) => "overflowed its stack".to_owned(),
        Some(Trap::UnreachableCodeReached) => "panicked, or ended itself in another way".to_owned(),
        // A stack that the guest keeps in its memory ends where its memory begins.
        Some(Trap::MemoryOutOfBounds) => {
            "reached outside its memory, as where its stack overflows".to_owned()
        }
        Some(trap) => format!("failed with {:?}", trap.to_string()),
        // Its type is not public.
        None if format!("{trap:#}").contains("fuel allocated for hostcalls") => {
            format!("handed over more than {} MiB at once", limits::HOST_CALL_FUEL_BYTES >> 20)
        }
        None => "failed; the server's log says how".to_owned(),
    }
}

/// The failure of a call that was stopped for that cause, with the line that raises the limit where
/// there is one.
pub(crate) fn stopped(
    plugin: &Identity,
    cause: &Cause,
    grants: &Grants,
    limits: &Limits,
) -> Failure {
    let raised =
        cause.limit.and_then(|limit| limits.raised(limit)).and_then(|line| grants.command(&line));
    let more = raised.map(|command| format!("; to allow more: {command}")).unwrap_or_default();
    let (title, words) = (plugin.title(), &cause.words);
    Failure::internal(format!(
        "{title} {words}; the request was stopped and its writes dropped{more}"
    ))
    .recordable()
}

/// In the words that clients of this API look for (decision H4).
fn cut_by_seal(state: &CallState) -> Failure {
    let title = state.plugin.title();
    let message = format!("Vault is sealed: {title} was stopped before it had answered");
    Failure::new(Kind::Unavailable, message).recordable()
}

fn past_deadline(state: &CallState) -> Failure {
    let title = state.plugin.title();
    let message = format!("{title} ran past its deadline and was stopped");
    Failure::new(Kind::TimedOut, message).recordable()
}
