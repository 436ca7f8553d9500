//! The second check of every outbound connection: the resolved address.
//!
//! This file prevents server-side request forgery: a trusted name, or a connection URL written by a
//! user, resolves to the cloud's metadata service, to another machine inside the network, or to
//! this server, and yields data meant for the host alone. Bulkhead resolves a name once, checks
//! every address, and connects to a checked address.

use super::class::AddressClass::{self, Forbidden, NeedsGrant};
use super::class::{class, reachable_addresses};
use super::host::ServerHost;
use bulkhead_wire::failure::Failure;
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// The allowed addresses of a target.
#[derive(Clone, Debug)]
pub struct AllowedAddresses {
    /// Ranges granted to the mount.
    pub networks: Vec<IpNet>,
    /// Allows private addresses too: an official component dials servers that the mount's own
    /// configuration names.
    pub everything: bool,
    /// Listeners of this server.
    pub own: Arc<[SocketAddr]>,
    /// Completes a refusal.
    pub remedy: AddressRemedy,
}

/// The end of a refusal of an address: the missing grant, and the command that adds the grant.
#[derive(Clone)]
pub struct AddressRemedy(Arc<dyn Fn(IpAddr) -> String + Send + Sync>);

impl AddressRemedy {
    /// Creates a remedy from the text for an address.
    #[must_use]
    pub fn new(text: impl Fn(IpAddr) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(text))
    }
}

impl fmt::Debug for AddressRemedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddressRemedy")
    }
}

impl AllowedAddresses {
    /// Allows the addresses of these ranges, and public addresses.
    #[cfg(test)]
    pub(crate) fn within(networks: &[&str]) -> Self {
        Self {
            networks: networks.iter().map(|range| range.parse().unwrap()).collect(),
            everything: false,
            own: Arc::new([]),
            remedy: AddressRemedy::new(|address| format!("{address} is not granted")),
        }
    }

    /// Checks an address.
    ///
    /// # Errors
    /// The reason for not dialling the address.
    pub fn check_address(&self, to: SocketAddr) -> Result<(), AddressRefusal> {
        let reached = reachable_addresses(to.ip());
        let strictest = reached.iter().copied().map(class).max().unwrap_or(AddressClass::Public);
        if let Forbidden(why) = strictest {
            return Err(AddressRefusal::Forbidden(why));
        }
        if reached.iter().any(|ip| self.is_own(SocketAddr::new(*ip, to.port()))) {
            return Err(AddressRefusal::Forbidden("this very server"));
        }
        let is_granted =
            self.networks.iter().any(|range| reached.iter().any(|ip| range.contains(ip)));
        match strictest {
            NeedsGrant(what) if !self.everything && !is_granted => {
                Err(AddressRefusal::Ungranted(to.ip().to_canonical(), what))
            }
            _ => Ok(()),
        }
    }

    /// Returns the refusal of an address to which a granted name resolved, with the missing grant.
    /// `class` is the kind of address.
    pub fn refusal(&self, address: IpAddr, class: &str) -> Failure {
        Failure::denied(format!("{address} is {class}, and {}", (self.remedy.0)(address)))
    }

    /// Returns the code of the imports `sql` and `ldap` for a refusal, and its text.
    pub(crate) fn explain(&self, refused: AddressRefusal) -> (&'static str, String) {
        match refused {
            AddressRefusal::Unknown => ("unreachable", "the name has no address".to_owned()),
            AddressRefusal::Forbidden(why) => {
                ("forbidden-address", format!("the address is {why}, which is never dialled"))
            }
            AddressRefusal::Ungranted(address, what) => {
                let Failure { message, .. } = self.refusal(address, what);
                ("permission-denied", message)
            }
        }
    }

    /// Returns whether this server itself listens at `to`.
    fn is_own(&self, to: SocketAddr) -> bool {
        self.own.iter().filter(|own| own.port() == to.port()).any(|own| {
            let own = own.ip().to_canonical();
            own == to.ip()
                || own.is_unspecified() && (to.ip().is_loopback() || is_of_this_machine(to))
        })
    }
}

/// Returns whether `to` is an address of this machine: a socket connected to `to` then has the same
/// address at both ends. Connecting a datagram socket sends nothing.
fn is_of_this_machine(to: SocketAddr) -> bool {
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let near = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    // An unreachable address is not an address of this machine.
    near.is_ok_and(|near| near.ip() == to.ip())
}

/// Resolves `host` and returns its addresses. A single refused address refuses the whole name.
pub async fn resolve(
    host: &str,
    port: u16,
    reach: &AllowedAddresses,
) -> Result<Vec<SocketAddr>, AddressRefusal> {
    let addresses: Vec<SocketAddr> = match ServerHost::parse(host).ok_or(AddressRefusal::Unknown)? {
        ServerHost::Address(address) => vec![SocketAddr::new(address, port)],
        ServerHost::Name(name) => tokio::net::lookup_host((name.as_str(), port))
            .await
            .map_err(|_| AddressRefusal::Unknown)?
            .collect(),
    };
    addresses.iter().try_for_each(|address| reach.check_address(*address))?;
    if addresses.is_empty() { Err(AddressRefusal::Unknown) } else { Ok(addresses) }
}

/// The reason why [`resolve`] returned no address.
#[derive(Debug, PartialEq, Eq)]
pub enum AddressRefusal {
    /// The name has no address.
    Unknown,
    /// An address of the name is never dialled.
    Forbidden(&'static str),
    /// An address of the name needs a grant; the text is the kind of address.
    Ungranted(IpAddr, &'static str),
}

#[cfg(test)]
mod tests;
