//! `listener "tcp"`, `listener "unix"` and `listener "scheduler"`: addresses, request limits and
//! trusted proxies.

use super::findings::ConfigError;
use super::listener_telemetry;
use super::section::{BlockKinds, ConfigSection, ConfigValue, SectionWords};
use super::tls::{self, ListenerTransport};
use super::unix::{self, UnixSettings};
use super::vault;
use crate::proxies::{ConnectionOrigin, TrustedProxies};
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
    blocks: &[listener_telemetry::BLOCK],
    foreign: vault::LISTENER,
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
    foreign: vault::LISTENER,
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
    /// Clients of the address get `sys/metrics` without a token.
    pub(crate) opens_metrics: bool,
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
            opens_metrics: false,
        }
    }

    /// Returns the address and the path at which `sys/metrics` needs no token.
    pub(crate) fn open_metrics_places(&self) -> impl Iterator<Item = String> {
        let address = self.address.clone().filter(|_| self.opens_metrics);
        let unix = self.unix.as_ref().filter(|unix| unix.opens_metrics);
        address.into_iter().chain(unix.map(|unix| unix.path.display().to_string()))
    }

    /// Returns whether a client of `origin` gets `sys/metrics` without a token.
    pub(crate) fn opens_metrics_to(&self, origin: ConnectionOrigin) -> bool {
        match origin {
            ConnectionOrigin::Network(_) => self.opens_metrics,
            ConnectionOrigin::Unix { .. } => {
                self.unix.as_ref().is_some_and(|unix| unix.opens_metrics)
            }
        }
    }

    /// Creates a listener of the scheduler's mount on `address` with default settings.
    ///
    /// # Errors
    /// None: the default mount's path is valid.
    pub(crate) fn of_scheduler(address: &str) -> Result<Self, String> {
        Ok(Self { own_mount: Some(MountPath::new(SCHEDULER_MOUNT)?), ..Self::at(address) })
    }

    fn scheduler(section: &ConfigSection<'_>) -> Self {
        let config = Self::from_section(section, DEFAULT_SCHEDULER_ADDRESS);
        let mount =
            |value: &ConfigValue<'_>| MountPath::new(value.text()?).map_err(|why| value.error(why));
        let usual =
            || section.keep(MountPath::new(SCHEDULER_MOUNT).map_err(|why| section.error(why)));
        Self { own_mount: section.read("mount", mount).or_else(usual), ..config }
    }

    fn from_section(section: &ConfigSection<'_>, usual: &str) -> Self {
        let address = section.read("address", parse_address);
        let mut config = Self::at(address.unwrap_or(usual));
        config.transport = tls::transport(section, address);
        let proxies = section.read("trusted_proxies", ConfigValue::elements).unwrap_or_default();
        let proxies = section.each(&proxies, parse_proxy);
        let all = TrustedProxies::new(proxies).map_err(|why| section.error(why));
        config.proxies = section.keep(all).unwrap_or_default();
        let bytes = section.read("max_request_size", |value| value.bytes(BODY_LEAST, BODY_MOST));
        config.body_max = bytes.unwrap_or(config.body_max);
        let time = section.read("request_timeout", request_time);
        config.request_time = time.unwrap_or(config.request_time);
        let most = section
            .read("max_connections_per_address", |value| value.count(1, CONNECTIONS_MOST))
            .unwrap_or(CONNECTIONS);
        config.connections_per_address = usize::try_from(most).unwrap_or(usize::MAX);
        config
    }
}

/// The listeners of a file.
pub(super) struct ConfiguredListeners {
    /// The API's listener; 127.0.0.1:8200 if the file has none.
    pub(super) api: ListenerConfig,
    pub(super) scheduler: Option<ListenerConfig>,
}

/// Reads the file's listeners.
pub(super) fn settings(file: &ConfigSection<'_>) -> ConfiguredListeners {
    let [tcp, unix, scheduler] = file.blocks_of_kinds(&BlockKinds {
        name: "listener",
        kinds: ["tcp", "unix", "scheduler"],
        unserved: &[],
        twice: "a server has one listener of each kind; for all addresses of the machine, write \
                address 0.0.0.0 or [::], and leave one of the two blocks out",
    });
    let has_socket = unix.is_some();
    let unix = unix.and_then(|block| unix::settings(&block));
    let config = match tcp {
        Some(block) => {
            let section = block.section(&WORDS);
            let opens_metrics = listener_telemetry::opens_metrics(&section);
            let config = ListenerConfig::from_section(&section, DEFAULT_ADDRESS);
            ListenerConfig { opens_metrics, ..config }
        }
        None if has_socket => {
            ListenerConfig { address: None, ..ListenerConfig::at(DEFAULT_ADDRESS) }
        }
        None => ListenerConfig::at(DEFAULT_ADDRESS),
    };
    let scheduler =
        scheduler.map(|block| ListenerConfig::scheduler(&block.section(&SCHEDULER_WORDS)));
    ConfiguredListeners { api: ListenerConfig { unix, ..config }, scheduler }
}

/// Reads the timeout of an engine's work. The minimum leaves enough time to create or revoke a
/// credential in an external system.
fn request_time(value: &ConfigValue<'_>) -> Result<Duration, ConfigError> {
    let time = Duration::from_secs(value.seconds(1, REQUEST_TIME_MOST)?);
    let least = MountLimits::LEAST_EFFECTFUL;
    if time >= least {
        return Ok(time);
    }
    let [time, least] = [time, least].map(|time| duration::show(time.as_secs()));
    Err(value.error(format!(
        "{time} is shorter than {least}, the minimum time to make or revoke a credential; give \
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
        "{} is not HOST:PORT; write for example \"127.0.0.1:8200\" or \"[::1]:8200\"",
        quoted(text)
    )))
}

/// Reads an element of the list of proxies.
fn parse_proxy<'a>(element: &ConfigValue<'a>) -> Result<&'a str, ConfigError> {
    let text = element.text()?;
    TrustedProxies::new([text]).map_err(|why| element.error(why))?;
    Ok(text)
}
