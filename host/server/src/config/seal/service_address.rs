//! The addresses of the services of seals.
//!
//! This file prevents a credential, or the key of the data, on a connection that other machines
//! read: plain HTTP is for loopback addresses alone.

use crate::config::findings::ConfigError;
use crate::config::section::ConfigValue;
use bulkhead_wire::failure::quoted;
use hyper::Uri;
use std::net::IpAddr;

/// Reads the address of a service, and returns the address in lower case. Plain HTTP is for
/// loopback addresses alone.
pub(super) fn read_address(value: &ConfigValue<'_>, example: &str) -> Result<String, ConfigError> {
    let text = value.url()?;
    let uri: Uri = text.parse().map_err(|_| value.error("is not a URL"))?;
    if uri.scheme_str() == Some("https") || is_loopback(&uri) {
        // The component accepts the scheme in lower case alone. The address has no path.
        return Ok(text.to_ascii_lowercase());
    }
    Err(value.error(format!(
        "{} is plain HTTP to another machine: the credentials and the key of the data would pass \
         in the clear; write {example}",
        quoted(&text)
    )))
}

/// Returns whether a URL names this machine.
pub(super) fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}
