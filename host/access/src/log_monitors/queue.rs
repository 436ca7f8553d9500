//! The lines that wait for the reader of a monitor.

use super::MonitorFormat;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

/// Maximum number of lines that wait for the reader of a monitor.
const MAX_WAITING_LINES: usize = 512;

/// Maximum number of bytes that wait for the reader of a monitor.
const MAX_WAITING_BYTES: usize = 256 << 10;

/// A queue of lines with one reader.
pub(super) struct LineQueue {
    /// The level from which lines are shown.
    pub(super) level: LogLevel,
    /// The form of the lines.
    pub(super) format: MonitorFormat,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    /// Lines with their line breaks.
    text: String,
    lines: usize,
    /// Number of lines that found the queue full since the last read.
    left_out: u64,
    end: QueueEnd,
    reader: Option<Waker>,
}

#[derive(Clone, Copy, Default)]
enum QueueEnd {
    #[default]
    Open,
    /// The reader has not read the reason yet.
    Ending(&'static str),
    Ended,
}

impl LineQueue {
    pub(super) fn new(level: LogLevel, format: MonitorFormat) -> Self {
        Self { level, format, state: Mutex::default() }
    }

    /// Adds a line, or counts the line if the queue is full.
    pub(super) fn push(&self, line: String) {
        let mut state = sync::lock(&self.state);
        let bytes = state.text.len().saturating_add(line.len());
        if state.lines >= MAX_WAITING_LINES || bytes > MAX_WAITING_BYTES {
            state.left_out += 1;
            return;
        }
        state.lines += 1;
        match state.text.is_empty() {
            true => state.text = line,
            false => state.text.push_str(&line),
        }
        state.wake();
    }

    /// Ends the queue after the lines that wait. The first reason counts.
    pub(super) fn end(&self, reason: &'static str) {
        let mut state = sync::lock(&self.state);
        if let QueueEnd::Open = state.end {
            state.end = QueueEnd::Ending(reason);
            state.wake();
        }
    }

    /// Returns the lines that wait, and lines about left out lines and the end.
    pub(super) fn poll(
        &self,
        context: &mut Context<'_>,
        write_line: impl Fn(&str, &[(&str, String)]) -> String,
    ) -> Poll<Option<String>> {
        let mut state = sync::lock(&self.state);
        let mut text = std::mem::take(&mut state.text);
        state.lines = 0;
        let left_out = std::mem::take(&mut state.left_out);
        if left_out > 0 {
            text += &write_line("monitor-lines-left-out", &[("lines", left_out.to_string())]);
        }
        if let QueueEnd::Ending(reason) = state.end {
            text += &write_line("monitor-ended", &[("reason", reason.to_owned())]);
            state.end = QueueEnd::Ended;
        }
        if !text.is_empty() {
            return Poll::Ready(Some(text));
        }
        if let QueueEnd::Ended = state.end {
            return Poll::Ready(None);
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl QueueState {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}
