//! Process state that survives sealing and unsealing.

use crate::settings::ServiceSettings;
use bulkhead_access::unauthenticated_limits::UnauthenticatedLimiter;
use bulkhead_sandbox::SandboxRuntime;
use bulkhead_sandbox::compile::Compiler;
use bulkhead_store::DataDirectory;
use std::sync::Arc;
use tokio::sync::RwLock;

/// The state.
pub(crate) struct ProcessState {
    pub(crate) settings: ServiceSettings,
    pub(crate) runtime: Arc<SandboxRuntime>,
    pub(crate) compiler: Compiler,
    pub(crate) directory: Arc<DataDirectory>,
    /// Rate limit for callers without a valid token, sealed or unsealed.
    pub(crate) unauthenticated_limits: UnauthenticatedLimiter,
    /// In-flight lock: every request and every piece of due work holds the lock for reading until
    /// its end. Opening the store waits for the lock, so that no old work runs concurrently with
    /// the reopened store.
    pub(crate) in_flight: Arc<RwLock<()>>,
}
