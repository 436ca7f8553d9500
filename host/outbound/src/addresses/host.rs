//! Hosts and ports: an operator's patterns, compared with the hosts that a component wants to dial.
//!
//! This file prevents a second spelling of a host from passing a check. `0x7f.1`, `2130706433` and
//! `127.1` are the address 127.0.0.1, full-width digits are digits, and `DB.example.` is
//! `db.example`. A text without a canonical spelling is not a host.

use bulkhead_wire::failure::quoted;
use ipnet::{IpNet, Ipv4Net};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Maximum length of a host's name in bytes (RFC 1035).
const LONGEST_NAME: usize = 253;

/// A host in its canonical spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerHost {
    /// Lower-case ASCII, without a final dot.
    Name(String),
    /// Never an IPv4 address in the form of an IPv6 address.
    Address(IpAddr),
}

impl ServerHost {
    /// Parses any spelling, with or without brackets around an IPv6 address. `None`: the text is
    /// not a host.
    pub fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        if bare.contains(':') {
            let address: Ipv6Addr = bare.parse().ok()?;
            return Some(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        match url::Host::parse(text).ok()? {
            url::Host::Ipv4(address) => Some(Self::Address(address.into())),
            url::Host::Ipv6(address) => Some(Self::Address(IpAddr::V6(address).to_canonical())),
            url::Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                is_domain(name).then(|| Self::Name(name.to_owned()))
            }
        }
    }
}

impl From<IpAddr> for ServerHost {
    fn from(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

/// Returns whether `name` is a domain name. Stricter than the URL standard, because printed shell
/// commands contain names.
fn is_domain(name: &str) -> bool {
    let letter = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
    };
    name.len() <= LONGEST_NAME
        && name.split('.').all(|label| !label.is_empty() && label.bytes().all(letter))
}

impl fmt::Display for ServerHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// The target server of an HTTP request. Displayed as `https://login.example.com:443`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// With TLS.
    pub tls: bool,
    /// The host.
    pub host: ServerHost,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http{}://{}:{}", if self.tls { "s" } else { "" }, self.host, self.port)
    }
}

/// A directory's server. Displayed as `ldaps://dc1.example.com:636`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdapServer {
    /// With TLS from the start.
    pub tls: bool,
    /// The host.
    pub host: ServerHost,
    /// The port.
    pub port: u16,
}

impl fmt::Display for LdapServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ldap{}://{}:{}", if self.tls { "s" } else { "" }, self.host, self.port)
    }
}

/// The hosts of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// A single host.
    Name(String),
    /// All hosts below a domain, without the domain itself: `*.example.com`.
    Below(String),
    /// Literal addresses of a range. Names that resolve into the range are not covered.
    Network(IpNet),
}

impl HostPattern {
    /// Parses a name, `*.example.com`, an address or a range.
    ///
    /// # Errors
    /// The text, and the expected forms.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let found = match text.strip_prefix("*.") {
            Some(domain) => match ServerHost::parse(domain) {
                Some(ServerHost::Name(domain)) => Some(Self::Below(domain)),
                _ => None,
            },
            None if text.contains('/') => network(text).map(Self::Network),
            None => ServerHost::parse(text).map(Self::from),
        };
        found.ok_or_else(|| {
            format!(
                "{} is not a host: give a name, *.example.com, an address or a range such as \
                 10.0.0.0/8",
                quoted(text)
            )
        })
    }

    /// Returns the host if the pattern covers a single host.
    pub fn single(&self) -> Option<ServerHost> {
        match self {
            Self::Name(name) => Some(ServerHost::Name(name.clone())),
            Self::Network(one) if one.prefix_len() == one.max_prefix_len() => {
                Some(ServerHost::Address(one.addr()))
            }
            Self::Below(_) | Self::Network(_) => None,
        }
    }

    /// Returns whether the pattern covers `host`.
    pub fn covers(&self, host: &ServerHost) -> bool {
        match (self, host) {
            (Self::Name(own), ServerHost::Name(name)) => own == name,
            (Self::Below(domain), ServerHost::Name(name)) => name
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            (Self::Network(network), ServerHost::Address(address)) => network.contains(address),
            _ => false,
        }
    }
}

impl From<ServerHost> for HostPattern {
    fn from(host: ServerHost) -> Self {
        match host {
            ServerHost::Name(name) => Self::Name(name),
            ServerHost::Address(address) => Self::Network(IpNet::from(address)),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Below(domain) => write!(f, "*.{domain}"),
            Self::Network(one) if one.prefix_len() == one.max_prefix_len() => {
                ServerHost::Address(one.addr()).fmt(f)
            }
            Self::Network(IpNet::V4(range)) => write!(f, "{range}"),
            Self::Network(IpNet::V6(range)) => write!(f, "[{range}]"),
        }
    }
}

/// Parses a range, or an address as a range of a single address. Clears the bits behind the prefix,
/// and converts IPv4 addresses in the form of IPv6 addresses to IPv4.
pub fn network(text: &str) -> Option<IpNet> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let range = match bare.contains('/') {
        true => bare.parse::<IpNet>().ok()?.trunc(),
        false => match ServerHost::parse(bare)? {
            ServerHost::Address(address) => IpNet::from(address),
            ServerHost::Name(_) => return None,
        },
    };
    let (IpNet::V6(six), IpAddr::V4(four)) = (range, range.addr().to_canonical()) else {
        return Some(range);
    };
    let prefix = six.prefix_len().checked_sub(96);
    Some(prefix.and_then(|prefix| Ipv4Net::new(four, prefix).ok()).map_or(range, IpNet::V4))
}

/// The parts of `scheme://host:port`. The port is optional.
pub struct EndpointPattern<'a> {
    /// The text before `://`.
    pub scheme: &'a str,
    /// The hosts.
    pub host: HostPattern,
    /// The port, if written.
    pub port: Option<u16>,
}

impl<'a> EndpointPattern<'a> {
    /// Parses `scheme://host:port`.
    ///
    /// # Errors
    /// The fault of the text, and the expected form.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let form = "write scheme://host:port";
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| format!("{} has no scheme; {form}", quoted(text)))?;
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').unwrap_or(rest))),
            None => match rest.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => {
                    return Err(format!(
                        "{} is not a host: put an IPv6 address in brackets; {form}",
                        quoted(rest)
                    ));
                }
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        Ok(Self {
            scheme,
            host: HostPattern::parse(host)?,
            port: port.map(parse_port).transpose()?,
        })
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    let number = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let port = number.and_then(|text| text.parse().ok()).filter(|port| *port > 0);
    port.ok_or_else(|| format!("{} is not a port from 1 to 65535", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        HostPattern::parse(text).unwrap()
    }

    #[test]
    fn a_host_has_one_spelling() {
        for text in [
            "127.0.0.1",
            "127.1",
            "0x7f.1",
            "2130706433",
            "１２７.0.0.1",
            "[::ffff:127.0.0.1]",
            "127.0.0.1.",
        ] {
            assert_eq!(ServerHost::parse(text).unwrap().to_string(), "127.0.0.1", "{text}");
        }
        for text in ["DB.Example", "db.example.", "ｄｂ.example", "%64b.example"] {
            assert_eq!(ServerHost::parse(text).unwrap().to_string(), "db.example", "{text}");
        }
        assert_eq!(
            ServerHost::parse("bücher.example").unwrap().to_string(),
            "xn--bcher-kva.example"
        );
        assert_eq!(ServerHost::parse("FD00:0::1").unwrap().to_string(), "[fd00::1]");
    }

    #[test]
    fn an_ambiguous_text_is_not_a_host() {
        let long = "a.".repeat(200);
        let wrong = [
            "",
            ".",
            "a..b",
            "a b",
            "a'b",
            "a/b",
            "a@b",
            "a?b",
            "a#b",
            "fe80::1%eth0",
            "1.2.3.4.5",
            "$(x)",
            "*",
        ];
        for text in
            wrong.into_iter().chain([long.as_str(), "256.1.1.1", "a\nb", "[::1", "::1]", "a%00b"])
        {
            assert_eq!(ServerHost::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn subdomain_pattern_excludes_domain_and_lookalike_suffix() {
        let below = pattern("*.Example.com");
        for (host, covered) in [
            ("b.example.com", true),
            ("a.b.example.com.", true),
            ("example.com", false),
            ("evilexample.com", false),
        ] {
            assert_eq!(below.covers(&ServerHost::parse(host).unwrap()), covered, "{host}");
        }
        assert!(!pattern("example.com").covers(&ServerHost::parse("a.example.com").unwrap()));
    }

    #[test]
    fn address_range_covers_only_literal_addresses() {
        let range = pattern("10.1.2.3/16");
        assert_eq!(range.to_string(), "10.1.0.0/16");
        assert!(range.covers(&ServerHost::parse("10.1.255.1").unwrap()));
        assert!(range.covers(&ServerHost::parse("::ffff:10.1.0.1").unwrap()));
        assert!(!range.covers(&ServerHost::parse("10.2.0.1").unwrap()));
        assert!(!range.covers(&ServerHost::parse("db.example").unwrap()));
        assert_eq!(network("::ffff:10.1.2.3/112").unwrap().to_string(), "10.1.0.0/16");
        assert_eq!(network("fd00::1/8").unwrap().to_string(), "fd00::/8");
    }
}
