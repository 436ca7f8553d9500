//! An audit device: its file, its settings and its state (working or failing).

use super::file::{AuditTarget, LineFile};
use super::hashing::HashingKey;
use super::json::JsonObject;
use super::settings::DeviceSettings;
use super::stored::StoredDevice;
use bulkhead_access::log::{Log, cause};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::write_figures::WriteFigures;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Notify};

/// Timeout of writing a line, and of reopening the file.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// The origin of a device: the configuration or an API request.
pub enum DeviceOrigin {
    /// Declared in the configuration; the API cannot remove the device.
    Configuration,
    /// Made by an API request; the stored record opens the device again at each unsealing.
    Api(StoredDevice),
}

impl DeviceOrigin {
    /// Returns the record of a device that an API request made.
    pub(super) fn stored(&self) -> Option<&StoredDevice> {
        match self {
            Self::Configuration => None,
            Self::Api(record) => Some(record),
        }
    }

    /// Returns true if the stored record of the same name changes nothing: the device was made from
    /// this record, the record cannot be read, or the configuration declares the device.
    pub(super) fn is_up_to_date(&self, stored: &Result<StoredDevice, Failure>) -> bool {
        match (self, stored) {
            (Self::Api(record), Ok(stored)) => record == stored,
            (Self::Configuration, _) | (_, Err(_)) => true,
        }
    }
}

/// A device in use.
pub struct AuditDevice {
    /// Name, file and line format of the device.
    pub settings: DeviceSettings,
    /// Source of the settings; only a device of the API can be removed while the server runs.
    pub origin: DeviceOrigin,
    /// Key of the hashes in the lines and in the answers of `sys/audit-hash`.
    pub hashing: HashingKey,
    /// Lines, failures and times, for `sys/metrics`.
    pub figures: WriteFigures,
    file: LineFile,
    is_failing: AtomicBool,
    /// Lock of the single line that probes a failing device. Other lines fail at once meanwhile, so
    /// a failing device delays no request.
    probing: Mutex<()>,
    log: Arc<dyn Log>,
    /// Rung when the device begins to fail, and when the device works again.
    changes: Arc<Notify>,
}

/// The parts of a device, before a file is opened.
pub(super) struct DeviceParts {
    pub(super) settings: DeviceSettings,
    pub(super) place: AuditTarget,
    pub(super) origin: DeviceOrigin,
    pub(super) hashing: HashingKey,
    pub(super) changes: Arc<Notify>,
}

impl AuditDevice {
    /// Returns a device whose file is not open yet.
    pub(super) fn new(parts: DeviceParts, log: &Arc<dyn Log>) -> Arc<Self> {
        let DeviceParts { settings, place, origin, hashing, changes } = parts;
        let file = LineFile::new(place, settings.mode, settings.sync);
        Arc::new(Self {
            settings,
            origin,
            hashing,
            figures: WriteFigures::default(),
            file,
            is_failing: AtomicBool::new(false),
            probing: Mutex::default(),
            log: Arc::clone(log),
            changes,
        })
    }

    /// Opens the file, or replaces an open file by the file now at the device's path.
    ///
    /// A failure is logged. If no file is open, the next line tries again.
    pub(super) async fn reopen(&self) -> bool {
        let opened = match tokio::time::timeout(WRITE_TIMEOUT, self.file.reopen()).await {
            Ok(opened) => opened,
            Err(_) => Err(io::Error::other("a write to the file does not end")),
        };
        let Err(error) = opened else { return true };
        self.log.line(LogLevel::Error, "audit-not-opened", &self.log_pairs(&error));
        false
    }

    /// Appends `parts` as a line. Returns `true` once the line is recorded. Logs the first failure
    /// of a series and the recovery.
    pub(crate) async fn record(&self, parts: &[&[u8]]) -> bool {
        let was_failing = self.is_failing.load(Ordering::Relaxed);
        let _probing = match was_failing.then(|| self.probing.try_lock()) {
            None => None,
            Some(Ok(turn)) => Some(turn),
            Some(Err(_)) => {
                self.figures.note_skipped();
                return false;
            }
        };
        let began = Instant::now();
        let appended = self.file.append(parts, WRITE_TIMEOUT).await;
        self.figures.note(appended.is_ok(), began.elapsed());
        let error = match appended {
            Ok(()) => {
                if was_failing && self.is_failing.swap(false, Ordering::Relaxed) {
                    self.changes.notify_one();
                    self.log.line(
                        LogLevel::Info,
                        "audit-recovered",
                        &[("device", self.settings.name.clone())],
                    );
                }
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                io::Error::other(format!("a line took longer than {} s", WRITE_TIMEOUT.as_secs()))
            }
            Err(error) => error,
        };
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            self.changes.notify_one();
            self.log.line(LogLevel::Error, "audit-failed", &self.log_pairs(&error));
        }
        false
    }

    /// Returns whether the last line was recorded; `true` before the first line.
    pub(super) fn works(&self) -> bool {
        !self.is_failing.load(Ordering::Relaxed)
    }

    /// Marks the device as failing, because its file could not be opened. A line that succeeds
    /// clears the mark.
    pub(super) fn fail(&self) {
        self.is_failing.store(true, Ordering::Relaxed);
        self.changes.notify_one();
    }

    /// Writes a test line, with the path that other secrets servers use to test a new device.
    pub(super) async fn prove(&self, time: &str, id: &str) -> bool {
        let mut line = Vec::new();
        let mut entry = JsonObject::begin(&mut line);
        entry.member("time", time);
        entry.member("type", "request");
        let mut request = JsonObject::begin(entry.key("request"));
        request.member("id", id);
        request.member("operation", "update");
        request.member("path", "sys/audit/test");
        request.end();
        entry.end();
        self.record(&[&line]).await
    }

    fn log_pairs(&self, error: &io::Error) -> [(&'static str, String); 3] {
        let file = self.settings.file.display().to_string();
        [("device", self.settings.name.clone()), ("file", file), cause(error)]
    }
}
