//! The `log` import: scrubbed, cut and counted before it reaches the operator.
//!
//! The attack this file stops: a forged line. What a guest says may stand in a value, which is
//! quoted; the names of the event and of the pairs are words, and never those that the host writes
//! itself.

use crate::bindings::secrets_engine::bulkhead::plugin::log::{Host, Level};
use crate::grants::Act;
use crate::host_services;
use crate::limits;
use crate::state::CallState;
use std::borrow::Cow;

/// What stands for a name that is none.
const UNNAMED: &str = "unnamed";
/// Names in a line that are the host's.
const HOSTS_OWN: [&str; 5] = ["event", "level", "mount", "plugin", "time"];

/// What a call has logged.
#[derive(Default)]
pub(crate) struct Logged {
    lines: u32,
    bytes: usize,
    is_over: bool,
}

impl Host for CallState {
    fn write(
        &mut self,
        level: Level,
        event: String,
        pairs: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        self.demand(&Act::Log)?;
        if self.logged.is_over {
            return Ok(());
        }
        let title = self.plugin.title();
        let room =
            limits::TEXT_BYTES.min(self.limits().log_bytes.saturating_sub(self.logged.bytes));
        self.logged.lines = self.logged.lines.saturating_add(1);
        if self.logged.lines >= limits::LOG_LINES || room == 0 {
            self.logged.is_over = true;
            self.scope.services.log(host_services::Level::Warn, &title, "log-lines-dropped", &[]);
            return Ok(());
        }
        let (event, pairs, bytes) = line(self, &event, &pairs, room);
        self.logged.bytes = self.logged.bytes.saturating_add(bytes);
        self.scope.services.log(of_contract(level), &title, &event, &pairs);
        Ok(())
    }
}

type Pairs = Vec<(String, String)>;

/// The event and pairs of a line, with the bytes that they take: at most `room`, from the front,
/// and the event.
fn line(
    state: &CallState,
    event: &str,
    pairs: &[(String, String)],
    mut room: usize,
) -> (String, Pairs, usize) {
    let event = name(state, event).into_owned();
    let mut bytes = event.len();
    room = room.saturating_sub(bytes);
    let mut told = Vec::new();
    for (key, value) in pairs.iter().take(limits::LOG_PAIRS) {
        let mut key = name(state, key).into_owned();
        if HOSTS_OWN.contains(&key.as_str()) {
            key.insert_str(0, "plugin-");
        }
        let Some(left) = room.checked_sub(key.len()) else { break };
        let value = state.scope.tree.secrets.scrub(value, left);
        let took = key.len().saturating_add(value.len());
        room = room.saturating_sub(took);
        bytes = bytes.saturating_add(took);
        told.push((key, value));
    }
    (event, told, bytes)
}

/// A name as it may stand in a line: a word that is no piece of a secret.
fn name<'a>(state: &CallState, given: &'a str) -> Cow<'a, str> {
    let is_word = (1..=limits::LOG_NAME_BYTES).contains(&given.len())
        && given.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'));
    let is_shown = state.scope.tree.secrets.scrub(given, limits::LOG_NAME_BYTES) == given;
    Cow::Borrowed(if is_word && is_shown { given } else { UNNAMED })
}

fn of_contract(level: Level) -> host_services::Level {
    match level {
        Level::Debug => host_services::Level::Debug,
        Level::Info => host_services::Level::Info,
        Level::Warn => host_services::Level::Warn,
        Level::Error => host_services::Level::Error,
    }
}
