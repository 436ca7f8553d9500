//! The address of a server, from `-address` or the environment.

use hyper::Uri;
use std::fmt;
use std::path::PathBuf;

/// The address of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ServerAddress {
    /// A TCP address.
    Network {
        /// Host, with brackets around an IPv6 address.
        host: String,
        /// `host:port`.
        authority: String,
        /// `https`.
        is_encrypted: bool,
    },
    /// A Unix socket of this machine.
    Unix(PathBuf),
}

impl ServerAddress {
    /// Parses `https://host[:port]`, `http://host[:port]` or `unix:///path`.
    ///
    /// # Errors
    /// A message about the invalid part of the address.
    pub(crate) fn parse(address: &str) -> Result<Self, String> {
        if let Some(path) = address.strip_prefix("unix://") {
            return match path.starts_with('/') {
                true => Ok(Self::Unix(path.into())),
                false => Err(format!(
                    "the address {address:?} has no whole path; write for example \
                     unix:///run/bulkhead.sock"
                )),
            };
        }
        let wrong = |why: &str| {
            format!(
                "the address {address:?} {why}; write for example \
                 https://bulkhead.example.com:8200 or http://127.0.0.1:8200"
            )
        };
        let uri: Uri = address.parse().map_err(|_| wrong("is not a URL"))?;
        let is_encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("does not begin with https:// or http://")),
        };
        let host =
            uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("has no host"))?;
        let authority =
            uri.authority().map(hyper::http::uri::Authority::as_str).unwrap_or_default();
        if authority.contains('@') {
            // The message does not repeat the address, because the user name may come with a
            // password.
            return Err(
                "the address has a user name; write for example https://HOST:8200".to_owned()
            );
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("has a path or query"));
        }
        let port = uri.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        let (host, authority) = (host.to_owned(), format!("{host}:{port}"));
        Ok(Self::Network { host, authority, is_encrypted })
    }

    /// Returns the value of the Host header.
    pub(super) fn host_header(&self) -> &str {
        match self {
            Self::Network { authority, .. } => authority,
            Self::Unix(_) => "localhost",
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { authority, is_encrypted: false, .. } => write!(f, "http://{authority}"),
            Self::Network { authority, is_encrypted: true, .. } => write!(f, "https://{authority}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}
