//! Routes of components' HTTP requests, directly or through the network's proxy, and authorities
//! trusted in addition to the public authorities.
//!
//! This file prevents showing the proxy's credentials in a text, and reaching a cloud's metadata
//! service through a proxy that would resolve the name of the service.

use crate::addresses::{HostPattern, Origin, ServerHost};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_tls::{Authorities, CertificateDer};
use bulkhead_wire::failure::quoted;
use hyper::header::HeaderValue;
use percent_encoding::percent_decode_str;
use std::fmt;
use std::sync::Arc;

/// Names of clouds' metadata services.
const METADATA_NAMES: [&str; 5] = [
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.goog",
    "metadata.google.internal",
];

/// Proxy, bypasses and extra authorities for components' HTTP. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct OutboundNetwork {
    proxy: Option<Arc<HttpProxy>>,
    bypasses: Arc<[ProxyBypass]>,
    authorities: Arc<[CertificateDer<'static>]>,
}

impl OutboundNetwork {
    /// Creates the settings. Requests go through `proxy`, if there is a proxy, unless a bypass
    /// covers the server. A connection trusts `authorities` in addition to the public authorities,
    /// unless the component gives authorities of its own.
    ///
    /// # Errors
    /// The position, counted from 1, of an entry that is not an authority.
    pub fn new(
        proxy: Option<HttpProxy>,
        bypasses: Vec<ProxyBypass>,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Result<Self, usize> {
        Authorities::only(&authorities).map_err(|fault| fault.position)?;
        Ok(Self {
            proxy: proxy.map(Arc::new),
            bypasses: bypasses.into(),
            authorities: authorities.into(),
        })
    }

    /// Returns the proxy for requests to `origin`, if any.
    pub fn proxy_to(&self, origin: &Origin) -> Option<Arc<HttpProxy>> {
        let passes_by =
            is_this_machine(&origin.host) || self.bypasses.iter().any(|it| it.covers(origin));
        self.proxy.clone().filter(|_| !passes_by)
    }

    /// Returns the authorities trusted in addition to the public authorities.
    pub fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.authorities
    }
}

/// An HTTP proxy. Bulkhead speaks to the proxy in clear. `Display` and `Debug` show only host and
/// port.
#[derive(Clone)]
pub struct HttpProxy {
    pub(crate) host: ServerHost,
    pub(crate) port: u16,
    /// Credentials, sent to the proxy only.
    pub(crate) authorization: Option<HeaderValue>,
}

impl HttpProxy {
    /// Parses `http://host:port`. `http://` and a final `/` are optional, and `user:password@` may
    /// precede the host.
    ///
    /// # Errors
    /// The fault of the text, without quoting the text, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let full_url =
            if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = url::Url::parse(&full_url).map_err(|_| {
            "this is not a URL of a proxy; write http://proxy.example:3128".to_owned()
        })?;
        match url.scheme() {
            "http" => {}
            "https" => {
                return Err(
                    "the connection to a proxy is in the clear, with TLS to servers inside; write \
                     http:// and the port of the proxy"
                        .to_owned(),
                );
            }
            _ => return Err("only HTTP proxies are served; write http://host:port".to_owned()),
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err("a proxy has no path; write http://host:port alone".to_owned());
        }
        let host = url.host_str().and_then(ServerHost::parse);
        let proxy = Self {
            host: host.ok_or_else(|| "the host is missing; write http://host:port".to_owned())?,
            port: url.port().unwrap_or(80),
            authorization: None,
        };
        match (url.username(), url.password()) {
            ("", None) => Ok(proxy),
            (user, password) => {
                let decoded = |part| percent_decode_str(part).collect::<Vec<u8>>();
                let credentials = [decoded(user), decoded(password.unwrap_or_default())];
                proxy.with_credentials(&credentials.join(&b':'))
            }
        }
    }

    /// Sets the credentials `user:password`.
    ///
    /// # Errors
    /// The fault of the credentials, without quoting the credentials.
    pub fn with_credentials(self, credentials: &[u8]) -> Result<Self, String> {
        let has_user = credentials.iter().position(|byte| *byte == b':').is_some_and(|at| at > 0);
        if !has_user || credentials.iter().any(u8::is_ascii_control) {
            return Err("the credentials are a single line, user:password".to_owned());
        }
        let text = format!("Basic {}", STANDARD.encode(credentials));
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| "the credentials cannot be sent in a header".to_owned())?;
        value.set_sensitive(true);
        Ok(Self { authorization: Some(value), ..self })
    }

    /// Returns whether the proxy has credentials.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        self.authorization.is_some()
    }
}

impl fmt::Display for HttpProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for HttpProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

/// Servers reached without the proxy: a name and its subdomains, only the subdomains of a name, a
/// range of literal addresses, or every server; on all ports or on a single port.
#[derive(Clone, Debug)]
pub struct ProxyBypass {
    /// `None`: every server.
    pattern: Option<HostPattern>,
    port: Option<u16>,
}

impl ProxyBypass {
    /// Parses `corp.example`, `.corp.example`, `*.corp.example`, `10.0.0.0/8`, `10.1.2.3`,
    /// `[fd00::1]:8443`, `corp.example:8443` or `*`.
    ///
    /// # Errors
    /// The text, and the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{} is not a host; write for example \".corp.example\", \"10.0.0.0/8\" or \
                 \"host:8443\"",
                quoted(text)
            )
        };
        if text == "*" {
            return Ok(Self { pattern: None, port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
                (host, Some(port))
            }
            _ => (text, None),
        };
        let below = host.strip_prefix('.').map(|domain| format!("*.{domain}"));
        let pattern = HostPattern::parse(below.as_deref().unwrap_or(host)).map_err(|_| wrong())?;
        Ok(Self { pattern: Some(pattern), port })
    }

    fn covers(&self, origin: &Origin) -> bool {
        let is_host = match &self.pattern {
            None => true,
            Some(HostPattern::Name(name)) => {
                HostPattern::Name(name.clone()).covers(&origin.host)
                    || HostPattern::Below(name.clone()).covers(&origin.host)
            }
            Some(pattern) => pattern.covers(&origin.host),
        };
        is_host && self.port.is_none_or(|port| port == origin.port)
    }
}

/// Returns whether `host` is loopback, by address or name. The proxy would reach its own loopback.
fn is_this_machine(host: &ServerHost) -> bool {
    match host {
        ServerHost::Address(address) => address.is_loopback(),
        ServerHost::Name(name) => name == "localhost" || name.ends_with(".localhost"),
    }
}

/// Returns whether `name` is a name of a cloud's metadata service.
pub(crate) fn is_metadata(name: &str) -> bool {
    METADATA_NAMES.contains(&name)
}

#[cfg(test)]
mod tests;
