//! The second check of every outbound connection: the resolved address.
//!
//! The attack: a name that an operator trusts, or a connection URL that a user wrote, resolves to
//! the cloud's metadata service, to a neighbour inside the network, or to this very server, and
//! hands out what only the host may have. A name is resolved once, every address is checked, and
//! the connection goes to an address that was.

use crate::grants::{Host, Part};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// What an address is to whoever wants to dial it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Dialled once its name is granted.
    Public,
    /// Dialled only with a grant for its range. The word says what it is.
    NeedsGrant(&'static str),
    /// Never dialled, whatever was granted.
    Forbidden(&'static str),
}

use Class::{Forbidden, NeedsGrant};

const METADATA: Class = Forbidden("a cloud's metadata address");
const LINK_LOCAL: Class = Forbidden("a link-local address (cloud metadata lives there)");
const MULTICAST: Class = Forbidden("a multicast or broadcast address");
const UNSPECIFIED: Class = Forbidden("an unspecified address");
const LOOPBACK: Class = NeedsGrant("a loopback address");
const PRIVATE: Class = NeedsGrant("a private address");
const SPECIAL: Class = NeedsGrant("an address of a range for special uses");

/// IPv4, as prefix, its bits and what it is; the metadata services of Azure, Alibaba and Oracle
/// stand outside of the link-local range. The rest is IANA's registry of special-purpose addresses.
const RANGES_V4: [([u8; 4], u8, Class); 19] = [
    ([168, 63, 129, 16], 32, METADATA),
    ([100, 100, 100, 200], 32, METADATA),
    ([192, 0, 0, 192], 32, METADATA),
    ([169, 254, 0, 0], 16, LINK_LOCAL),
    ([224, 0, 0, 0], 4, MULTICAST),
    ([255, 255, 255, 255], 32, MULTICAST),
    ([0, 0, 0, 0], 8, UNSPECIFIED),
    ([127, 0, 0, 0], 8, LOOPBACK),
    ([10, 0, 0, 0], 8, PRIVATE),
    ([172, 16, 0, 0], 12, PRIVATE),
    ([192, 168, 0, 0], 16, PRIVATE),
    ([100, 64, 0, 0], 10, PRIVATE),
    ([192, 0, 0, 0], 24, SPECIAL),
    ([192, 0, 2, 0], 24, SPECIAL),
    ([192, 88, 99, 0], 24, SPECIAL),
    ([198, 18, 0, 0], 15, SPECIAL),
    ([198, 51, 100, 0], 24, SPECIAL),
    ([203, 0, 113, 0], 24, SPECIAL),
    ([240, 0, 0, 0], 4, SPECIAL),
];

/// IPv6, likewise; Amazon's metadata service is outside of the link-local range.
const RANGES_V6: [([u16; 8], u8, Class); 11] = [
    ([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254], 128, METADATA),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, LINK_LOCAL),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, MULTICAST),
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, UNSPECIFIED),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, LOOPBACK),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, PRIVATE),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, PRIVATE),
    ([0x0064, 0xff9b, 1, 0, 0, 0, 0, 0], 48, SPECIAL),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, SPECIAL),
    ([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0], 32, SPECIAL),
    ([0x0100, 0, 0, 0, 0, 0, 0, 0], 64, SPECIAL),
];

fn ranges() -> impl Iterator<Item = (IpNet, Class)> {
    let four =
        RANGES_V4.into_iter().map(|(address, bits, class)| (IpAddr::from(address), bits, class));
    let six =
        RANGES_V6.into_iter().map(|(address, bits, class)| (IpAddr::from(address), bits, class));
    four.chain(six)
        .filter_map(|(address, bits, class)| Some((IpNet::new(address, bits).ok()?, class)))
}

/// The strictest class of the ranges that hold the address.
fn class(address: IpAddr) -> Class {
    let found = ranges().filter(|(range, _)| range.contains(&address)).map(|(_, class)| class);
    found.max().unwrap_or(Class::Public)
}

/// Why no grant may be for the range: all of it is never dialled.
pub(crate) fn forbidden_range(range: &IpNet) -> Option<&'static str> {
    ranges().find_map(|(known, class)| match class {
        Forbidden(why) if known.contains(range) => Some(why),
        _ => None,
    })
}

/// The address, and those that a translator or tunnel makes of it: all of them are reached by
/// dialling it.
fn reached(address: IpAddr) -> Vec<IpAddr> {
    let address = address.to_canonical();
    let mut reached = vec![address];
    if let IpAddr::V6(six) = address {
        reached.extend(embedded(six).into_iter().flatten().map(IpAddr::V4));
    }
    reached
}

/// IPv4 addresses inside of an IPv6 one: `::a.b.c.d`, `::ffff:0:a.b.c.d` (RFC 2765),
/// `64:ff9b::a.b.c.d` (RFC 6052), `64:ff9b:1::/48` (RFC 8215; at its end, or behind the prefix and
/// around the byte that is left out there) and `2002:…` (RFC 3056).
fn embedded(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let of = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match (a, b, c, d, e, f) {
        // `::` and `::1` are addresses of their own.
        (0, 0, 0, 0, 0, 0) if (g, h) != (0, 0) && (g, h) != (0, 1) => [of(g, h), None],
        (0, 0, 0, 0, 0xffff, 0) | (0x64, 0xff9b, 0, 0, 0, 0) => [of(g, h), None],
        // Of the two readings the second is one only where it is no address of 0.0.0.0/8.
        (0x64, 0xff9b, 1, ..) => {
            [of(g, h), (d > 0xff).then(|| of(d, (e << 8) | (f >> 8))).flatten()]
        }
        (0x2002, high, low, ..) => [of(high, low), None],
        _ => [None, None],
    }
}

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
        let reached = reached(to.ip());
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

    /// Whether somebody who dials `to` is answered by this server.
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
mod tests {
    use super::*;

    const HOSTILE: [&str; 17] = [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1:a9fe:a9:fe00::",
        "2002:a9fe:a9fe::1",
        "fd00:ec2::254",
        "fe80::1",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::",
    ];

    const PRIVATE: [&str; 19] = [
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "203.0.113.9",
        "240.0.0.1",
        "::1",
        "fd00::1",
        "fec0::1",
        "2001::1",
        "2001:db8::1",
        "64:ff9b:1::808:808",
        "64:ff9b::10.1.2.3",
        "::ffff:127.0.0.1",
    ];

    fn within(networks: &[&str]) -> Reach {
        let networks = networks.iter().map(|range| range.parse().unwrap()).collect();
        Reach {
            mount: "m/".into(),
            part: Part::Engine,
            networks,
            ceiling: None,
            everything: false,
            own: Arc::new([]),
        }
    }

    fn everything() -> Reach {
        Reach { everything: true, ..within(&["0.0.0.0/0", "::/0"]) }
    }

    fn at(address: &str, port: u16) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), port)
    }

    #[test]
    fn metadata_and_link_local_addresses_are_refused_in_every_spelling_whatever_is_granted() {
        for text in HOSTILE {
            let admitted = everything().admit(at(text, 5432));
            assert!(matches!(admitted, Err(Refused::Forbidden(_))), "{text}: {admitted:?}");
        }
    }

    #[test]
    fn private_loopback_and_special_addresses_need_a_grant_or_an_officials_own_configuration() {
        for text in PRIVATE {
            let refused = within(&["9.0.0.0/8"]).admit(at(text, 5432));
            assert!(matches!(refused, Err(Refused::Ungranted(..))), "{text}: {refused:?}");
            let own = IpNet::from(text.parse::<IpAddr>().unwrap().to_canonical()).to_string();
            assert_eq!(within(&[&own]).admit(at(text, 5432)), Ok(()), "{text}");
            assert_eq!(everything().admit(at(text, 5432)), Ok(()), "{text}");
        }
        assert_eq!(
            within(&["10.0.0.0/8"]).admit(at("64:ff9b::10.1.2.3", 1)),
            Ok(()),
            "it leads there"
        );
    }

    #[test]
    fn public_addresses_need_no_grant_of_their_own() {
        for text in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::8.8.8.8"]
        {
            assert_eq!(within(&[]).admit(at(text, 5432)), Ok(()), "{text}");
        }
    }

    #[test]
    fn the_server_never_dials_itself() {
        let listening = |own: &str| Reach { own: Arc::new([own.parse().unwrap()]), ..everything() };
        let ourselves = Err(Refused::Forbidden("this very server"));
        for (own, to) in [
            ("127.0.0.1:8200", "127.0.0.1"),
            ("127.0.0.1:8200", "::ffff:127.0.0.1"),
            ("127.0.0.1:8200", "64:ff9b::127.0.0.1"),
            ("10.0.0.5:8200", "10.0.0.5"),
            ("0.0.0.0:8200", "127.0.0.1"),
            ("0.0.0.0:8200", "127.9.9.9"),
            ("[::]:8200", "127.0.0.1"),
            ("[::]:8200", "::1"),
        ] {
            assert_eq!(listening(own).admit(at(to, 8200)), ourselves, "{own} {to}");
            assert_eq!(
                listening(own).admit(at(to, 5432)),
                Ok(()),
                "another port of {to} is somebody else"
            );
        }
        assert_eq!(listening("127.0.0.1:8200").admit(at("127.0.0.2", 8200)), Ok(()));
        assert_eq!(
            listening("0.0.0.0:8200").admit(at("192.0.2.77", 8200)),
            Ok(()),
            "no address of this machine"
        );
    }

    #[test]
    fn an_address_of_this_machine_is_known_without_sending_anything() {
        assert!(is_of_this_machine(at("127.0.0.1", 9)));
        assert!(!is_of_this_machine(at("192.0.2.77", 9)));
    }

    #[tokio::test]
    async fn a_host_is_resolved_in_its_one_spelling_and_each_address_is_checked() {
        for host in ["169.254.169.254", "0xa9fea9fe", "2852039166", "[fe80::1]", "169.254.43518"] {
            assert!(
                matches!(resolve(host, 5432, &everything()).await, Err(Refused::Forbidden(_))),
                "{host}"
            );
        }
        assert_eq!(resolve("fe80::1%lo", 5432, &everything()).await, Err(Refused::Unknown));
        assert!(matches!(
            resolve("localhost", 5432, &within(&[])).await,
            Err(Refused::Ungranted(..))
        ));
        assert!(resolve("localhost", 5432, &within(&["127.0.0.0/8", "::1/128"])).await.is_ok());
    }
}
