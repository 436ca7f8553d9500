//! The name that a server's certificate must bear.

use bulkhead_wire::failure::quoted;
use rustls::pki_types::ServerName;
use std::fmt;

/// A text that no certificate can bear as a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidServerName(String);

/// Reads a host name or an IP address; an IPv6 address may stand in brackets.
///
/// # Errors
/// A text that is neither.
pub fn server_name(text: &str) -> Result<ServerName<'static>, InvalidServerName> {
    let name = text.trim_matches(['[', ']']);
    ServerName::try_from(name.to_owned()).map_err(|_| InvalidServerName(quoted(name)))
}

impl fmt::Display for InvalidServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is neither a host name nor an address", self.0)
    }
}
