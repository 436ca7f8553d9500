//! Mapping from addresses to clients, for every quota per client address.

use std::net::{IpAddr, Ipv6Addr};

/// A client in the quotas for connections, memory, requests and answers: an IPv4 address, or an
/// IPv6 network of 64 bits, because an IPv6 customer can choose any address of such a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(IpAddr);

impl Client {
    /// All clients without their own counter, once a table of counters is full.
    pub const OTHERS: Self = Self(IpAddr::V6(Ipv6Addr::UNSPECIFIED));

    /// Returns the client at `address`. A listener for IPv4 and IPv6 sees IPv4 addresses mapped
    /// into IPv6; such an address counts as IPv4.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> Client {
        Client::of(text.parse().unwrap())
    }

    #[test]
    fn client_is_ipv6_network_or_single_ipv4_address() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_ne!(client("::ffff:192.0.2.1"), client("::ffff:192.0.2.2"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
    }
}
