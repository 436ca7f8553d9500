//! Conversion of the end of a component call into a result that may leave the process.
//!
//! Every act of a guest ends as an answer, or as a failure that names the plugin, its version and
//! the cause. The output of the guest and the details of a trap go to the operator's log, and to a
//! caller in dev mode only.

use crate::closing::CallInterruption;
use crate::compartment::Compartment;
use crate::contract;
use crate::grants::Grants;
use crate::identity::ComponentIdentity;
use crate::limits::{self, ExceededLimit};
use crate::output::{OutputKind, OutputLines};
use crate::state::{CallState, MissingGrant};
use crate::trap_report::{backtrace, causes};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use wasmtime::Trap;
use wasmtime::component::ResourceTableError;

/// The kind of end of a component call, from the component's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    /// The component answered.
    Answered,
    /// The component refused, with its own message.
    Refused,
    /// The component crashed: it trapped, exceeded a limit, never ended, or gave an unreadable
    /// answer.
    Trapped,
    /// The call ended while the host worked for it, or for lack of a resource that all components
    /// share.
    Late,
}

/// Result of entering a component: an answer or a refusal, a trap, or a cut.
pub(crate) type EntryResult<T, Refusal = contract::Failure> =
    Result<wasmtime::Result<Result<T, Refusal>>, CallInterruption>;

/// Returns the component's part in the end of the call.
pub(crate) fn classify_termination<T>(state: &CallState, outcome: &EntryResult<T>) -> Termination {
    let is_interrupted =
        |trap: &wasmtime::Error| matches!(trap.downcast_ref::<Trap>(), Some(Trap::Interrupt));
    match outcome {
        Ok(Ok(Ok(_))) => Termination::Answered,
        Ok(Ok(Err(_))) => Termination::Refused,
        Ok(Err(_)) if state.memory.starved => Termination::Late,
        Ok(Err(trap)) if !is_interrupted(trap) => Termination::Trapped,
        Err(CallInterruption::Sealed | CallInterruption::Stopped | CallInterruption::Abandoned) => {
            Termination::Late
        }
        // The deadline has passed: the guest is at fault only if it was computing.
        Ok(Err(_)) | Err(CallInterruption::Late) if state.is_computing => Termination::Trapped,
        Ok(Err(_)) | Err(CallInterruption::Late) => Termination::Late,
    }
}

/// Converts the outcome of a component call into a result that may leave the process.
pub(crate) fn settle<T>(state: &CallState, outcome: EntryResult<T>) -> Result<T, Failure> {
    let last_words = report_output(state);
    let result = match outcome {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(refused))) => Err(scrub_refusal(state, &refused)),
        Ok(Err(trap)) => Err(report_trap(state, &trap, last_words)),
        Err(CallInterruption::Late) => Err(deadline_failure(state)),
        Err(CallInterruption::Sealed) => Err(seal_failure(state)),
        Err(CallInterruption::Stopped) => Err(stop_failure(state)),
        Err(CallInterruption::Abandoned) => Err(abandonment_failure(state)),
    };
    if state.conflict {
        return Err(Failure::new(
            FailureKind::Conflict,
            "another request changed the same data; try again",
        ));
    }
    result
}

fn scrub_refusal(state: &CallState, refused: &contract::Failure) -> Failure {
    // The state knows a real conflict of the store. A component's own "conflict" must not cause a
    // retry.
    let kind = match FailureKind::of_code(&refused.code) {
        FailureKind::Conflict => FailureKind::Unavailable,
        kind => kind,
    };
    let failure = Failure::new(kind, state.scrub_for_caller(&refused.message));
    Failure { retry_after: refused.retry_after, ..failure }
}

/// Writes the output of the guest to the operator's log. Returns the last lines of its standard
/// error: the text of a panic or of an exception, if the call crashed.
fn report_output(state: &CallState) -> String {
    let Some(output) = &state.output else { return String::new() };
    let [stdout, stderr] = [OutputKind::Stdout, OutputKind::Stderr]
        .map(|kind| (kind, output.lines(kind, &state.context.tree.secrets)));
    log_output(state, &stdout);
    log_output(state, &stderr);
    let (_, OutputLines { lines, .. }) = stderr;
    let mut room = limits::LAST_WORDS_BYTES;
    let fits = |line: &&String| match room.checked_sub(line.len().saturating_add(1)) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    let mut last: Vec<String> = lines.iter().rev().take_while(fits).cloned().collect();
    last.reverse();
    last.join("\n")
}

fn log_output(state: &CallState, (kind, output): &(OutputKind, OutputLines)) {
    let level = match kind {
        OutputKind::Stdout => LogLevel::Info,
        OutputKind::Stderr => LogLevel::Warn,
    };
    let last = output.lines.len().saturating_sub(1);
    for (index, line) in output.lines.iter().enumerate() {
        if state.context.tree.count_output_line() > limits::OUTPUT_LINES_OF_CALL {
            return;
        }
        let mut pairs =
            vec![("stream".to_owned(), kind.word().to_owned()), ("line".to_owned(), line.clone())];
        let counts = [
            ("dropped-bytes", output.dropped_bytes),
            ("dropped-lines", u64::try_from(output.dropped_lines).unwrap_or(u64::MAX)),
        ];
        let counts = counts.into_iter().filter(|(_, count)| index == last && *count > 0);
        pairs.extend(counts.map(|(name, count)| (name.to_owned(), count.to_string())));
        state.context.services.log(level, &state.plugin, "component-output", &pairs);
    }
}

/// Converts a trap into a failure without guest memory: the cause for the caller, and the frames
/// and the last words of the guest for the operator's log.
fn report_trap(state: &CallState, trap: &wasmtime::Error, last_words: String) -> Failure {
    let backtrace = state.scrub(&backtrace(trap));
    let pairs = [
        ("trap", state.scrub(&causes(trap))),
        ("backtrace", backtrace.clone()),
        ("stderr", last_words.clone()),
    ];
    let given = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<_> = given.map(|(name, value)| (name.to_owned(), value)).collect();
    state.context.services.log(LogLevel::Error, &state.plugin, "plugin-trapped", &pairs);
    let failure = trap_failure(state, trap);
    // The failure of an exceeded limit has cause and remedy already.
    let is_crash = find_cause(state, trap).limit.is_none();
    if !is_crash || !state.context.services.shows_crashes() {
        return failure;
    }
    // The audit log and the log never show the details: `recorded` stays as it is.
    let details = [("stderr", last_words), ("backtrace", backtrace)];
    let given = details.into_iter().filter(|(_, text)| !text.is_empty());
    let message =
        given.fold(failure.message, |message, (name, text)| format!("{message}\n{name}: {text}"));
    Failure { message, ..failure }
}

/// Returns the failure of a call that trapped.
fn trap_failure(state: &CallState, trap: &wasmtime::Error) -> Failure {
    let title = state.plugin.title();
    if state.memory.starved {
        let message =
            format!("{title} was stopped: the memory for plugins is used up; try again later");
        return Failure::new(FailureKind::Unavailable, message).recordable();
    }
    if matches!(trap.downcast_ref::<Trap>(), Some(Trap::Interrupt)) {
        return deadline_failure(state);
    }
    let context = &state.context;
    let cause = find_cause(state, trap);
    // A stop at a limit is counted as such, and says nothing about a crash.
    if cause.limit.is_none() {
        context.compartment.note_trap(&state.plugin);
    }
    stopped_failure(&state.plugin, &cause, &context.grants, &context.compartment)
}

/// The cause of a stop, in the words of operators and authors.
pub(crate) struct StopCause {
    words: String,
    /// The exceeded limit, by its name in grant lines.
    limit: Option<&'static str>,
}

impl StopCause {
    pub(crate) fn of(exceeded: &ExceededLimit) -> Self {
        Self { words: format!("went over its {exceeded}"), limit: Some(exceeded.word) }
    }
}

fn find_cause(state: &CallState, trap: &wasmtime::Error) -> StopCause {
    if let Some(exceeded) = trap.downcast_ref::<ExceededLimit>() {
        return StopCause::of(exceeded);
    }
    if state.memory.exhausted {
        let words = format!("ran out of its {} MiB of memory", state.memory.limit >> 20);
        return StopCause { words, limit: Some("memory") };
    }
    if matches!(trap.downcast_ref(), Some(ResourceTableError::Full)) {
        let words = format!("holds more than {} handles", state.limits().handles);
        return StopCause { words, limit: Some("handles") };
    }
    StopCause { words: describe_fault(trap), limit: None }
}

/// Describes a fault that is not an exceeded limit.
fn describe_fault(trap: &wasmtime::Error) -> String {
    if trap.downcast_ref::<std::str::Utf8Error>().is_some() {
        return "answered a text with invalid UTF-8".to_owned();
    }
    if let Some(ungranted) = trap.downcast_ref::<MissingGrant>() {
        return format!("called an import without a grant: {ungranted}");
    }
    match trap.downcast_ref() {
        Some(Trap::StackOverflow) => "overflowed its stack".to_owned(),
        Some(Trap::UnreachableCodeReached) => "panicked, or ended itself in another way".to_owned(),
        // A stack in the guest's linear memory ends at the beginning of the memory.
        Some(Trap::MemoryOutOfBounds) => {
            "reached outside its memory, perhaps by a stack overflow".to_owned()
        }
        Some(trap) => format!("failed with {:?}", trap.to_string()),
        // The error's type is not public.
        None if causes(trap).contains("fuel allocated for hostcalls") => {
            format!("handed over more than {} MiB at once", limits::HOST_CALL_FUEL_BYTES >> 20)
        }
        None => "failed; the server's log says how".to_owned(),
    }
}

/// Returns the failure of a call that was stopped for `cause`, with the grant line that raises the
/// limit, if any. Counts the limit for the mount.
pub(crate) fn stopped_failure(
    plugin: &ComponentIdentity,
    cause: &StopCause,
    grants: &Grants,
    compartment: &Compartment,
) -> Failure {
    if let Some(limit) = cause.limit {
        compartment.note_limit(limit);
    }
    let raised = cause
        .limit
        .and_then(|limit| compartment.limits().raised_limit(limit))
        .and_then(|line| grants.command(&line));
    let more = raised.map(|command| format!("; to allow more: {command}")).unwrap_or_default();
    let (title, words) = (plugin.title(), &cause.words);
    Failure::internal(format!(
        "{title} {words}; the request was stopped and its writes dropped{more}"
    ))
    .recordable()
}

/// Returns the failure of a call that the seal cut, in the words that clients of this API look for
/// (decision H4).
fn seal_failure(state: &CallState) -> Failure {
    let title = state.plugin.title();
    let message = format!("Vault is sealed: {title} was stopped before the answer");
    Failure::new(FailureKind::Unavailable, message).recordable()
}

/// Returns the failure of a call that the stop of its mount cut.
fn stop_failure(state: &CallState) -> Failure {
    let title = state.plugin.title();
    let message = format!(
        "{title} was stopped before the answer: the mount is being disabled or moved, or the \
         server stops"
    );
    Failure::new(FailureKind::Unavailable, message).recordable()
}

/// The failure for the audit log: the client has disconnected, and no caller receives the failure.
fn abandonment_failure(state: &CallState) -> Failure {
    let title = state.plugin.title();
    let message = format!("the client disconnected: {title} was stopped, and nothing was changed");
    Failure::new(FailureKind::Unavailable, message).recordable()
}

fn deadline_failure(state: &CallState) -> Failure {
    state.context.compartment.note_limit("deadline");
    let title = state.plugin.title();
    let message = match state.limits().computing {
        Some(limit) if state.context.computes_too_long() => format!(
            "{title} computed for more than {} s, the most for a version on probation, and was \
             stopped",
            limit.as_secs()
        ),
        _ => format!("{title} ran past its deadline and was stopped"),
    };
    Failure::new(FailureKind::TimedOut, message).recordable()
}
