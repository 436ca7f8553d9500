//! Process state that survives sealing and unsealing.

use crate::settings::ServiceSettings;
use bulkhead_access::unauthenticated_limits::UnauthenticatedLimiter;
use bulkhead_sandbox::SandboxRuntime;
use bulkhead_sandbox::compile::Compiler;
use bulkhead_store::DataDirectory;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{RwLock, watch};

/// Time for which a node that stepped down is drained. A node that nobody stops meanwhile returns:
/// a script that lets every node step down must not end the service.
const DRAIN_TIME: Duration = Duration::from_secs(60);

/// The state.
pub struct ProcessState {
    /// Start settings, constant until the end of the process.
    pub settings: ServiceSettings,
    pub(crate) runtime: Arc<SandboxRuntime>,
    pub(crate) compiler: Compiler,
    pub(crate) directory: Arc<DataDirectory>,
    /// Rate limit for callers without a valid token, sealed or unsealed.
    pub unauthenticated_limits: UnauthenticatedLimiter,
    /// In-flight lock: every request and every piece of due work holds the lock for reading until
    /// its end. Opening the store waits for the lock, so that no old work runs concurrently with
    /// the reopened store.
    pub(crate) in_flight: Arc<RwLock<()>>,
    /// The end of the process.
    pub(crate) ending: ProcessEnd,
    /// True for a server in dev mode, from the first opening on.
    is_dev: AtomicBool,
    /// True from the first signal to stop on.
    is_stopping: AtomicBool,
    /// The end of the drain; `None` if the node never stepped down.
    drained_until: Mutex<Option<Instant>>,
    /// Notified when the service is initialised, unsealed or sealed, or begins to stop.
    changes: watch::Sender<()>,
}

impl ProcessState {
    /// Builds the state of a process that has not opened the store yet.
    pub fn new(
        settings: ServiceSettings,
        runtime: Arc<SandboxRuntime>,
        directory: &Arc<DataDirectory>,
    ) -> Self {
        Self {
            compiler: Compiler::new(settings.compiler.clone()),
            settings,
            runtime,
            directory: Arc::clone(directory),
            unauthenticated_limits: UnauthenticatedLimiter::default(),
            in_flight: Arc::default(),
            ending: ProcessEnd::default(),
            is_dev: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            drained_until: Mutex::default(),
            changes: watch::Sender::default(),
        }
    }

    /// Notes that the server runs in dev mode.
    pub(crate) fn begin_dev_mode(&self) {
        self.is_dev.store(true, Ordering::Relaxed);
    }

    /// Returns true for a server in dev mode.
    pub(crate) fn is_dev(&self) -> bool {
        self.is_dev.load(Ordering::Relaxed)
    }

    /// Notes that the process was asked to stop. Requests are still served.
    pub(crate) fn begin_stopping(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.note_change();
    }

    /// Returns true if the process was asked to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Drains this node for [`DRAIN_TIME`]: `sys/health` answers 503, so that load balancers choose
    /// other nodes. Requests are still served, and due work goes on. Does nothing if no other node
    /// shares the data.
    pub fn step_down(&self) {
        if self.settings.store.is_shared() {
            *sync::lock(&self.drained_until) = Some(Instant::now() + DRAIN_TIME);
            let seconds = ("seconds", DRAIN_TIME.as_secs().to_string());
            self.settings.log.line(LogLevel::Info, "stepped-down", &[seconds]);
        }
    }

    /// Returns true while this node is drained.
    pub(crate) fn is_drained(&self) -> bool {
        sync::lock(&self.drained_until).is_some_and(|until| Instant::now() < until)
    }

    /// Notes that the service was initialised, unsealed or sealed.
    pub(crate) fn note_change(&self) {
        self.changes.send_replace(());
    }

    /// Returns the notifications of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

/// The signal that the process ends, for work that no request and no open service can reach.
#[derive(Default)]
pub(crate) struct ProcessEnd(watch::Sender<bool>);

impl ProcessEnd {
    /// Sends the signal.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Returns true if the process ends.
    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when the process ends.
    pub(crate) async fn wait(&self) {
        // An error means that the sender is gone, which also means the end.
        _ = self.0.subscribe().wait_for(|ends| *ends).await;
    }
}
