//! The second check of every outbound connection: the resolved address.
//!
//! The attack: a name that an operator trusts, or a connection URL that a user wrote, resolves to
//! the cloud's metadata service, to a neighbour inside the network, or to this very server, and
//! hands out what only the host may have. A name is resolved once, every address is checked, and
//! the connection goes to an address that was.

use super::address::Class::{self, Forbidden, NeedsGrant};
use super::address::{class, reached_by};
use super::host::Host;
use super::rights::Part;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// Which addresses one target may resolve to.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// Whose grants those are, for refusals.
    pub(crate) mount: Arc<str>,
    /// What of the mount dials, for refusals.
    pub(crate) part: Part,
    /// Ranges that the mount was granted.
    pub(crate) networks: Vec<IpNet>,
    /// Ranges that the plugin's entry in the catalog allows at most, for refusals; `None`: it has
    /// no ceiling.
    pub(crate) ceiling: Option<Vec<IpNet>>,
    /// Private ones too: an official component dials what the mount's own configuration names.
    pub(crate) everything: bool,
    /// Where this server listens.
    pub(crate) own: Arc<[SocketAddr]>,
}

impl Reach {
    /// Checks one address.
    ///
    /// # Errors
    /// Why it is not dialled.
    pub(crate) fn admit(&self, to: SocketAddr) -> Result<(), Refused> {
        let reached = reached_by(to.ip());
        let strictest = reached.iter().copied().map(class).max().unwrap_or(Class::Public);
        if let Forbidden(why) = strictest {
            return Err(Refused::Forbidden(why));
        }
        if reached.iter().any(|ip| self.is_own(SocketAddr::new(*ip, to.port()))) {
            return Err(Refused::Forbidden("this very server"));
        }
        let is_granted =
            self.networks.iter().any(|range| reached.iter().any(|ip| range.contains(ip)));
        match strictest {
            NeedsGrant(what) if !self.everything && !is_granted => {
                Err(Refused::Ungranted(to.ip().to_canonical(), what))
            }
            _ => Ok(()),
        }
    }

    /// Whether it is this server that answers at `to`.
    fn is_own(&self, to: SocketAddr) -> bool {
        self.own.iter().filter(|own| own.port() == to.port()).any(|own| {
            let own = own.ip().to_canonical();
            own == to.ip()
                || own.is_unspecified() && (to.ip().is_loopback() || is_of_this_machine(to))
        })
    }
}

/// Whether an address is one of this machine's: the two ends of a socket that is connected to it
/// are then the same. Connecting a datagram socket sends nothing.
fn is_of_this_machine(to: SocketAddr) -> bool {
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let near = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    // Where there is no way to it, there is no way to ourselves either.
    near.is_ok_and(|near| near.ip() == to.ip())
}

/// Resolves `host` and returns its addresses, or why it may not or cannot be dialled. One address
/// that may not is enough.
pub(crate) async fn resolve(
    host: &str,
    port: u16,
    reach: &Reach,
) -> Result<Vec<SocketAddr>, Refused> {
    let addresses: Vec<SocketAddr> = match Host::parse(host).ok_or(Refused::Unknown)? {
        Host::Address(address) => vec![SocketAddr::new(address, port)],
        Host::Name(name) => tokio::net::lookup_host((name.as_str(), port))
            .await
            .map_err(|_| Refused::Unknown)?
            .collect(),
    };
    addresses.iter().try_for_each(|address| reach.admit(*address))?;
    if addresses.is_empty() { Err(Refused::Unknown) } else { Ok(addresses) }
}

/// Why [`resolve`] gave no address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The name has no address.
    Unknown,
    /// One of its addresses is never dialled.
    Forbidden(&'static str),
    /// One of its addresses needs a grant; with what it is.
    Ungranted(IpAddr, &'static str),
}

#[cfg(test)]
mod tests;
