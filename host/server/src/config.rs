//! Configuration file of `bulkhead server --config FILE`, in HCL (decision T9).
//!
//! Prevents a server that differs from its configuration. Nothing is ignored: an unknown word, a
//! value of the wrong type or an unsupported setting refuses the file and names the line. No
//! setting is a secret, so that a refusal may quote the file.

mod ambient;
mod audit;
mod listener;
mod outbound;
mod plugins;
mod report;
mod section;
mod tls;
mod unix;

pub(crate) use listener::{DEFAULT_ADDRESS, DEFAULT_SCHEDULER_ADDRESS, ListenerConfig};
pub(crate) use outbound::OutboundSettings;
pub(crate) use section::ConfigError;
pub(crate) use tls::{ListenerTransport, plain_beyond_loopback};
pub(crate) use unix::UnixSettings;

use bulkhead_core::audit::AuditSettings;
use bulkhead_core::{PluginDirectory, SignatureRules};
use bulkhead_sandbox::AmbientSources;
use bulkhead_wire::duration;
use bulkhead_wire::failure::quoted;
use hyper::Uri;
use section::{ConfigSection, ConfigValue, SectionWords};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

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
        "api_addr",
        "suspend_due_work",
        "plugin_directory",
    ],
    blocks: &["listener", "storage", "seal", "audit", "ambient", "outbound", "plugin_signatures"],
    unserved: &[(
        "plugin_trusted_keys",
        "write plugin_signatures {\n  policy = \"require\"\n  trusted_keys = [\"…\"]\n}",
    )],
};

const STORAGE_WORDS: SectionWords = SectionWords { keys: &["path"], blocks: &[], unserved: &[] };

const STORAGE_EXAMPLE: &str = "storage \"sqlite\" { path = \"/var/lib/bulkhead\" }";

/// Storages that this version does not support, with the reason.
const STORAGE_UNSERVED: [(&str, &str); 1] = [(
    "postgres",
    "this version stores in SQLite only; write storage \"sqlite\" { path = \"/var/lib/bulkhead\" }",
)];

const SEAL_WORDS: SectionWords = SectionWords { keys: &[], blocks: &[], unserved: &[] };

/// Seals that this version does not support, with the reason.
const SEAL_UNSERVED: [(&str, &str); 1] = [(
    "static",
    "this version supports only Shamir's shares; write seal \"shamir\" {}, or no seal at all",
)];

/// The configuration of a server.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The API's listener.
    pub(crate) listener: ListenerConfig,
    /// The scheduler API's own listener.
    pub(crate) scheduler: Option<ListenerConfig>,
    /// If the scheduler's address is taken, the server starts without that listener.
    pub(crate) scheduler_is_optional: bool,
    /// Data directory.
    pub(crate) data: PathBuf,
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
}

impl Config {
    /// Creates the configuration of a server at `address` with its data in `data` and all other
    /// settings at their defaults.
    #[must_use]
    pub(crate) fn at(address: &str, data: &Path) -> Self {
        Self {
            listener: ListenerConfig::at(address),
            scheduler: None,
            scheduler_is_optional: false,
            data: data.to_path_buf(),
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
        }
    }

    /// Reads `file`.
    ///
    /// # Errors
    /// A message with the line, the error and the text to write instead.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = read_text(file)
            .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
        Self::of(&text).map_err(|wrong| format!("{}, {wrong}", file.display()))
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The first error of the text.
    pub(crate) fn of(text: &str) -> Result<Self, ConfigError> {
        // Editors on Windows write a byte order mark, which HCL does not allow.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        section::read_root(text, &WORDS, Self::from_section)
    }

    fn from_section(file: &ConfigSection<'_>) -> Result<Self, ConfigError> {
        check_seal(file)?;
        check_log_format(file)?;
        let (default_lease_ttl, max_lease_ttl) = read_lifetimes(file)?;
        Ok(Self {
            listener: ListenerConfig::of(file)?,
            scheduler: ListenerConfig::scheduler_of(file)?,
            scheduler_is_optional: false,
            data: data_directory(file)?,
            audit: audit::settings(file)?,
            ambient: ambient::settings(file)?,
            outbound: outbound::settings(file)?,
            plugin_directory: plugins::directory(file)?,
            plugin_signatures: plugins::signatures(file)?,
            default_lease_ttl,
            max_lease_ttl,
            reported_version: file
                .value("reported_version")
                .map_or(Ok(REPORTED_VERSION.to_owned()), |it| parse_version(&it))?,
            api_address: file.value("api_addr").map_or(Ok(String::new()), |it| parse_url(&it))?,
            allow_key_holders: file.value("allow_key_holders").map_or(Ok(false), |it| it.flag())?,
            suspend_due_work: file.value("suspend_due_work").map_or(Ok(false), |it| it.flag())?,
        })
    }
}

/// Reads at most the maximum size, because the path may name an endless device.
fn read_text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        return Err(io::Error::other("it has more than 1 MiB, which no configuration needs"));
    }
    Ok(text)
}

fn data_directory(file: &ConfigSection<'_>) -> Result<PathBuf, ConfigError> {
    let missing = || file.error(format!("there is no storage: write {STORAGE_EXAMPLE}"));
    let block = file.single_block("storage", "sqlite", &STORAGE_UNSERVED)?.ok_or_else(missing)?;
    block.section(&STORAGE_WORDS)?.required("path", "\"/var/lib/bulkhead\"")?.path()
}

/// Checks the seal. The only kind has no settings: the keys are in no file.
fn check_seal(file: &ConfigSection<'_>) -> Result<(), ConfigError> {
    if let Some(block) = file.single_block("seal", "shamir", &SEAL_UNSERVED)? {
        block.section(&SEAL_WORDS)?;
    }
    Ok(())
}

fn check_log_format(file: &ConfigSection<'_>) -> Result<(), ConfigError> {
    match file.value("log_format") {
        Some(value) if value.text()? != "logfmt" => Err(value.error(format!(
            "{} is not served; write \"logfmt\", the only format of this version, or leave it out",
            quoted(value.text()?)
        ))),
        _ => Ok(()),
    }
}

/// Returns the default and the maximum life, in seconds. A shorter maximum also lowers an unset
/// default.
fn read_lifetimes(file: &ConfigSection<'_>) -> Result<(u64, u64), ConfigError> {
    let seconds = |key| {
        file.value(key).map(|value| value.seconds(1, duration::MAX_DURATION_SECONDS)).transpose()
    };
    let (default, max) =
        (seconds("default_lease_ttl")?, seconds("max_lease_ttl")?.unwrap_or(LEASE_TTL));
    match (default, file.value("default_lease_ttl")) {
        (Some(default), Some(value)) if default > max => Err(value.error(format!(
            "{} is longer than max_lease_ttl, which is {}; \
             shorten the one or write the other longer",
            duration::show(default),
            duration::show(max)
        ))),
        _ => Ok((default.unwrap_or(LEASE_TTL.min(max)), max)),
    }
}

/// Parses the reported version. Clients compare versions, and some fail on a version that is not
/// semantic (decision H15).
fn parse_version(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    match semver::Version::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(why) => Err(value.error(format!(
            "{} is no semantic version ({why}); write such as \"{REPORTED_VERSION}\"",
            quoted(text)
        ))),
    }
}

/// Parses `http` or `https`, a host and an optional port, without path or query.
fn parse_url(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    let is_url = text.parse::<Uri>().is_ok_and(|uri| {
        let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        let host = uri.host().is_some_and(|host| !host.is_empty());
        let is_alone = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        scheme && host && is_alone && uri.path() == "/" && uri.query().is_none()
    });
    if is_url {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    Err(value.error(format!(
        "{} is no address of a server; write such as \"https://bulkhead.example.com:8200\"",
        quoted(text)
    )))
}

#[cfg(test)]
mod tests;
