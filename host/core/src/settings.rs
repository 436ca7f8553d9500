//! What a server is started with.

use crate::audit::AuditSettings;
use crate::catalog::Official;
use crate::log::Log;
use bulkhead_sandbox::{Outbound, Surroundings};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a server is started with.
pub struct Settings {
    /// Where the store lives; made when missing, locked while in use.
    pub directory: PathBuf,
    /// The components of this binary.
    pub officials: Vec<Official>,
    /// The program that compiles uploaded components, which is this build of `bulkhead`.
    pub compiler: PathBuf,
    /// Seconds.
    pub default_lease_ttl: u64,
    /// Seconds.
    pub max_lease_ttl: u64,
    /// How long a call into a component may take that says nothing else of itself.
    pub request_timeout: Duration,
    /// Nothing is done because it is due: no lease ends by itself, nothing is rotated. For a copy
    /// of the data that was restored while the original may still serve.
    pub suspend_due_work: bool,
    /// The version that clients switch features on (decision P5).
    pub reported_version: String,
    /// The URL by which clients reach this node, as `sys/leader` tells it; empty when the
    /// configuration does not say.
    pub api_address: String,
    /// The URL of a listener that can be dialled; empty where none can. It stands in for
    /// `api_address` where others must be told how this server is reached.
    pub own_url: String,
    /// Where the server listens: no component ever dials it.
    pub own_addresses: Vec<SocketAddr>,
    /// What the machine has, for components that are granted it.
    pub surroundings: Surroundings,
    /// How components' HTTP leaves the machine.
    pub outbound: Outbound,
    /// Where requests and answers are recorded.
    pub audit: AuditSettings,
    /// Where lines for the operator go.
    pub log: Arc<dyn Log>,
}
