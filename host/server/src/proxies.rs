//! Identification of the client behind reverse proxies.
//!
//! This file prevents a client from forging `X-Forwarded-For`, to use a token bound to another
//! address or to appear in the audit log as another client. The header counts only if the peer of
//! the connection is a trusted proxy. The header is read from its end, where each proxy appends the
//! address of its peer: the first hop that is not a trusted proxy is the client. The client
//! controls the text before that hop, which is ignored.

use bulkhead_wire::failure::{Failure, quoted};
use hyper::HeaderMap;
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The only header that is read. `Forwarded` and `X-Real-IP` are ignored: with 2 headers, a
/// contradiction between them would have no correct answer.
const HEADER: &str = "x-forwarded-for";

/// Maximum number of trusted proxies in a chain. A longer chain is a loop.
const CHAIN_MAX: usize = 32;

/// The origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionOrigin {
    /// A network address.
    Network(SocketAddr),
    /// A Unix socket. Its clients are on this machine and have no address. A trusted 127.0.0.1 does
    /// not make them trusted proxies.
    Unix {
        /// The configuration declares the clients of this socket to be trusted proxies.
        is_proxy: bool,
    },
}

/// Address used for the clients of a Unix socket.
const UNIX_CLIENT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl ConnectionOrigin {
    /// Returns the address used for this origin.
    #[must_use]
    pub fn address(self) -> SocketAddr {
        match self {
            Self::Network(address) => address,
            Self::Unix { .. } => UNIX_CLIENT_ADDRESS,
        }
    }
}

impl From<SocketAddr> for ConnectionOrigin {
    fn from(address: SocketAddr) -> Self {
        Self::Network(address)
    }
}

/// The networks of the trusted proxies. If empty, the client is always the peer of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Parses networks such as `10.0.0.0/8`, `2001:db8::/32` or `192.0.2.7`.
    ///
    /// # Errors
    /// The invalid text and the text to write instead. A network that contains every client is
    /// refused too.
    pub fn new<'a>(networks: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        networks.into_iter().map(parse_network).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether no proxy is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the address of the client that sent a request over a connection from `peer`. The
    /// port is 0 unless the client is the peer itself.
    ///
    /// # Errors
    /// 400 if a trusted proxy sends a header from which the client cannot be determined.
    pub fn client(
        &self,
        peer: impl Into<ConnectionOrigin>,
        headers: &HeaderMap,
    ) -> Result<SocketAddr, Failure> {
        let peer = peer.into();
        let mut lines = headers.get_all(HEADER).iter().rev().peekable();
        if lines.peek().is_none() || !self.is_proxy(peer) {
            return Ok(peer.address());
        }
        let mut farthest = peer.address();
        let mut seen = 0;
        for line in lines {
            for written in line.as_bytes().rsplit(|byte| *byte == b',') {
                let address = parse_hop(written).ok_or_else(|| no_address(written))?;
                farthest = SocketAddr::new(address, 0);
                seen += 1;
                if !self.trusts(address) {
                    return Ok(farthest);
                }
                if seen > CHAIN_MAX {
                    return Err(malformed(&format!(
                        "the list ends with more than {CHAIN_MAX} trusted proxies"
                    )));
                }
            }
        }
        // All hops are trusted proxies: the first proxy of the chain is the client.
        Ok(farthest)
    }

    /// Returns whether the peer of a connection is a trusted proxy.
    #[must_use]
    pub fn is_proxy(&self, peer: ConnectionOrigin) -> bool {
        match peer {
            ConnectionOrigin::Network(address) => self.trusts(address.ip()),
            ConnectionOrigin::Unix { is_proxy } => is_proxy,
        }
    }

    /// Returns whether `address` is a trusted proxy.
    #[must_use]
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// The networks as the configuration writes them.
impl fmt::Display for TrustedProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let networks: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&networks.join(", "))
    }
}

fn parse_network(text: &str) -> Result<IpNet, String> {
    let network =
        text.parse().or_else(|_| text.parse().map(|address: IpAddr| IpNet::from(address)));
    let network = network.map_err(|_| {
        format!(
            "{} is neither an address nor a network; write for example \"10.0.0.0/8\" or \
             \"192.0.2.7\"",
            quoted(text)
        )
    })?;
    if network.prefix_len() == 0 {
        return Err(format!(
            "{} would trust every client's word; name the networks of your proxies",
            quoted(text)
        ));
    }
    if network.network() != network.addr() {
        let meant = network.trunc();
        return Err(format!(
            "{} sets bits behind its prefix; write \"{meant}\", or a single address",
            quoted(text)
        ));
    }
    if matches!(network.addr(), IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        return Err(format!(
            "{} is an IPv4 network in IPv6 clothes, which no peer wears; write IPv4",
            quoted(text)
        ));
    }
    Ok(network)
}

/// Parses a hop: `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]` or
/// `[2001:db8::1]:4711`.
fn parse_hop(written: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(written).ok()?.trim_matches([' ', '\t']);
    let bare = || text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let in_brackets =
        || Some(IpAddr::from(text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?));
    // A proxy's IPv6 socket shows an IPv4 client as a mapped address.
    bare().or_else(with_port).or_else(in_brackets).map(|address| address.to_canonical())
}

fn no_address(written: &[u8]) -> Failure {
    malformed(&format!("{} is not an address", quoted(&String::from_utf8_lossy(written))))
}

fn malformed(why: &str) -> Failure {
    Failure::invalid(format!(
        "the X-Forwarded-For of this request has no valid client address: {why}; let the proxy \
         append the client's address"
    ))
}

#[cfg(test)]
mod tests;
