//! What stays the same while the store is opened and sealed again.

use crate::settings::Settings;
use crate::strangers::Strangers;
use bulkhead_sandbox::Runtime;
use bulkhead_sandbox::compile::Compiler;
use std::sync::Arc;
use tokio::sync::RwLock;

/// What stays the same while the store is opened and sealed again.
pub(crate) struct Process {
    pub(crate) settings: Settings,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) compiler: Compiler,
    /// How often callers without a token are answered, sealed or open.
    pub(crate) strangers: Strangers,
    /// Every request and every piece of due work holds it for reading until it has ended. The
    /// opening of the store waits for it: what began before a seal must not go on beside what
    /// undoes it.
    pub(crate) in_flight: Arc<RwLock<()>>,
}
