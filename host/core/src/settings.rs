//! Start settings of a server.

use crate::catalog::{OfficialComponent, PluginDirectory, SignatureRules};
use crate::seal_setting::SealSetting;
use crate::snapshots::ScheduledSnapshot;
use bulkhead_access::log::Log;
use bulkhead_access::log_monitors::LogMonitors;
use bulkhead_access::log_threshold::LogThreshold;
use bulkhead_audit::AuditSettings;
use bulkhead_outbound::ambient::AmbientSources;
use bulkhead_outbound::proxy::OutboundNetwork;
use bulkhead_store::StoreOptions;
use bulkhead_trace::Tracer;
use bulkhead_wire::server_figures::ServerFigures;
use serde_json::{Map, Value};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Start settings of a server.
pub struct ServiceSettings {
    /// Data directory and database of the store. The directory is created if missing, and locked
    /// while in use.
    pub store: StoreOptions,
    /// Seal of the data.
    pub seal: SealSetting,
    /// Plugins built into this binary.
    pub officials: Vec<OfficialComponent>,
    /// Program that compiles uploaded components: this build of `bulkhead`.
    pub compiler: PathBuf,
    /// Directory of components that callers of the API register by name, if configured.
    pub plugin_directory: Option<PluginDirectory>,
    /// Rules for signatures of registered components.
    pub plugin_signatures: SignatureRules,
    /// Default lease TTL, in seconds.
    pub default_lease_ttl: u64,
    /// Maximum lease TTL, in seconds.
    pub max_lease_ttl: u64,
    /// Default timeout of a call into a component.
    pub request_timeout: Duration,
    /// Suspends due work: no lease expires by itself and nothing is rotated. For a restored copy of
    /// the data while the original may still be serving.
    pub suspend_due_work: bool,
    /// Lets holders of unseal keys generate root tokens and rekey without a token.
    pub allow_key_holders: bool,
    /// Version reported to clients, which enable features by version (decision P5).
    pub reported_version: String,
    /// URL under which clients reach this node, as reported by `sys/leader`; empty if not
    /// configured.
    pub api_address: String,
    /// The settings as `sys/config/state/sanitized` shows them. No member may be a secret.
    pub configuration: Map<String, Value>,
    /// URL of a listener that can be dialled; empty if there is none. Used instead of `api_address`
    /// to tell others the address of this server.
    pub own_url: String,
    /// Listen addresses of the server: no component may dial these addresses.
    pub own_addresses: Vec<SocketAddr>,
    /// Resources of the machine, for components with a grant for these resources.
    pub ambient: AmbientSources,
    /// Route of components' outbound HTTP.
    pub outbound: OutboundNetwork,
    /// Snapshots that the server takes by itself.
    pub snapshots: Vec<ScheduledSnapshot>,
    /// Audit settings for requests and answers.
    pub audit: AuditSettings,
    /// Log for the operator.
    pub log: Arc<dyn Log>,
    /// The level from which lines are written to the log.
    pub log_threshold: Arc<LogThreshold>,
    /// The callers that watch the log.
    pub log_monitors: Arc<LogMonitors>,
    /// Figures of the listeners and the log, for `sys/metrics`.
    pub figures: ServerFigures,
    /// Tracer of requests and due work, if the configuration names a collector.
    pub traces: Option<Arc<Tracer>>,
}
