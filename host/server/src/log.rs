//! The log of the server, and the report of panics.
//!
//! This file prevents a panic message from leaking a secret into the log (slicing errors quote the
//! sliced text), a log file that is full from taking lines away, and a flood of one event from
//! filling the disk. Log calls of libraries are compiled out, because their text may hold the
//! libraries' input (decision T32).

mod destination;
mod flood;
mod format;

pub use format::LogFormat;

use bulkhead_access::log::Log;
use bulkhead_access::log_threshold::LogThreshold;
use bulkhead_access::request_scope::current_request;
use bulkhead_tls::machine_time;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use destination::LogDestination;
use flood::{FloodLimiter, LEFT_OUT_PERIOD, LeftOut, LineAdmission};
use format::LogLine;
use std::panic;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const _: () = assert!(matches!(::log::STATIC_MAX_LEVEL, ::log::LevelFilter::Off));
const _: () = assert!(tracing::level_filters::STATIC_MAX_LEVEL.into_level().is_none());

/// The settings of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The level from which lines are written.
    pub level: LogLevel,
    /// The form of the lines.
    pub format: LogFormat,
    /// The file of the lines. `None`: standard error.
    pub file: Option<PathBuf>,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { level: LogLevel::Info, format: LogFormat::Logfmt, file: None }
    }
}

/// The log of the server: standard error until [`ServerLog::configure`].
pub struct ServerLog {
    threshold: Arc<LogThreshold>,
    writer: Mutex<LogWriter>,
}

/// The state that a line needs alone.
struct LogWriter {
    format: LogFormat,
    destination: LogDestination,
    flood: FloodLimiter,
}

impl ServerLog {
    /// Creates a log in logfmt on standard error with the lines from `level` on.
    #[must_use]
    pub fn on_stderr(level: LogLevel) -> Self {
        let (format, destination) = (LogFormat::Logfmt, LogDestination::stderr());
        let writer = LogWriter { format, destination, flood: FloodLimiter::default() };
        Self { threshold: Arc::new(LogThreshold::new(level)), writer: Mutex::new(writer) }
    }

    /// Takes the settings of the configuration.
    ///
    /// # Errors
    /// The file that cannot be opened, and the remedy.
    pub fn configure(&self, settings: &LogSettings) -> Result<(), String> {
        let destination = match &settings.file {
            Some(path) => LogDestination::file(path)?,
            None => LogDestination::stderr(),
        };
        let mut writer = sync::lock(&self.writer);
        writer.format = settings.format;
        writer.destination = destination;
        self.threshold.configure(settings.level);
        Ok(())
    }

    /// Opens the file of the log again at its path, after log rotation. If the file cannot be
    /// opened, the lines go to standard error, which also has a line about the file.
    pub fn reopen(&self) {
        sync::lock(&self.writer).destination.reopen();
    }

    /// Returns the level from which lines are written.
    #[must_use]
    pub fn threshold(&self) -> &Arc<LogThreshold> {
        &self.threshold
    }

    /// Writes at intervals how many lines of a flood were left out, until the task is dropped.
    pub async fn report_floods(&self) {
        let mut period = tokio::time::interval(LEFT_OUT_PERIOD);
        loop {
            period.tick().await;
            let mut writer = sync::lock(&self.writer);
            for LeftOut { event, mount, lines } in writer.flood.take_ended(Instant::now()) {
                let lines = lines.to_string();
                let pairs = [("left-out", event), ("mount", mount), ("lines", lines)];
                let pairs: Vec<_> =
                    pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect();
                writer.write(LogLevel::Warn, "log-lines-left-out", &pairs);
            }
        }
    }
}

impl LogWriter {
    fn write(&mut self, level: LogLevel, event: &str, pairs: &[(&str, String)]) {
        let request = current_request();
        let (time, request) = (machine_time(), request.as_deref());
        let line = LogLine { time, level, event, request, pairs }.text(self.format);
        self.destination.write(level, &line);
    }
}

impl Log for ServerLog {
    fn line(&self, level: LogLevel, event: &str, pairs: &[(&str, String)]) {
        if !self.threshold.admits(level) {
            return;
        }
        let mount = pairs.iter().find(|(name, _)| *name == "mount");
        let mount = mount.map(|(_, mount)| mount.as_str()).unwrap_or_default();
        let mut writer = sync::lock(&self.writer);
        match writer.flood.admit((event, mount), Instant::now()) {
            LineAdmission::Admitted { left_out: 0 } => writer.write(level, event, pairs),
            LineAdmission::Admitted { left_out } => {
                let left_out = ("left-out", left_out.to_string());
                let pairs: Vec<_> = pairs.iter().cloned().chain([left_out]).collect();
                writer.write(level, event, &pairs);
            }
            LineAdmission::LeftOut => {}
        }
    }
}

/// Installs a panic hook that logs the place of a panic and not its message.
pub fn report_panics(log: Arc<dyn Log>) {
    panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        log.line(LogLevel::Error, "panic", &[("at", place)]);
    }));
}

/// A log for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::{Log, LogLevel};
    use std::sync::Mutex;

    /// A log that stores the events of its lines.
    #[derive(Default)]
    pub(crate) struct RecordingLog(Mutex<Vec<String>>);

    impl RecordingLog {
        /// Returns the events in order.
        pub(crate) fn events(&self) -> Vec<String> {
            self.0.lock().unwrap().clone()
        }
    }

    impl Log for RecordingLog {
        fn line(&self, _: LogLevel, event: &str, _: &[(&str, String)]) {
            self.0.lock().unwrap().push(event.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
