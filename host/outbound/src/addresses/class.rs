//! Classes of addresses: public, private, or never dialled.
//!
//! This file prevents reaching a cloud's metadata service by an unusual spelling of its address, or
//! by an address that a translator maps to the service.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an address that a component wants to dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AddressClass {
    /// Dialled if the name is granted.
    Public,
    /// Dialled only with a grant for a range of addresses. The text is the kind of address.
    NeedsGrant(&'static str),
    /// Never dialled, with any grant.
    Forbidden(&'static str),
}

use AddressClass::{Forbidden, NeedsGrant};

const METADATA: AddressClass = Forbidden("a cloud's metadata address");
const LINK_LOCAL: AddressClass = Forbidden("a link-local address (cloud metadata lives there)");
const MULTICAST: AddressClass = Forbidden("a multicast or broadcast address");
const UNSPECIFIED: AddressClass = Forbidden("an unspecified address");
const LOOPBACK: AddressClass = NeedsGrant("a loopback address");
const PRIVATE: AddressClass = NeedsGrant("a private address");
const SPECIAL: AddressClass = NeedsGrant("an address of a range for special uses");

/// IPv4 ranges: address, prefix length and class. The metadata services of Azure, Alibaba and
/// Oracle are outside the link-local range. All other entries are from IANA's registry of
/// special-purpose addresses.
const RANGES_V4: [([u8; 4], u8, AddressClass); 19] = [
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

/// IPv6 ranges. Amazon's metadata service is outside the link-local range.
const RANGES_V6: [([u16; 8], u8, AddressClass); 11] = [
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

fn ranges() -> impl Iterator<Item = (IpNet, AddressClass)> {
    let four =
        RANGES_V4.into_iter().map(|(address, bits, class)| (IpAddr::from(address), bits, class));
    let six =
        RANGES_V6.into_iter().map(|(address, bits, class)| (IpAddr::from(address), bits, class));
    four.chain(six)
        .filter_map(|(address, bits, class)| Some((IpNet::new(address, bits).ok()?, class)))
}

/// Returns the strictest class of all ranges that contain the address.
pub(super) fn class(address: IpAddr) -> AddressClass {
    let found = ranges().filter(|(range, _)| range.contains(&address)).map(|(_, class)| class);
    found.max().unwrap_or(AddressClass::Public)
}

/// Returns the reason if all of the range is never dialled, so that no grant may be for the range.
pub fn forbidden_range(range: &IpNet) -> Option<&'static str> {
    ranges().find_map(|(network, class)| match class {
        Forbidden(why) if network.contains(range) => Some(why),
        _ => None,
    })
}

/// Returns the address and every address to which a translator or tunnel maps the address: dialling
/// the address reaches all of these.
pub(super) fn reachable_addresses(address: IpAddr) -> Vec<IpAddr> {
    let address = address.to_canonical();
    let mut reached = vec![address];
    if let IpAddr::V6(six) = address {
        reached.extend(embedded_ipv4(six).into_iter().flatten().map(IpAddr::V4));
    }
    reached
}

/// Returns the IPv4 addresses inside an IPv6 address: `::a.b.c.d`, `::ffff:0:a.b.c.d` (RFC 2765),
/// `64:ff9b::a.b.c.d` (RFC 6052), `64:ff9b:1::/48` (RFC 8215; at the end, or behind the prefix and
/// around the reserved byte) and `2002:…` (RFC 3056).
fn embedded_ipv4(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let of = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match (a, b, c, d, e, f) {
        // `::` and `::1` embed no address.
        (0, 0, 0, 0, 0, 0) if (g, h) != (0, 0) && (g, h) != (0, 1) => [of(g, h), None],
        (0, 0, 0, 0, 0xffff, 0) | (0x64, 0xff9b, 0, 0, 0, 0) => [of(g, h), None],
        // The second reading counts only if the address is outside 0.0.0.0/8.
        (0x64, 0xff9b, 1, ..) => {
            [of(g, h), (d > 0xff).then(|| of(d, (e << 8) | (f >> 8))).flatten()]
        }
        (0x2002, high, low, ..) => [of(high, low), None],
        _ => [None, None],
    }
}
