//! The settings for `sys/config/state/sanitized`, with the names that clients of this API know.
//!
//! No setting is a secret; files with secrets are not named, and the place of the data is not
//! shown.

use super::{Config, ListenerConfig, ListenerTransport, listener_telemetry};
use bulkhead_tls::ClientCertificates;
use serde_json::{Map, Value, json};

impl Config {
    /// Returns the settings.
    #[must_use]
    pub(crate) fn shown(&self) -> Map<String, Value> {
        let mut listeners = Vec::new();
        if self.listener.address.is_some() {
            listeners.push(json!({ "type": "tcp", "config": of_tcp(&self.listener) }));
        }
        if let Some(unix) = &self.listener.unix {
            let mut config =
                json!({ "address": unix.path, "socket_mode": format!("{:04o}", unix.mode) });
            add_telemetry(&mut config, unix.opens_metrics);
            listeners.push(json!({ "type": "unix", "config": config }));
        }
        if let Some(scheduler) = &self.scheduler {
            listeners.push(json!({ "type": "scheduler", "config": of_tcp(scheduler) }));
        }
        let plugins = self.plugin_directory.as_ref().map(|directory| directory.path());
        let members = [
            ("listeners", json!(listeners)),
            ("storage", self.shown_storage()),
            ("seals", json!([{ "type": self.seal.kind(), "disabled": false }])),
            ("default_lease_ttl", json!(self.default_lease_ttl)),
            ("max_lease_ttl", json!(self.max_lease_ttl)),
            ("api_addr", json!(self.api_address)),
            ("cluster_addr", json!("")),
            ("plugin_directory", json!(plugins.unwrap_or("".as_ref()))),
            ("log_format", json!(self.log.format.word())),
            ("log_level", json!(self.log.level.word())),
            ("enable_ui", json!(false)),
            ("disable_mlock", json!(true)),
            ("disable_cache", json!(false)),
            ("raw_storage_endpoint", json!(false)),
            ("introspection_endpoint", json!(false)),
            ("reported_version", json!(self.reported_version)),
            ("allow_key_holders", json!(self.allow_key_holders)),
            ("suspend_due_work", json!(self.suspend_due_work)),
            ("shutdown_delay", json!(self.shutdown.delay.as_secs())),
            ("shutdown_timeout", json!(self.shutdown.timeout.as_secs())),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn shown_storage(&self) -> Value {
        let kind = self.database.kind();
        match &self.node_id {
            None => json!({ "type": kind }),
            Some(node_id) => json!({ "type": kind, "ha_enabled": true, "node_id": node_id }),
        }
    }
}

fn of_tcp(listener: &ListenerConfig) -> Value {
    let mut shown = json!({
        "address": listener.address,
        "tls_disable": !matches!(listener.transport, ListenerTransport::Tls(_)),
        "max_request_size": listener.body_max,
        "request_timeout": listener.request_time.as_secs(),
        "max_connections_per_address": listener.connections_per_address,
        "trusted_proxies": listener.proxies.to_string(),
    });
    if let (ListenerTransport::Tls(tls), Some(members)) =
        (&listener.transport, shown.as_object_mut())
    {
        let versions = [tls.versions.least(), tls.versions.most()].map(|version| version.word());
        members.insert("tls_cert_file".to_owned(), json!(tls.certificates.path()));
        members.insert("tls_min_version".to_owned(), json!(versions[0]));
        members.insert("tls_max_version".to_owned(), json!(versions[1]));
        let is_required = matches!(tls.clients, ClientCertificates::Required(_));
        members.insert("tls_require_and_verify_client_cert".to_owned(), json!(is_required));
    }
    add_telemetry(&mut shown, listener.opens_metrics);
    shown
}

/// Adds the telemetry of a listener that answers `sys/metrics` without a token.
fn add_telemetry(shown: &mut Value, opens_metrics: bool) {
    if let (true, Some(members)) = (opens_metrics, shown.as_object_mut()) {
        let telemetry = json!({ "unauthenticated_metrics_access": true });
        members.insert(listener_telemetry::BLOCK.to_owned(), telemetry);
    }
}
