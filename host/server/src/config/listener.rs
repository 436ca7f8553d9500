//! `listener "tcp"`, `listener "unix"` and `listener "scheduler"`: addresses, request limits and
//! trusted proxies.

use super::section::{ConfigError, ConfigSection, ConfigValue, LabelledBlock, SectionWords};
use super::tls::{self, ListenerTransport};
use super::unix::{self, UnixSettings};
use crate::proxies::TrustedProxies;
use bulkhead_sandbox::MountLimits;
use bulkhead_wire::duration;
use bulkhead_wire::failure::quoted;
use bulkhead_wire::name::MountPath;
use std::time::Duration;

/// Default maximum size of a body, in bytes (decision P18). The core checks the lower limit of a
/// route.
const BODY_MAX: u64 = 32 << 20;

/// Default timeout of an engine's work on a request, in seconds (decision H2).
const REQUEST_TIME: u64 = 90;

/// Default address of the API's listener (decision P1).
pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:8200";

/// Lower bound of `max_request_size`, in bytes: an unseal request has to fit.
const BODY_LEAST: u64 = 1 << 10;
/// Upper bound of `max_request_size`, in bytes: a larger request would fill a machine's memory.
const BODY_MOST: u64 = 1 << 30;

/// Default maximum number of connections per address: a quarter of the slots of the API's listener.
const CONNECTIONS: u64 = 1024;

/// Upper bound of `max_connections_per_address`: the number of slots of the API's listener.
const CONNECTIONS_MOST: u64 = 4096;

/// Upper bound of `request_timeout`, in seconds: clients do not wait longer.
const REQUEST_TIME_MOST: u64 = 3600;

const WORDS: SectionWords = SectionWords {
    keys: &[
        "address",
        "trusted_proxies",
        "max_request_size",
        "request_timeout",
        "max_connections_per_address",
        "tls_disable",
        "tls_cert_file",
        "tls_key_file",
        "tls_min_version",
        "tls_max_version",
        "tls_cipher_suites",
        "tls_client_ca_file",
        "tls_require_and_verify_client_cert",
        "tls_disable_client_certs",
    ],
    blocks: &[],
    unserved: &[],
};

/// The words of the scheduler's listener, including its mount.
const SCHEDULER_WORDS: SectionWords = SectionWords {
    keys: &[
        "mount",
        "address",
        "trusted_proxies",
        "max_request_size",
        "request_timeout",
        "max_connections_per_address",
        "tls_disable",
        "tls_cert_file",
        "tls_key_file",
        "tls_min_version",
        "tls_max_version",
        "tls_cipher_suites",
        "tls_client_ca_file",
        "tls_require_and_verify_client_cert",
        "tls_disable_client_certs",
    ],
    blocks: &[],
    unserved: &[],
};

/// Default address of the scheduler's listener (decision P1).
pub(crate) const DEFAULT_SCHEDULER_ADDRESS: &str = "127.0.0.1:4646";

/// Default path of the mount that owns the scheduler's listener.
const SCHEDULER_MOUNT: &str = "acl";

/// The settings of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerConfig {
    /// `host:port`, where port 0 takes a free port. `None`: only a Unix socket.
    pub(crate) address: Option<String>,
    /// Protection of the TCP connections.
    pub(crate) transport: ListenerTransport,
    /// A Unix socket, besides or instead of TCP.
    pub(crate) unix: Option<UnixSettings>,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub(crate) proxies: TrustedProxies,
    /// Maximum size of a body, in bytes.
    pub(crate) body_max: u64,
    /// Timeout of an engine's work on a request. The body before has the same time to arrive, but
    /// at most 30 s.
    pub(crate) request_time: Duration,
    /// Maximum number of connections per address, and of simultaneous requests of each client
    /// behind a trusted proxy. Connections of trusted proxies are not counted.
    pub(crate) connections_per_address: usize,
    /// The mount that gets every request of this listener, as plain HTTP.
    pub(crate) own_mount: Option<MountPath>,
}

impl ListenerConfig {
    /// Creates a listener on `address` with default settings.
    #[must_use]
    pub(crate) fn at(address: &str) -> Self {
        Self {
            address: Some(address.to_owned()),
            transport: ListenerTransport::PlainHere,
            unix: None,
            proxies: TrustedProxies::default(),
            body_max: BODY_MAX,
            request_time: Duration::from_secs(REQUEST_TIME),
            connections_per_address: usize::try_from(CONNECTIONS).unwrap_or(usize::MAX),
            own_mount: None,
        }
    }

    /// Creates a listener of the scheduler's mount on `address` with default settings.
    ///
    /// # Errors
    /// None: the default mount's path is valid.
    pub(crate) fn of_scheduler(address: &str) -> Result<Self, String> {
        Ok(Self { own_mount: Some(MountPath::new(SCHEDULER_MOUNT)?), ..Self::at(address) })
    }

    /// Returns the file's listener of the scheduler, if present.
    pub(super) fn scheduler_of(file: &ConfigSection<'_>) -> Result<Option<Self>, ConfigError> {
        let [_, _, block] = file.blocks_of_kinds("listener", ["tcp", "unix", "scheduler"], &[])?;
        let Some(block) = block else { return Ok(None) };
        let section = block.section(&SCHEDULER_WORDS)?;
        let config = Self::from_section(&section, DEFAULT_SCHEDULER_ADDRESS)?;
        let path = section.value("mount").map_or(Ok(SCHEDULER_MOUNT), |value| value.text())?;
        let own_mount = MountPath::new(path).map_err(|why| {
            let value = section.value("mount");
            value.map_or_else(|| file.error(why.clone()), |value| value.error(why.clone()))
        })?;
        Ok(Some(Self { own_mount: Some(own_mount), ..config }))
    }

    /// Returns the file's listener; 127.0.0.1:8200 if the file has none.
    pub(super) fn of(file: &ConfigSection<'_>) -> Result<Self, ConfigError> {
        let [tcp, unix, _] = file.blocks_of_kinds("listener", ["tcp", "unix", "scheduler"], &[])?;
        let unix = unix.map(|block| unix::settings(&block)).transpose()?;
        let config = match tcp {
            Some(block) => Self::from_block(&block)?,
            None if unix.is_some() => Self { address: None, ..Self::at(DEFAULT_ADDRESS) },
            None => Self::at(DEFAULT_ADDRESS),
        };
        Ok(Self { unix, ..config })
    }

    fn from_block(block: &LabelledBlock<'_>) -> Result<Self, ConfigError> {
        Self::from_section(&block.section(&WORDS)?, DEFAULT_ADDRESS)
    }

    fn from_section(section: &ConfigSection<'_>, usual: &str) -> Result<Self, ConfigError> {
        let address = section.value("address").map_or(Ok(usual), |value| parse_address(&value))?;
        let mut config = Self::at(address);
        config.transport = tls::transport(section, address)?;
        if let Some(value) = section.value("trusted_proxies") {
            config.proxies = parse_proxies(&value)?;
        }
        if let Some(value) = section.value("max_request_size") {
            config.body_max = value.bytes(BODY_LEAST, BODY_MOST)?;
        }
        if let Some(value) = section.value("request_timeout") {
            config.request_time = request_time(&value)?;
        }
        if let Some(value) = section.value("max_connections_per_address") {
            let most = value.count(1, CONNECTIONS_MOST)?;
            config.connections_per_address = usize::try_from(most).unwrap_or(usize::MAX);
        }
        Ok(config)
    }
}

/// Reads the timeout of an engine's work. The minimum leaves enough time to create or revoke a
/// credential in an external system.
fn request_time(value: &ConfigValue<'_>) -> Result<Duration, ConfigError> {
    let asked = Duration::from_secs(value.seconds(1, REQUEST_TIME_MOST)?);
    let least = MountLimits::LEAST_EFFECTFUL;
    if asked >= least {
        return Ok(asked);
    }
    let [asked, least] = [asked, least].map(|time| duration::show(time.as_secs()));
    Err(value.error(format!(
        "{asked} is shorter than {least}, the minimum time to make or revoke a credential; give \
         {least} or more"
    )))
}

/// Reads `host:port`. The host is resolved when the server starts to listen.
fn parse_address<'a>(value: &ConfigValue<'a>) -> Result<&'a str, ConfigError> {
    let text = value.text()?;
    let parts = text.rsplit_once(':').filter(|(host, port)| {
        let is_whole = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
        is_whole
            && !host.is_empty()
            && port.bytes().all(|digit| digit.is_ascii_digit())
            && port.parse::<u16>().is_ok()
    });
    if parts.is_some() && !text.contains(|c: char| c.is_whitespace() || c == '/') {
        return Ok(text);
    }
    Err(value.error(format!(
        "{} is no HOST:PORT; write such as \"127.0.0.1:8200\" or \"[::1]:8200\"",
        quoted(text)
    )))
}

/// Reads the list of proxies. An error names the line of the element, because such lists are long.
fn parse_proxies(value: &ConfigValue<'_>) -> Result<TrustedProxies, ConfigError> {
    let mut networks = Vec::new();
    for element in value.elements()? {
        let text = element.text()?;
        TrustedProxies::new([text]).map_err(|why| element.error(why))?;
        networks.push(text);
    }
    TrustedProxies::new(networks).map_err(|why| value.error(why))
}
