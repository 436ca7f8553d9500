//! The configuration file of `bulkhead server --config FILE`: HCL (decision T9), and what a server
//! does with it.
//!
//! The mistake this file stops: a server that is not as its operator wrote. Nothing is ignored: an
//! unknown word, a value of another type, a setting that this version cannot honour refuses the
//! file, by line. No setting is a secret, so that a refusal may repeat what is written.

mod ambient;
mod audit;
mod listener;
mod outbound;
mod report;
mod section;
mod tls;
mod unix;

pub(crate) use listener::{DEFAULT_ADDRESS, DEFAULT_SCHEDULER_ADDRESS, ListenerConfig};
pub(crate) use outbound::OutboundSettings;
pub(crate) use section::ConfigError;
pub(crate) use tls::{Transport, plain_beyond_loopback};
pub(crate) use unix::UnixSettings;

use bulkhead_core::audit::AuditSettings;
use bulkhead_sandbox::Surroundings;
use bulkhead_wire::duration;
use bulkhead_wire::failure::quoted;
use hyper::Uri;
use section::{Section, Value, Words};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Default of the longest and of the usual life of a lease or token, in seconds: 768 h, as clients
/// of this API expect.
const LEASE_TTL: u64 = 768 * 3600;

/// The version that clients see unless the file says another (decision P5).
const REPORTED_VERSION: &str = "1.21.0+ent";

/// Largest file, in bytes.
const FILE_MAX: u64 = 1 << 20;

const OWN_COMPONENTS: &str =
    "this version runs the components that its binary brings along and no others; leave it out";

const WORDS: Words = Words {
    keys: &[
        "allow_api_audit",
        "audit_directory",
        "default_lease_ttl",
        "max_lease_ttl",
        "reported_version",
        "log_format",
        "api_addr",
        "suspend_due_work",
    ],
    blocks: &["listener", "storage", "seal", "audit", "ambient", "outbound"],
    unserved: &[
        ("plugin_directory", OWN_COMPONENTS),
        ("plugin_signatures", OWN_COMPONENTS),
        ("plugin_trusted_keys", OWN_COMPONENTS),
    ],
};

const STORAGE_WORDS: Words = Words { keys: &["path"], blocks: &[], unserved: &[] };

const STORAGE_EXAMPLE: &str = "storage \"sqlite\" { path = \"/var/lib/bulkhead\" }";

/// Storages to come.
const STORAGE_UNSERVED: [(&str, &str); 1] = [(
    "postgres",
    "this version stores in SQLite only; write storage \"sqlite\" { path = \"/var/lib/bulkhead\" }",
)];

const SEAL_WORDS: Words = Words { keys: &[], blocks: &[], unserved: &[] };

/// Seals to come.
const SEAL_UNSERVED: [(&str, &str); 1] = [(
    "static",
    "this version is opened by Shamir's shares only; write seal \"shamir\" {}, or no seal at all",
)];

/// The configuration of a server.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Where and how it listens.
    pub(crate) listener: ListenerConfig,
    /// Where the scheduler's API has a listener of its own.
    pub(crate) scheduler: Option<ListenerConfig>,
    /// Its address may be taken: the server then serves without it.
    pub(crate) scheduler_is_optional: bool,
    /// Where its data are.
    pub(crate) data: PathBuf,
    /// What records its requests.
    pub(crate) audit: AuditSettings,
    /// What the machine has, and where.
    pub(crate) surroundings: Surroundings,
    /// How components' HTTP leaves it.
    pub(crate) outbound: OutboundSettings,
    /// Life of a lease or token that says nothing else, in seconds.
    pub(crate) default_lease_ttl: u64,
    /// Longest life of a lease or token, in seconds.
    pub(crate) max_lease_ttl: u64,
    /// The version that clients switch features on.
    pub(crate) reported_version: String,
    /// The URL by which clients reach it; empty when the file does not say.
    pub(crate) api_address: String,
    /// It does nothing by itself: for a copy that was restored from a backup.
    pub(crate) suspend_due_work: bool,
}

impl Config {
    /// A server on `address` with its data in `data` with nothing else configured.
    #[must_use]
    pub(crate) fn at(address: &str, data: &Path) -> Self {
        Self {
            listener: ListenerConfig::at(address),
            scheduler: None,
            scheduler_is_optional: false,
            data: data.to_path_buf(),
            audit: AuditSettings::default(),
            surroundings: Surroundings::default(),
            outbound: OutboundSettings::default(),
            default_lease_ttl: LEASE_TTL,
            max_lease_ttl: LEASE_TTL,
            reported_version: REPORTED_VERSION.to_owned(),
            api_address: String::new(),
            suspend_due_work: false,
        }
    }

    /// Reads `file`.
    ///
    /// # Errors
    /// Why it cannot be read, or what in it is wrong, by line and with what to write.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = read_text(file)
            .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
        Self::of(&text).map_err(|wrong| format!("{}, {wrong}", file.display()))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn of(text: &str) -> Result<Self, ConfigError> {
        // Editors on Windows put a byte order mark in front; it is no part of the language.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        section::read_root(text, &WORDS, Self::from_section)
    }

    fn from_section(file: &Section<'_>) -> Result<Self, ConfigError> {
        check_seal(file)?;
        check_log_format(file)?;
        let (default_lease_ttl, max_lease_ttl) = lifetimes(file)?;
        Ok(Self {
            listener: ListenerConfig::of(file)?,
            scheduler: ListenerConfig::scheduler_of(file)?,
            scheduler_is_optional: false,
            data: data_directory(file)?,
            audit: audit::settings(file)?,
            surroundings: ambient::settings(file)?,
            outbound: outbound::settings(file)?,
            default_lease_ttl,
            max_lease_ttl,
            reported_version: file
                .value("reported_version")
                .map_or(Ok(REPORTED_VERSION.to_owned()), |it| parse_version(&it))?,
            api_address: file.value("api_addr").map_or(Ok(String::new()), |it| parse_url(&it))?,
            suspend_due_work: file.value("suspend_due_work").map_or(Ok(false), |it| it.flag())?,
        })
    }
}

/// The text of a file that may be anything: a device that never ends is not read to its end.
fn read_text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        return Err(io::Error::other("it has more than 1 MiB, which no configuration needs"));
    }
    Ok(text)
}

fn data_directory(file: &Section<'_>) -> Result<PathBuf, ConfigError> {
    let missing = || file.error(format!("there is no storage: write {STORAGE_EXAMPLE}"));
    let block = file.single_block("storage", "sqlite", &STORAGE_UNSERVED)?.ok_or_else(missing)?;
    block.section(&STORAGE_WORDS)?.required("path", "\"/var/lib/bulkhead\"")?.path()
}

/// There is one kind of seal, and nothing to say of it: what opens it is in no file.
fn check_seal(file: &Section<'_>) -> Result<(), ConfigError> {
    if let Some(block) = file.single_block("seal", "shamir", &SEAL_UNSERVED)? {
        block.section(&SEAL_WORDS)?;
    }
    Ok(())
}

fn check_log_format(file: &Section<'_>) -> Result<(), ConfigError> {
    match file.value("log_format") {
        Some(value) if value.text()? != "logfmt" => Err(value.error(format!(
            "{} is not served; write \"logfmt\", the only format of this version, or leave it out",
            quoted(value.text()?)
        ))),
        _ => Ok(()),
    }
}

/// The default and the longest life, in seconds. A maximum alone is the default too where it is
/// shorter.
fn lifetimes(file: &Section<'_>) -> Result<(u64, u64), ConfigError> {
    let seconds =
        |key| file.value(key).map(|value| value.seconds(1, duration::LONGEST)).transpose();
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

/// Clients compare it, and one of them fails on what is no semantic version (decision H15).
fn parse_version(value: &Value<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    match semver::Version::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(why) => Err(value.error(format!(
            "{} is no semantic version ({why}); write such as \"{REPORTED_VERSION}\"",
            quoted(text)
        ))),
    }
}

/// `http` or `https`, a host, maybe a port, and nothing behind.
fn parse_url(value: &Value<'_>) -> Result<String, ConfigError> {
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
