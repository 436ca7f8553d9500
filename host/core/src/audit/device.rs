//! A device: a file, what it shows, and whether it works.

use super::file::{LineFile, Place};
use super::hashing::Hashing;
use super::json::Object;
use super::settings::DeviceSettings;
use super::stored::StoredDevice;
use crate::log::{Log, cause};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// How long a line may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who asked for a device.
pub(crate) enum Origin {
    Configuration,
    Api(StoredDevice),
}

/// A device that is in use.
pub(crate) struct Device {
    pub(crate) settings: DeviceSettings,
    pub(crate) origin: Origin,
    pub(crate) hashing: Hashing,
    file: LineFile,
    is_failing: AtomicBool,
    /// Held by the one line that finds out whether a device that failed works again. The others
    /// fail at once, so that it holds no request up.
    probing: Mutex<()>,
    log: Arc<dyn Log>,
}

/// What a device is made of, before it has a file.
pub(super) struct Parts {
    pub(super) settings: DeviceSettings,
    pub(super) place: Place,
    pub(super) origin: Origin,
    pub(super) hashing: Hashing,
}

impl Device {
    /// The device, with its file not open yet.
    pub(super) fn new(parts: Parts, log: &Arc<dyn Log>) -> Arc<Self> {
        let Parts { settings, place, origin, hashing } = parts;
        let file = LineFile::new(place, settings.mode, settings.sync);
        Arc::new(Self {
            settings,
            origin,
            hashing,
            file,
            is_failing: AtomicBool::new(false),
            probing: Mutex::default(),
            log: Arc::clone(log),
        })
    }

    /// Opens the file, or goes over to the one that is now at its place. What cannot be opened is
    /// told, and tried again by the next line where no file is open.
    pub(super) async fn reopen(&self) -> bool {
        let opened = match tokio::time::timeout(PATIENCE, self.file.reopen()).await {
            Ok(opened) => opened,
            Err(_) => Err(io::Error::other("it is being written to and does not answer")),
        };
        let Err(error) = opened else { return true };
        self.log.line("error", "audit-not-opened", &self.log_pairs(&error));
        false
    }

    /// Appends `parts` as one line. `true` once it is recorded. The operator is told of the first
    /// failure and of the end of all failures.
    pub(crate) async fn record(&self, parts: &[&[u8]]) -> bool {
        let was_failing = self.is_failing.load(Ordering::Relaxed);
        let _probing = match was_failing.then(|| self.probing.try_lock()) {
            None => None,
            Some(Ok(turn)) => Some(turn),
            Some(Err(_)) => return false,
        };
        let error = match self.file.append(parts, PATIENCE).await {
            Ok(()) => {
                if was_failing && self.is_failing.swap(false, Ordering::Relaxed) {
                    self.log.line(
                        "info",
                        "audit-works-again",
                        &[("device", self.settings.name.clone())],
                    );
                }
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                io::Error::other(format!("a line took longer than {} s", PATIENCE.as_secs()))
            }
            Err(error) => error,
        };
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            self.log.line("error", "audit-failed", &self.log_pairs(&error));
        }
        false
    }

    /// Whether the last line was recorded, as far as one was tried.
    pub(super) fn works(&self) -> bool {
        !self.is_failing.load(Ordering::Relaxed)
    }

    /// Its file could not be opened: it counts as failing until a line finds out otherwise.
    pub(super) fn fail(&self) {
        self.is_failing.store(true, Ordering::Relaxed);
    }

    /// Writes what others of this kind write to see whether a new device takes a line.
    pub(super) async fn prove(&self, time: &str, id: &str) -> bool {
        let mut line = Vec::new();
        let mut entry = Object::begin(&mut line);
        entry.member("time", time);
        entry.member("type", "request");
        let mut request = Object::begin(entry.key("request"));
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
