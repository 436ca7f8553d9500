//! Output of `bulkhead server --check`: the configuration, as acts of the server that would use it.

use super::Config;
use super::tls::ListenerTransport;
use bulkhead_core::SignaturePolicy;
use bulkhead_outbound::ambient::AmbientSources;
use bulkhead_tls::ClientCertificates;
use bulkhead_wire::{duration, size};
use std::fmt;
use std::time::Duration;

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report_listener(f)?;
        writeln!(f, "keeps the data in {}, {}", self.place_of_data(), self.seal)?;
        if !self.database.is_file() {
            writeln!(f, "keeps its lock and uploads in {}", self.data.display())?;
        }
        if let Some(node_id) = &self.node_id {
            writeln!(f, "shares the database with other nodes, as node {node_id}")?;
        }
        if !self.initialize.is_empty() {
            let names: Vec<&str> =
                self.initialize.iter().map(|block| block.name.as_str()).collect();
            writeln!(f, "initialises itself, if the data are empty, by {}", names.join(", "))?;
        }
        for plan in &self.snapshots {
            writeln!(
                f,
                "saves snapshot {} to {} ({}), and retains {} files",
                plan.name,
                plan.directory.display(),
                plan.schedule,
                plan.retain
            )?;
        }
        self.report_audit(f)?;
        self.report_ambient(f)?;
        self.outbound.report(f)?;
        self.report_plugins(f)?;
        let (default, max) =
            (duration::show(self.default_lease_ttl), duration::show(self.max_lease_ttl));
        writeln!(f, "gives leases and tokens a ttl of {default}, and at most {max}")?;
        writeln!(f, "reports version {} to clients", self.reported_version)?;
        if !self.api_address.is_empty() {
            writeln!(f, "reports the address {} to clients", self.api_address)?;
        }
        if self.allow_key_holders {
            writeln!(f, "lets key holders generate root tokens and rekey without a token")?;
        }
        if self.suspend_due_work {
            writeln!(
                f,
                "suspends due work: revokes no lease and rotates nothing without a request"
            )?;
        }
        self.report_stop(f)?;
        self.report_log(f)?;
        self.telemetry.report(f)?;
        for notice in &self.notices {
            writeln!(f, "ignores {notice}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ListenerTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Tls(tls) = self else { return f.write_str("plain HTTP") };
        write!(f, "TLS ({} to {}", tls.versions.least().word(), tls.versions.most().word())?;
        match &tls.clients {
            ClientCertificates::NotAsked => {}
            ClientCertificates::Optional(_) => f.write_str(", clients may show certificates")?,
            ClientCertificates::Required(_) => f.write_str(", clients must show certificates")?,
        }
        write!(f, ") with {}", tls.certificates.path().display())
    }
}

impl Config {
    fn report_log(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (level, format) = (self.log.level.word(), self.log.format.word());
        write!(f, "logs from level {level} on as {format} to ")?;
        match &self.log.file {
            Some(file) => writeln!(f, "{}", file.display()),
            None => writeln!(f, "standard error"),
        }
    }

    fn report_listener(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listener = &self.listener;
        self.report_places(f)?;
        let socket = listener.unix.as_ref().filter(|unix| unix.is_trusted_proxy);
        if listener.proxies.is_empty() && socket.is_none() {
            writeln!(f, "ignores X-Forwarded-For")?;
        }
        if !listener.proxies.is_empty() {
            writeln!(f, "trusts X-Forwarded-For from {}", listener.proxies)?;
        }
        if let Some(unix) = socket {
            writeln!(f, "trusts X-Forwarded-For on the socket {}", unix.path.display())?;
        }
        for place in listener.open_metrics_places() {
            writeln!(f, "answers sys/metrics without a token on {place}")?;
        }
        writeln!(f, "refuses bodies over {}", size::show(listener.body_max))?;
        let connections = listener.connections_per_address;
        writeln!(
            f,
            "allows {connections} connections at a time per address, and more to trusted proxies"
        )?;
        writeln!(
            f,
            "stops an engine's work on a request after {}",
            duration::show(listener.request_time.as_secs())
        )
    }

    fn report_stop(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |time: Duration| duration::show(time.as_secs());
        if !self.shutdown.delay.is_zero() {
            let delay = show(self.shutdown.delay);
            writeln!(f, "answers 503 at sys/health for {delay} before a stop, and still serves")?;
        }
        let timeout = show(self.shutdown.timeout);
        writeln!(f, "stops within {timeout}, and cuts requests that take longer")
    }

    fn report_places(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listener = &self.listener;
        if let Some(address) = &listener.address {
            writeln!(f, "listens on {address}, {}", listener.transport)?;
        }
        if let Some(scheduler) = &self.scheduler {
            let address = scheduler.address.as_deref().unwrap_or_default();
            let mount = scheduler.own_mount.as_ref().map(|mount| mount.as_str());
            let mount = mount.unwrap_or_default();
            writeln!(f, "serves mount {mount} alone on {address}, {}", scheduler.transport)?;
        }
        if let Some(unix) = &listener.unix {
            let named = |word: &str, name: &Option<String>| {
                name.as_ref().map(|name| format!(", {word} {name}")).unwrap_or_default()
            };
            writeln!(
                f,
                "listens on {} (mode {:04o}{}{})",
                unix.path.display(),
                unix.mode,
                named("user", &unix.user),
                named("group", &unix.group)
            )?;
        }
        Ok(())
    }

    /// Reports only settings that differ from the defaults.
    fn report_ambient(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (usual, here) = (AmbientSources::default(), &self.ambient);
        if here.pod_folder != usual.pod_folder {
            writeln!(f, "reads the pod's files in {}", here.pod_folder.display())?;
        }
        if !here.azure_client_id.is_empty() {
            writeln!(f, "is the managed identity {} in Azure", here.azure_client_id)?;
        }
        let services = [
            ("Azure", here.azure_metadata, usual.azure_metadata),
            ("Google", here.google_metadata, usual.google_metadata),
        ];
        for (cloud, address, usual) in services {
            if address != usual {
                writeln!(f, "asks {cloud}'s metadata service at {address}")?;
            }
        }
        Ok(())
    }

    fn report_plugins(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(directory) = &self.plugin_directory {
            writeln!(f, "registers plugins from {} by name", directory.path().display())?;
        }
        let rules = &self.plugin_signatures;
        let keys = rules.trusted_keys.len();
        match rules.policy {
            SignaturePolicy::None => Ok(()),
            SignaturePolicy::Warn => {
                writeln!(f, "warns of plugins not signed by any of {keys} trusted keys")
            }
            SignaturePolicy::Require => {
                writeln!(f, "refuses plugins not signed by any of {keys} trusted keys")
            }
        }
    }

    fn report_audit(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for device in &self.audit.devices {
            let mut ways = vec![format!("mode {:04o}", device.mode)];
            let flags = [
                (device.log_raw, "values in the clear"),
                (!device.hmac_accessor, "accessors in the clear"),
                (device.elide_list_responses, "lists cut to their lengths"),
                (device.sync, "flushed to the disk"),
            ];
            ways.extend(flags.iter().filter(|(is_on, _)| *is_on).map(|(_, way)| (*way).to_owned()));
            writeln!(
                f,
                "audits to {}: {} ({})",
                device.name,
                device.file.display(),
                ways.join(", ")
            )?;
        }
        if self.audit.devices.is_empty() {
            writeln!(f, "audits to no device of this file")?;
        }
        match &self.audit.api_directory {
            Some(directory) => {
                writeln!(f, "lets the API make audit devices in {}", directory.display())
            }
            None => writeln!(f, "lets the API make no audit device"),
        }
    }
}
