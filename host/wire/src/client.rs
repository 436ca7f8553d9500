//! Which client an address stands for, wherever something is shared out by address.

use std::net::{IpAddr, Ipv6Addr};

/// The client that an address stands for when connections, memory, requests and answers are shared
/// out: the address itself, or the network of 64 bits that one customer of an IPv6 provider chooses
/// addresses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(IpAddr);

impl Client {
    /// Clients for whom there is no room to be told apart.
    pub const OTHERS: Self = Self(IpAddr::V6(Ipv6Addr::UNSPECIFIED));

    /// The client at `address`. An address of IPv4 is one also as a listener for both sees it,
    /// mapped into IPv6.
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
    fn a_network_of_ipv6_is_one_client_and_every_address_of_ipv4_its_own() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_ne!(client("::ffff:192.0.2.1"), client("::ffff:192.0.2.2"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
    }
}
