//! The log of the server, and the report of panics.
//!
//! This file prevents a panic message from leaking a secret into the log (slicing errors quote the
//! sliced text), a log file that is full from taking lines away, and a flood of one event from
//! filling the disk. Log calls of libraries are compiled out, because their text may hold the
//! libraries' input (decision T32).
//!
//! Monitors also show lines below the level of the log, under a limit of their own.

mod destination;
mod flood;
mod format;

pub(crate) use destination::check_file_type;
pub use format::LogFormat;

use bulkhead_access::log::Log;
use bulkhead_access::log_monitors::{LogMonitors, MonitorFormat};
use bulkhead_access::log_threshold::LogThreshold;
use bulkhead_tls::machine_time;
use bulkhead_trace::scope::{current_request, current_span};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::server_figures::LogFigures;
use bulkhead_wire::sync;
use destination::LogDestination;
use flood::{FloodLimiter, LEFT_OUT_PERIOD, LeftOut, LineAdmission, LineSource, LineSubject};
use format::LogLine;
use std::fs::File;
use std::io;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// Maximum time in which the file of the log is opened again.
const REOPEN_TIMEOUT: Duration = Duration::from_secs(5);

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
    monitors: Arc<LogMonitors>,
    writer: Mutex<LogWriter>,
    figures: Arc<LogFigures>,
}

/// The state that a line needs alone.
struct LogWriter {
    destination: LogDestination,
    monitors: Arc<LogMonitors>,
    /// Limits the lines of the log.
    flood: FloodLimiter,
    /// Limits the lines below the level of the log, which monitors alone show.
    unlogged_flood: FloodLimiter,
    figures: Arc<LogFigures>,
}

/// The readers of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineReaders {
    /// The log and the monitors.
    LogAndMonitors,
    /// Monitors alone: the line is below the level of the log.
    MonitorsAlone,
}

impl ServerLog {
    /// Creates a log in logfmt on standard error with the lines from `level` on.
    #[must_use]
    pub fn on_stderr(level: LogLevel) -> Self {
        let destination = LogDestination::stderr(LogFormat::Logfmt);
        let monitors = Arc::new(LogMonitors::new(write_monitor_line));
        let figures = Arc::<LogFigures>::default();
        let writer = LogWriter {
            destination,
            monitors: Arc::clone(&monitors),
            flood: FloodLimiter::default(),
            unlogged_flood: FloodLimiter::default(),
            figures: Arc::clone(&figures),
        };
        let threshold = Arc::new(LogThreshold::new(level));
        Self { threshold, monitors, writer: Mutex::new(writer), figures }
    }

    /// Takes the settings of the configuration.
    ///
    /// # Errors
    /// The file that cannot be opened, and the remedy.
    pub fn configure(&self, settings: &LogSettings) -> Result<(), String> {
        let destination = match &settings.file {
            Some(path) => LogDestination::file(path, settings.format)?,
            None => LogDestination::stderr(settings.format),
        };
        sync::lock(&self.writer).destination = destination;
        self.threshold.configure(settings.level);
        Ok(())
    }

    /// Opens the file of the log again at its path, after log rotation. If the file cannot be
    /// opened in time, the lines go to standard error, which also has a line about the file. Lines
    /// do not wait for the file system meanwhile.
    pub async fn reopen(&self) {
        let Some(path) = sync::lock(&self.writer).destination.path() else { return };
        let opened = open_in_time(path).await;
        let before = sync::lock(&self.writer).replace(opened);
        // The end of a file may wait for the disk as well.
        drop(spawn_blocking(move || drop(before)));
    }

    /// Returns the level from which lines are written.
    #[must_use]
    pub fn threshold(&self) -> &Arc<LogThreshold> {
        &self.threshold
    }

    /// Returns the callers that watch the log.
    #[must_use]
    pub fn monitors(&self) -> &Arc<LogMonitors> {
        &self.monitors
    }

    /// Returns the figures of the log.
    #[must_use]
    pub fn figures(&self) -> &Arc<LogFigures> {
        &self.figures
    }

    /// Writes at intervals how many lines of a flood were left out, until the task is dropped.
    pub async fn report_floods(&self) {
        let mut period = tokio::time::interval(LEFT_OUT_PERIOD);
        loop {
            period.tick().await;
            self.write_left_out(|flood| flood.take_ended(Instant::now()));
        }
    }

    /// Writes how many lines of the present floods were left out, before the end of the process.
    pub(crate) fn report_last_floods(&self) {
        self.write_left_out(FloodLimiter::take_all);
    }

    fn write_left_out(&self, take: impl Fn(&mut FloodLimiter) -> Vec<LeftOut>) {
        let mut writer = sync::lock(&self.writer);
        let readers = self.readers(LogLevel::Warn);
        let unlogged = take(&mut writer.unlogged_flood).into_iter();
        let unlogged = unlogged.map(|left_out| (left_out, Some(LineReaders::MonitorsAlone)));
        let logged = take(&mut writer.flood).into_iter().map(|left_out| (left_out, readers));
        for (LeftOut { event, mount, lines }, readers) in logged.chain(unlogged) {
            let pairs = [("left-out", event), ("mount", mount), ("lines", lines.to_string())];
            let pairs: Vec<_> = pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect();
            if let Some(readers) = readers {
                writer.write((LogLevel::Warn, readers), "log-lines-left-out", &pairs);
            }
        }
    }

    /// Returns the readers of lines of `level`; `None` if there are none.
    fn readers(&self, level: LogLevel) -> Option<LineReaders> {
        if self.threshold.admits(level) {
            return Some(LineReaders::LogAndMonitors);
        }
        self.monitors.admits(level).then_some(LineReaders::MonitorsAlone)
    }

    /// Writes a line about a panic. The panicking thread may itself have the lock of the writer:
    /// if the writer is locked, the line goes to standard error.
    fn write_panic(&self, pairs: &[(&str, String)]) {
        let level = (LogLevel::Error, LineReaders::LogAndMonitors);
        match self.writer.try_lock() {
            Ok(mut writer) => writer.write_limited(level, "panic", pairs),
            Err(TryLockError::Poisoned(poisoned)) => {
                poisoned.into_inner().write_limited(level, "panic", pairs);
            }
            Err(TryLockError::WouldBlock) => {
                let (time, level, event) = (machine_time(), LogLevel::Error, "panic");
                let line = LogLine { time, level, event, request: None, trace: None, pairs };
                destination::write_stderr_unlocked(&line);
                self.figures.lines.note(level);
            }
        }
    }
}

/// Opens the file of the log outside of the threads that serve requests.
///
/// # Errors
/// The file cannot be opened, or the file system does not answer in time.
async fn open_in_time(path: PathBuf) -> io::Result<File> {
    let opening = spawn_blocking(move || destination::open(Path::new(&path)));
    match tokio::time::timeout(REOPEN_TIMEOUT, opening).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(_)) => Err(io::Error::other("the opening ended early")),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

impl LogWriter {
    /// Writes a line, unless too many lines of the event were written.
    fn write_limited(
        &mut self,
        level: (LogLevel, LineReaders),
        event: &str,
        pairs: &[(&str, String)],
    ) {
        let value_of = |wanted: &str| pairs.iter().find(|(name, _)| *name == wanted);
        let mount = value_of("mount").map(|(_, mount)| mount.as_str()).unwrap_or_default();
        let source = match value_of("plugin") {
            Some(_) => LineSource::Component,
            None => LineSource::Host,
        };
        let flood = match level.1 {
            LineReaders::LogAndMonitors => &mut self.flood,
            LineReaders::MonitorsAlone => &mut self.unlogged_flood,
        };
        match flood.admit(LineSubject { source, event, mount }, Instant::now()) {
            LineAdmission::Admitted { left_out: 0 } => self.write(level, event, pairs),
            LineAdmission::Admitted { left_out } => {
                let left_out = ("left-out", left_out.to_string());
                let pairs: Vec<_> = pairs.iter().cloned().chain([left_out]).collect();
                self.write(level, event, &pairs);
            }
            LineAdmission::LeftOut if level.1 == LineReaders::LogAndMonitors => {
                self.figures.note_suppressed();
            }
            LineAdmission::LeftOut => {}
        }
    }

    fn write(
        &mut self,
        (level, readers): (LogLevel, LineReaders),
        event: &str,
        pairs: &[(&str, String)],
    ) {
        let request = current_request();
        let trace = current_span().and_then(|span| span.sampled_trace_id());
        let (time, request, trace) = (machine_time(), request.as_deref(), trace.as_deref());
        let line = LogLine { time, level, event, request, trace, pairs };
        if readers == LineReaders::LogAndMonitors {
            self.destination.write(&line);
            self.figures.lines.note(level);
            self.figures.set_diverted(self.destination.is_diverted());
        }
        self.monitors.publish(level, |format| line.text(form_of(format)));
    }

    /// Writes to a file that was opened again from now on, and returns the file before.
    fn replace(&mut self, opened: io::Result<File>) -> Option<File> {
        let before = self.destination.replace(opened);
        self.figures.set_diverted(self.destination.is_diverted());
        before
    }
}

impl Log for ServerLog {
    fn line(&self, level: LogLevel, event: &str, pairs: &[(&str, String)]) {
        if let Some(readers) = self.readers(level) {
            sync::lock(&self.writer).write_limited((level, readers), event, pairs);
        }
    }
}

/// Returns the form of the lines of a monitor.
fn form_of(format: MonitorFormat) -> LogFormat {
    match format {
        MonitorFormat::Standard => LogFormat::Logfmt,
        MonitorFormat::Json => LogFormat::Json,
    }
}

/// Writes a line about a monitor, which its reader alone sees.
fn write_monitor_line(
    format: MonitorFormat,
    level: LogLevel,
    event: &str,
    pairs: &[(&str, String)],
) -> String {
    let time = machine_time();
    LogLine { time, level, event, request: None, trace: None, pairs }.text(form_of(format))
}

/// Installs a panic hook that logs the place of a panic and not its message.
pub fn report_panics(log: Arc<ServerLog>) {
    panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        log.write_panic(&[("at", place)]);
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
