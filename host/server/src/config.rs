//! Configuration file of `bulkhead server --config FILE`, in HCL (decision T9) or JSON.
//!
//! This file prevents a server that differs from its configuration. An unknown word, a value of the
//! wrong type or an unsupported setting refuses the file and names the line; all errors are named
//! at once. A setting of Vault without which the server is neither less safe nor lacks data is
//! named in the log instead (decision H70). No setting is a secret, so that a refusal may quote the
//! file; only `connection_url` may hold a password, and is never quoted.

mod ambient;
mod audit;
mod findings;
mod hcl_text;
mod initialize;
mod json_text;
mod listener;
mod listener_telemetry;
mod logging;
mod migration;
mod outbound;
mod plugins;
mod report;
mod seal;
mod section;
mod shown;
mod shutdown;
mod snapshot;
mod storage;
mod telemetry;
mod tls;
mod tree;
mod unix;
mod vault;

pub(crate) use findings::{ConfigNotice, ConfigRefusal};
pub(crate) use initialize::{InitializeSettings, load as load_initial_blocks};
pub(crate) use listener::{DEFAULT_ADDRESS, DEFAULT_SCHEDULER_ADDRESS, ListenerConfig};
pub(crate) use logging::{parse_format as parse_log_format, parse_level as parse_log_level};
pub(crate) use migration::MigrationConfig;
pub(crate) use outbound::OutboundSettings;
pub(crate) use seal::{KeeperAccess, SealSettings};
pub(crate) use shutdown::ShutdownSettings;
pub(crate) use storage::{ConnectRetries, DatabaseSettings, unverified_server};
pub(crate) use telemetry::{CollectorAccess, TelemetrySettings};
#[cfg(test)]
pub(crate) use telemetry::{access_to, telemetry_of};
pub(crate) use tls::{ListenerTransport, plain_beyond_loopback};
pub(crate) use unix::UnixSettings;

use crate::log::LogSettings;
use bulkhead_audit::AuditSettings;
use bulkhead_core::snapshots::ScheduledSnapshot;
use bulkhead_core::{PluginDirectory, SignatureRules};
use bulkhead_outbound::ambient::AmbientSources;
use bulkhead_store::{DatabaseChoice, NodeDescription, NodeSharing, StoreOptions};
use bulkhead_wire::duration;
use bulkhead_wire::failure::quoted;
use findings::{ConfigError, ConfigFindings};
use listener::ConfiguredListeners;
use seal::SealEnvironment;
use section::{ConfigSection, ConfigValue, SectionWords};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use storage::StorageSettings;
use tree::ConfigEntry;

/// Default and maximum life of a lease or token, in seconds: 768 h, as clients of this API expect.
const LEASE_TTL: u64 = 768 * 3600;

/// Default version reported to clients (decision P5).
const REPORTED_VERSION: &str = "1.21.0+ent";

/// Maximum size of the file, in bytes.
const FILE_MAX: u64 = 1 << 20;

const WORDS: SectionWords = SectionWords {
    keys: &[
        "allow_api_audit",
        "allow_key_holders",
        "audit_directory",
        "default_lease_ttl",
        "max_lease_ttl",
        "reported_version",
        "log_format",
        "log_level",
        "log_file",
        "api_addr",
        "suspend_due_work",
        "plugin_directory",
        "shutdown_delay",
        "shutdown_timeout",
    ],
    blocks: &[
        "listener",
        "storage",
        "seal",
        "initialize",
        "snapshot",
        "audit",
        "ambient",
        "outbound",
        "plugin_signatures",
        "telemetry",
    ],
    foreign: vault::ROOT,
};

/// The configuration of a server.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The file that was read, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// The API's listener.
    pub(crate) listener: ListenerConfig,
    /// The scheduler API's own listener.
    pub(crate) scheduler: Option<ListenerConfig>,
    /// If the scheduler's address is taken, the server starts without that listener.
    pub(crate) scheduler_is_optional: bool,
    /// Data directory.
    pub(crate) data: PathBuf,
    /// Database with the records.
    pub(crate) database: DatabaseSettings,
    /// Name of this node, if several nodes share the database.
    pub(crate) node_id: Option<String>,
    /// Seal of the data.
    pub(crate) seal: SealSettings,
    /// Requests that set an empty server up.
    pub(crate) initialize: Vec<InitializeSettings>,
    /// Snapshots that the server takes by itself.
    pub(crate) snapshots: Vec<ScheduledSnapshot>,
    /// Audit devices.
    pub(crate) audit: AuditSettings,
    /// Metadata services and files of the machine.
    pub(crate) ambient: AmbientSources,
    /// Proxy and certificate authorities for the components' HTTP.
    pub(crate) outbound: OutboundSettings,
    /// Directory of components that callers of the API register by name, if any.
    pub(crate) plugin_directory: Option<PluginDirectory>,
    /// Rules for signatures of registered components.
    pub(crate) plugin_signatures: SignatureRules,
    /// Default life of a lease or token, in seconds.
    pub(crate) default_lease_ttl: u64,
    /// Maximum life of a lease or token, in seconds.
    pub(crate) max_lease_ttl: u64,
    /// Version reported to clients, which enable features by it.
    pub(crate) reported_version: String,
    /// URL at which clients reach the server; empty if not configured.
    pub(crate) api_address: String,
    /// Lets holders of unseal keys generate root tokens and rekey without a token.
    pub(crate) allow_key_holders: bool,
    /// Suspends work that the server does by itself: for a copy restored from a backup.
    pub(crate) suspend_due_work: bool,
    /// Times of an orderly stop.
    pub(crate) shutdown: ShutdownSettings,
    /// Log of the server.
    pub(crate) log: LogSettings,
    /// Export of traces.
    pub(crate) telemetry: TelemetrySettings,
    /// Settings of the file without effect.
    pub(crate) notices: Vec<ConfigNotice>,
}

impl Config {
    /// Creates the configuration of a server at `address` with its data in `data` and all other
    /// settings at their defaults.
    #[must_use]
    pub(crate) fn at(address: &str, data: &Path) -> Self {
        Self {
            file: None,
            listener: ListenerConfig::at(address),
            scheduler: None,
            scheduler_is_optional: false,
            data: data.to_path_buf(),
            database: DatabaseSettings::Known(DatabaseChoice::SqliteFile),
            node_id: None,
            seal: SealSettings::Shamir,
            initialize: Vec::new(),
            snapshots: Vec::new(),
            audit: AuditSettings::default(),
            ambient: AmbientSources::default(),
            outbound: OutboundSettings::default(),
            plugin_directory: None,
            plugin_signatures: SignatureRules::default(),
            default_lease_ttl: LEASE_TTL,
            max_lease_ttl: LEASE_TTL,
            reported_version: REPORTED_VERSION.to_owned(),
            api_address: String::new(),
            allow_key_holders: false,
            suspend_due_work: false,
            shutdown: ShutdownSettings::default(),
            log: LogSettings::default(),
            telemetry: TelemetrySettings::default(),
            notices: Vec::new(),
        }
    }

    /// Returns the place of the data, and the node of this server.
    ///
    /// # Errors
    /// The unusable source of the connection URL, and the remedy.
    pub(crate) fn store_options(
        &self,
        environment: SealEnvironment<'_>,
    ) -> Result<StoreOptions, String> {
        let database = self.database.load(environment)?;
        let options = StoreOptions { database, ..StoreOptions::at(&self.data) };
        let Some(node_id) = &self.node_id else { return Ok(options) };
        let versions = (self.reported_version.as_str(), env!("CARGO_PKG_VERSION"));
        let node = NodeDescription::on_this_machine((node_id, &self.api_address), versions);
        Ok(StoreOptions { sharing: NodeSharing::Shared, node, ..options })
    }

    /// Returns the configuration with the database that the sources outside of the file name.
    ///
    /// # Errors
    /// As [`Config::store_options`].
    pub(crate) fn with_database(self, environment: SealEnvironment<'_>) -> Result<Self, String> {
        let database = DatabaseSettings::Known(self.database.load(environment)?);
        Ok(Self { database, ..self })
    }

    /// Returns the place of the records for a report: a directory, or servers and a database.
    pub(crate) fn place_of_data(&self) -> String {
        match self.database.is_file() {
            true => self.data.display().to_string(),
            false => self.database.to_string(),
        }
    }

    /// Reads `file`: JSON if its name ends so or its text begins with `{`, HCL otherwise.
    ///
    /// # Errors
    /// A message with each line, its error and the text to write instead.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        match parse_file(file)?.and_then(|entries| Self::of_entries(&entries)) {
            Ok(config) => Ok(Self { file: Some(file.to_path_buf()), ..config }),
            Err(refusal) => Err(refusal.message(file)),
        }
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// All errors of the text.
    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Result<Self, ConfigRefusal> {
        Self::of_entries(&parse_text(text, false)?)
    }

    fn of_entries(entries: &[ConfigEntry]) -> Result<Self, ConfigRefusal> {
        let findings = ConfigFindings::default();
        let config = Self::from_section(&ConfigSection::root(entries, &WORDS, &findings));
        let (config, notices) = findings.conclude(config)?;
        Ok(Self { notices, ..config })
    }

    /// `None`: there is an error about the place of the data.
    fn from_section(file: &ConfigSection<'_>) -> Option<Self> {
        let seal = seal::settings(file);
        if let (SealSettings::Shamir, Some(block)) = (&seal, file.blocks("initialize").next()) {
            file.refuse(block.error(
                "a server with seal \"shamir\" cannot initialise itself: nobody would have the \
                 unseal keys; write seal \"static\" or seal \"transit\", or leave the initialize \
                 blocks out",
            ));
        }
        let (default_lease_ttl, max_lease_ttl) = lifetimes(file);
        let flag = |key| file.read(key, ConfigValue::flag).unwrap_or(false);
        let version = file.read("reported_version", parse_version);
        let ConfiguredListeners { api, scheduler } = listener::settings(file);
        let config = Self {
            file: None,
            listener: api,
            scheduler,
            scheduler_is_optional: false,
            data: PathBuf::new(),
            database: DatabaseSettings::Known(DatabaseChoice::SqliteFile),
            node_id: None,
            seal,
            initialize: initialize::settings(file),
            snapshots: snapshot::settings(file),
            audit: audit::settings(file),
            ambient: ambient::settings(file),
            outbound: outbound::settings(file),
            plugin_directory: plugins::directory(file),
            plugin_signatures: plugins::signatures(file),
            default_lease_ttl,
            max_lease_ttl,
            reported_version: version.unwrap_or_else(|| REPORTED_VERSION.to_owned()),
            api_address: file.read("api_addr", ConfigValue::url).unwrap_or_default(),
            allow_key_holders: flag("allow_key_holders"),
            suspend_due_work: flag("suspend_due_work"),
            shutdown: shutdown::settings(file),
            log: logging::settings(file),
            telemetry: telemetry::settings(file),
            notices: Vec::new(),
        };
        let StorageSettings { data, database, node_id } = storage::settings(file)?;
        Some(Self { data, database, node_id, ..config })
    }
}

/// Reads and parses `file`: JSON if its name ends so or its text begins with `{`, HCL otherwise.
///
/// # Errors
/// The file cannot be read; inside, the errors of the text.
fn parse_file(file: &Path) -> Result<Result<Vec<ConfigEntry>, ConfigRefusal>, String> {
    let text =
        read_text(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    let is_json = file.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    Ok(parse_text(&text, is_json))
}

/// Parses the text of a file: JSON if `is_json` or the text begins with `{`, HCL otherwise.
fn parse_text(text: &str, is_json: bool) -> Result<Vec<ConfigEntry>, ConfigRefusal> {
    let text = without_mark(text);
    if is_json || text.trim_start().starts_with('{') {
        return Ok(json_text::parse(text)?);
    }
    Ok(hcl_text::parse(text)?)
}

/// Removes the byte order mark, which editors on Windows write and HCL does not allow.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Reads at most the maximum size, because the path may name an endless device.
fn read_text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        return Err(io::Error::other("the file has more than 1 MiB, which no configuration needs"));
    }
    Ok(text)
}

/// Returns the default and the maximum life, in seconds. A shorter maximum also lowers an unset
/// default.
fn lifetimes(file: &ConfigSection<'_>) -> (u64, u64) {
    let seconds = |value: &ConfigValue<'_>| value.seconds(1, duration::MAX_DURATION_SECONDS);
    let max = match file.value("max_lease_ttl") {
        Some(value) => file.keep(seconds(&value)),
        None => Some(LEASE_TTL),
    };
    let within = |value: &ConfigValue<'_>| match (seconds(value)?, max) {
        (default, Some(max)) if default > max => Err(value.error(format!(
            "{} is longer than max_lease_ttl, which is {}; lower the default or raise the maximum",
            duration::show(default),
            duration::show(max)
        ))),
        (default, _) => Ok(default),
    };
    let default = file.read("default_lease_ttl", within);
    let max = max.unwrap_or(LEASE_TTL);
    (default.unwrap_or(LEASE_TTL.min(max)), max)
}

/// Parses the reported version. Clients compare versions, and some fail on a version that is not
/// semantic (decision H15).
fn parse_version(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    match semver::Version::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(why) => Err(value.error(format!(
            "{} is not a semantic version ({why}); write for example \"{REPORTED_VERSION}\"",
            quoted(text)
        ))),
    }
}

#[cfg(test)]
mod tests;
