//! Networks a token is bound to, as roles name and records store networks.
//!
//! The attack this file prevents: an address inside a network by one spelling and outside by
//! another. An IPv4 address written as IPv6 counts as IPv4, in networks and in addresses.

use crate::failure::quoted;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// A network. A single address counts as a network of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr(IpNet);

impl Cidr {
    /// Parses `10.0.0.0/8`, `2001:db8::/32` or a bare address.
    ///
    /// # Errors
    /// A message with the text and the accepted forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let address =
            || text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical())).ok();
        let network = text
            .parse()
            .ok()
            .or_else(address)
            .map(|network: IpNet| Self(canonical(network).trunc()));
        network.ok_or_else(|| {
            format!(
                "error parsing address {}: give networks such as 10.0.0.0/8 or 2001:db8::/32, or \
                 addresses",
                quoted(text)
            )
        })
    }

    /// Returns whether `address` is in the network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Returns whether every address of `other` is in the network.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Returns the networks whose addresses are in both lists. An empty list stands for every
    /// address. `None` if both lists have networks, and no address is in both.
    #[must_use]
    pub fn in_both(one: &[Self], other: &[Self]) -> Option<Vec<Self>> {
        if one.is_empty() || other.is_empty() {
            return Some([one, other].concat());
        }
        let mut both: Vec<Self> = Vec::new();
        for (network, bound) in
            one.iter().flat_map(|network| other.iter().map(move |it| (network, it)))
        {
            // Two networks are disjoint, or one covers the other.
            let narrower = match (network.covers(bound), bound.covers(network)) {
                (true, _) => bound,
                (false, true) => network,
                (false, false) => continue,
            };
            if !both.contains(narrower) {
                both.push(*narrower);
            }
        }
        (!both.is_empty()).then_some(both)
    }
}

/// Converts IPv4 networks mapped into IPv6: `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
fn canonical(network: IpNet) -> IpNet {
    let mapped = network.prefix_len().checked_sub(96).filter(|_| network.addr().is_ipv6());
    let address = network.addr().to_canonical();
    match mapped {
        Some(length) if address.is_ipv4() => IpNet::new(address, length).unwrap_or(network),
        _ => network,
    }
}

/// Writes a network of one address as a bare address.
impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            self.0.addr().fmt(f)
        } else {
            self.0.fmt(f)
        }
    }
}

impl TryFrom<String> for Cidr {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> Self {
        cidr.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(network: &str, address: &str) -> bool {
        Cidr::parse(network).unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn an_address_is_inside_in_every_spelling() {
        assert!(holds("10.0.0.0/8", "10.1.2.3") && holds("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(holds("10.1.2.3", "10.1.2.3") && holds("::ffff:10.1.2.3", "10.1.2.3"));
        assert!(
            holds("::ffff:10.0.0.0/104", "10.1.2.3") && !holds("::ffff:10.0.0.0/104", "11.1.2.3")
        );
        assert!(holds("2001:db8::/32", "2001:db8::1") && !holds("2001:db8::/32", "2001:db9::1"));
        assert!(
            !holds("10.1.2.3", "10.1.2.4")
                && !holds("0.0.0.0/0", "::1")
                && holds("0.0.0.0/0", "8.8.8.8")
        );
    }

    #[test]
    fn a_network_covers_itself_and_smaller_networks_alone() {
        let covers = |one, other| Cidr::parse(one).unwrap().covers(&Cidr::parse(other).unwrap());
        assert!(covers("10.0.0.0/8", "10.1.0.0/16") && covers("10.0.0.0/8", "10.0.0.0/8"));
        assert!(covers("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(!covers("10.0.0.0/8", "0.0.0.0/0") && !covers("10.0.0.0/8", "11.0.0.0/16"));
        assert!(!covers("0.0.0.0/0", "2001:db8::/32"));
    }

    #[test]
    fn networks_in_both_lists_are_the_narrower_ones() {
        let read = |list: &str| -> Vec<Cidr> {
            let networks = list.split(',').filter(|text| !text.is_empty());
            networks.map(|text| Cidr::parse(text).unwrap()).collect()
        };
        for (one, other, both) in [
            ("", "", Some("")),
            ("10.0.0.0/8", "", Some("10.0.0.0/8")),
            ("", "10.0.0.0/8", Some("10.0.0.0/8")),
            ("10.0.0.0/8", "10.1.0.0/16,11.0.0.0/8", Some("10.1.0.0/16")),
            ("10.1.0.0/16,::1", "10.0.0.0/8,::/0", Some("10.1.0.0/16,::1")),
            ("10.0.0.0/8,10.1.0.0/16", "10.1.0.0/16", Some("10.1.0.0/16")),
            ("10.0.0.0/8", "11.0.0.0/8", None),
            ("0.0.0.0/0", "::/0", None),
        ] {
            let found = Cidr::in_both(&read(one), &read(other));
            assert_eq!(found, both.map(read), "{one} {other}");
        }
    }

    #[test]
    fn network_is_shown_without_host_bits_and_reparsed() {
        for (written, shown) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3/32", "10.1.2.3"),
            ("2001:DB8::1", "2001:db8::1"),
        ] {
            let cidr = Cidr::parse(written).unwrap();
            assert_eq!(cidr.to_string(), shown);
            assert_eq!(Cidr::parse(shown).unwrap(), cidr);
        }
    }

    #[test]
    fn an_invalid_network_is_refused_with_its_text() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0",
            "10.0.0.0/-1",
            "example.com",
            "10.0.0.0/8/8",
            "*",
            "10.0.0.1:80",
        ] {
            let why = Cidr::parse(text).unwrap_err();
            assert!(
                why.starts_with("error parsing address") && why.contains(&quoted(text)),
                "{why}"
            );
        }
    }
}
