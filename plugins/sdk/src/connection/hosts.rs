//! The hosts of a connection, as the server dials them.
//!
//! The attack this file stops: an address that reaches the server itself through its file system
//! (Unix sockets). The server decides from the mount's grants which networks a plugin can reach.

use super::faults::Fault;
use super::parameters::{CONNECTION_URL, WrittenValue};
use crate::database_plugin::{DatabaseTarget, Endpoint, Refusal};
use std::net::Ipv6Addr;

const MOST_HOSTS: usize = 16;

/// Returns the hosts and ports in the order of the setting.
///
/// # Errors
/// For no host, more than sixteen hosts, an invalid host or an invalid port.
pub fn endpoints(
    hosts: &[(WrittenValue, Option<WrittenValue>)],
    default_port: u16,
) -> Result<Vec<Endpoint>, Refusal> {
    match hosts.len() {
        0 => Err(Fault::UrlHost.about(CONNECTION_URL)),
        count if count > MOST_HOSTS => Err(Fault::TooManyHosts.about(CONNECTION_URL)),
        _ => hosts
            .iter()
            .map(|(host, port)| {
                Ok(Endpoint { host: self::host(host)?, port: self::port(port, default_port)? })
            })
            .collect(),
    }
}

fn host(written: &WrittenValue) -> Result<String, Refusal> {
    let host = written.plain()?;
    if host.starts_with(['/', '@', '\\']) {
        return Err(Fault::UnixSocket.about(CONNECTION_URL));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let fits = host.contains(|c: char| c.is_ascii_alphanumeric())
        && host.len() <= 253
        && host.chars().all(is_name);
    if fits || host.parse::<Ipv6Addr>().is_ok() {
        Ok(host)
    } else {
        Err(Fault::UrlHost.about(CONNECTION_URL))
    }
}

fn port(written: &Option<WrittenValue>, default_port: u16) -> Result<u16, Refusal> {
    let Some(written) = written else { return Ok(default_port) };
    let port = written.plain()?;
    if port.is_empty() {
        return Ok(default_port);
    }
    let number =
        port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok()).flatten();
    number.filter(|port| *port != 0).ok_or_else(|| Fault::UrlPort.about(CONNECTION_URL))
}

/// Returns the addresses of a target in the form of a grant: `postgres://db.example:5432`.
#[must_use]
pub fn addresses(target: &DatabaseTarget) -> Vec<String> {
    let mut addresses = Vec::new();
    for Endpoint { host, port } in &target.endpoints {
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let address = format!("{}://{host}:{port}", target.driver);
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}
