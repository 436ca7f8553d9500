//! The second check of every outbound connection: the resolved address.
//!
//! The attack: a name that an operator trusts, or a connection URL that a user wrote, resolves to the
//! cloud's metadata service or to a link-local neighbour, and hands out the host's own credentials.
//! A name is resolved once, every address is checked, and the connection goes to an address that was.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Amazon's metadata service over IPv6, which is not in the link-local range.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254);

/// Metadata and platform services of Azure, Alibaba and Oracle, outside the link-local range.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];

/// Why an address is never dialled, whatever was granted; `None` when it may be.
pub(crate) fn forbidden(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(v4) => forbidden_v4(v4),
        IpAddr::V6(v6) => forbidden_v6(v6),
    }
}

fn forbidden_v4(address: Ipv4Addr) -> Option<&'static str> {
    if METADATA_V4.contains(&address) {
        Some("a cloud's metadata address")
    } else if address.is_link_local() {
        Some("a link-local address (cloud metadata lives there)")
    } else if address.is_multicast() || address.is_broadcast() {
        Some("a multicast or broadcast address")
    } else if address.is_unspecified() || address.octets().first() == Some(&0) {
        Some("an unspecified address")
    } else {
        None
    }
}

fn forbidden_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(why) = embedded_v4(address).and_then(forbidden_v4) {
        Some(why)
    } else if address.is_unicast_link_local() {
        Some("a link-local address (cloud metadata lives there)")
    } else if address == METADATA_V6 {
        Some("a cloud's metadata address")
    } else if address.is_multicast() || address.is_unspecified() {
        Some("a multicast or unspecified address")
    } else {
        None
    }
}

/// The IPv4 address that a translated or tunnelled one leads to: `::a.b.c.d`, `64:ff9b::a.b.c.d` (RFC 6052) and
/// `2002:…` (RFC 3056).
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b, c, d, e, f) {
        // `::` and `::1` are addresses of their own.
        (0, 0, 0, 0, 0, 0) if (g, h) != (0, 0) && (g, h) != (0, 1) => Some(of(g, h)),
        (0x64, 0xff9b, 0, 0, 0, 0) => Some(of(g, h)),
        (0x2002, high, low, ..) => Some(of(high, low)),
        _ => None,
    }
}

/// Resolves `host` and returns its addresses, or why it may not or cannot be dialled.
pub(crate) async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Refused> {
    let found = tokio::net::lookup_host((host, port)).await.map_err(|_| Refused::Unknown)?;
    let addresses: Vec<SocketAddr> = found.collect();
    for address in &addresses {
        if let Some(why) = forbidden(address.ip()) {
            return Err(Refused::Forbidden(why));
        }
    }
    if addresses.is_empty() { Err(Refused::Unknown) } else { Ok(addresses) }
}

/// Why [`resolve`] gave no address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The name has no address.
    Unknown,
    /// One of its addresses is never dialled.
    Forbidden(&'static str),
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;

    const HOSTILE: [&str; 13] = [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "fd00:ec2::254",
        "fe80::1",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "0.0.0.0",
        "224.0.0.1",
        "::",
    ];

    #[test]
    fn metadata_and_link_local_addresses_are_refused_in_every_spelling() {
        for text in HOSTILE {
            assert!(forbidden(text.parse().unwrap()).is_some(), "{text} was allowed");
        }
    }

    #[test]
    fn private_loopback_and_public_addresses_are_left_to_the_grants() {
        for text in ["10.1.2.3", "127.0.0.1", "192.168.1.1", "203.0.113.9", "::1", "2001:db8::1"] {
            assert_eq!(forbidden(text.parse().unwrap()), None, "{text}");
        }
    }

    #[tokio::test]
    async fn a_written_out_metadata_address_resolves_to_a_refusal() {
        assert!(matches!(resolve("169.254.169.254", 5432).await, Err(Refused::Forbidden(_))));
    }
}
