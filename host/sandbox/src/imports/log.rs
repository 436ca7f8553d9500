//! The `log` import: scrubs, cuts and counts lines before they reach the operator.
//!
//! This file prevents forged lines. A guest's text may be a value, which is quoted. The names of
//! the event and of the pairs are restricted to words, and never match the names that the host
//! writes itself.

use crate::bindings::secrets_engine::bulkhead::plugin::log::{Host, Level};
use crate::grants::Act;
use crate::limits;
use crate::state::CallState;
use bulkhead_wire::log_level::LogLevel;
use std::borrow::Cow;

/// Replacement for an invalid name.
const UNNAMED: &str = "unnamed";
/// Names in a line that only the host writes.
const RESERVED_NAMES: [&str; 8] =
    ["event", "level", "mount", "plugin", "request_id", "time", "trace_id", "version"];

impl Host for CallState {
    fn write(
        &mut self,
        level: Level,
        event: String,
        pairs: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        self.require_grant(&Act::Log)?;
        if self.log_count.is_over {
            return Ok(());
        }
        let room =
            limits::TEXT_BYTES.min(self.limits().log_bytes.saturating_sub(self.log_count.bytes));
        self.log_count.lines = self.log_count.lines.saturating_add(1);
        if self.log_count.lines >= limits::LOG_LINES || room == 0 {
            self.log_count.is_over = true;
            let services = &self.context.services;
            services.log(LogLevel::Warn, &self.plugin, "log-lines-dropped", &[]);
            return Ok(());
        }
        let (event, pairs, bytes) = fit_line(self, &event, &pairs, room);
        self.log_count.bytes = self.log_count.bytes.saturating_add(bytes);
        self.context.services.log(convert_level(level), &self.plugin, &event, &pairs);
        Ok(())
    }
}

type LogFields = Vec<(String, String)>;

/// Returns the event and the pairs of a line, with their number of bytes. Keeps pairs from the
/// front until `room` bytes are used; the event is always kept.
fn fit_line(
    state: &CallState,
    event: &str,
    pairs: &[(String, String)],
    mut room: usize,
) -> (String, LogFields, usize) {
    let event = fit_name(state, event).into_owned();
    let mut bytes = event.len();
    room = room.saturating_sub(bytes);
    let mut fields = Vec::new();
    for (key, value) in pairs.iter().take(limits::LOG_PAIRS) {
        let mut key = fit_name(state, key).into_owned();
        if RESERVED_NAMES.contains(&key.as_str()) {
            key.insert_str(0, "plugin-");
        }
        let Some(left) = room.checked_sub(key.len()) else { break };
        let value = state.context.tree.secrets.scrub(value, left);
        let took = key.len().saturating_add(value.len());
        room = room.saturating_sub(took);
        bytes = bytes.saturating_add(took);
        fields.push((key, value));
    }
    (event, fields, bytes)
}

/// Returns a name if it is a word and shows no piece of a secret, and a replacement otherwise.
fn fit_name<'a>(state: &CallState, name: &'a str) -> Cow<'a, str> {
    let is_word = (1..=limits::LOG_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'));
    let is_shown = state.context.tree.secrets.scrub(name, limits::LOG_NAME_BYTES) == name;
    Cow::Borrowed(if is_word && is_shown { name } else { UNNAMED })
}

fn convert_level(level: Level) -> LogLevel {
    match level {
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
    }
}
