//! The second check of every outbound connection: the resolved address.
//!
//! The attack: a name that an operator trusts, or a connection URL that a user wrote, resolves to the
//! cloud's metadata service or to a link-local neighbour, and hands out the host's own credentials.
//! A name is resolved once, every address is checked, and the connection goes to an address that was.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Amazon's metadata service over IPv6, which is not in the link-local range.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254);

/// Why an address is never dialled, whatever was granted; `None` when it may be.
pub(crate) fn forbidden(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(v4) => forbidden_v4(v4),
        IpAddr::V6(v6) => forbidden_v6(v6),
    }
}

fn forbidden_v4(address: Ipv4Addr) -> Option<&'static str> {
    if address.is_link_local() {
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
    if address.is_unicast_link_local() {
        Some("a link-local address (cloud metadata lives there)")
    } else if address == METADATA_V6 {
        Some("a cloud's metadata address")
    } else if address.is_multicast() || address.is_unspecified() {
        Some("a multicast or unspecified address")
    } else {
        None
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

    #[test]
    fn metadata_and_link_local_addresses_are_refused_in_every_spelling() {
        for text in
            ["169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "fe80::1", "0.0.0.0", "224.0.0.1", "::"]
        {
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
