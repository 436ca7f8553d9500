//! Callers that watch the log while it is written, for `sys/monitor`.
//!
//! This file prevents a slow reader from slowing the server or filling its memory: a monitor has a
//! queue of bounded size, a line that finds the queue full is left out for this monitor, and the
//! reader gets the number of the lines that were left out.

mod queue;

use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use queue::LineQueue;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// Maximum number of monitors at a time.
const MAX_MONITORS: usize = 8;

/// The priority of no line: no monitor is open.
const NO_PRIORITY: u8 = 0;

/// The form of a monitor's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorFormat {
    /// The form of the log: logfmt.
    Standard,
    /// A JSON object in a line.
    Json,
}

/// Writes a line of the log about a monitor itself: format, level, event and pairs.
pub type MonitorLineWriter = fn(MonitorFormat, LogLevel, &str, &[(&str, String)]) -> String;

/// The open monitors.
pub struct LogMonitors {
    write_line: MonitorLineWriter,
    /// Highest priority number that a monitor shows; numbers fall as lines become more severe.
    priority: AtomicU8,
    table: Mutex<MonitorTable>,
}

#[derive(Default)]
struct MonitorTable {
    queues: Vec<Arc<LineQueue>>,
    is_closed: bool,
}

/// A caller that watches the log, until dropped.
pub struct LogMonitor {
    monitors: Arc<LogMonitors>,
    queue: Arc<LineQueue>,
}

impl LogMonitors {
    /// Creates a log without monitors. `write_line` writes the lines about a monitor.
    #[must_use]
    pub fn new(write_line: MonitorLineWriter) -> Self {
        Self { write_line, priority: AtomicU8::new(NO_PRIORITY), table: Mutex::default() }
    }

    /// Returns whether a monitor shows lines of `level`.
    #[must_use]
    pub fn admits(&self, level: LogLevel) -> bool {
        level.priority() <= self.priority.load(Ordering::Relaxed)
    }

    /// Gives a line to the monitors that show its level. `write` writes the line in a format, with
    /// its line break.
    pub fn publish(&self, level: LogLevel, write: impl Fn(MonitorFormat) -> String) {
        if !self.admits(level) {
            return;
        }
        for queue in &sync::lock(&self.table).queues {
            if level >= queue.level {
                queue.push(write(queue.format));
            }
        }
    }

    /// Opens a monitor of the lines from `level` on.
    ///
    /// # Errors
    /// 503 if there are too many monitors, or the server stops.
    pub fn open(
        self: &Arc<Self>,
        level: LogLevel,
        format: MonitorFormat,
    ) -> Result<LogMonitor, Failure> {
        let mut table = sync::lock(&self.table);
        if table.is_closed {
            let message = "the server stops; monitor the log after the next start";
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        if table.queues.len() >= MAX_MONITORS {
            let message = format!(
                "{MAX_MONITORS} callers monitor the log at this moment, the maximum; end another \
                 monitor first, or read the log of the server"
            );
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        let queue = Arc::new(LineQueue::new(level, format));
        table.queues.push(Arc::clone(&queue));
        self.note_priority(&table);
        Ok(LogMonitor { monitors: Arc::clone(self), queue })
    }

    /// Ends every monitor for `reason`, and refuses new monitors: the process ends.
    pub fn close(&self, reason: &'static str) {
        let mut table = sync::lock(&self.table);
        table.is_closed = true;
        table.queues.iter().for_each(|queue| queue.end(reason));
    }

    fn note_priority(&self, table: &MonitorTable) {
        let priorities = table.queues.iter().map(|queue| queue.level.priority());
        self.priority.store(priorities.max().unwrap_or(NO_PRIORITY), Ordering::Relaxed);
    }
}

impl Default for LogMonitors {
    /// A log with bare lines about monitors, for tests.
    fn default() -> Self {
        Self::new(|_, level, event, pairs| {
            let pairs: String =
                pairs.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            format!("level={} event={event}{pairs}\n", level.word())
        })
    }
}

impl LogMonitor {
    /// Ends the monitor for `reason`, which the last line tells.
    pub fn end(&self, reason: &'static str) {
        self.queue.end(reason);
    }

    /// Returns the lines since the last call; `None` after the last line of an ended monitor.
    pub fn poll_lines(&self, context: &mut Context<'_>) -> Poll<Option<String>> {
        let write_line = self.monitors.write_line;
        self.queue.poll(context, |event, pairs| {
            write_line(self.queue.format, LogLevel::Warn, event, pairs)
        })
    }
}

impl Drop for LogMonitor {
    fn drop(&mut self) {
        let mut table = sync::lock(&self.monitors.table);
        table.queues.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
        self.monitors.note_priority(&table);
    }
}

#[cfg(test)]
mod tests;
