//! Whom an address stands for, and how much of something each takes. Nothing is kept of who takes
//! nothing.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// Whom an address stands for when places, memory and requests are shared out: the address itself,
/// or the network of 64 bits that one customer of an IPv6 provider chooses addresses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Household(IpAddr);

impl Household {
    /// The household of `address`.
    pub(crate) fn of(address: IpAddr) -> Self {
        Self(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
            }
        })
    }
}

/// What every household takes at this moment.
#[derive(Debug, Default)]
pub(crate) struct Shares(HashMap<Household, u64>);

impl Shares {
    /// What `household` takes.
    pub(crate) fn of(&self, household: Household) -> u64 {
        self.0.get(&household).copied().unwrap_or_default()
    }

    /// Lets it take `more`, unless that would be over `most` in all. Whether it may.
    pub(crate) fn take(&mut self, household: Household, more: u64, most: u64) -> bool {
        let all = self.of(household).saturating_add(more);
        if all <= most {
            self.0.insert(household, all);
        }
        all <= most
    }

    /// Takes `less` of it back.
    pub(crate) fn give_back(&mut self, household: Household, less: u64) {
        let left = self.of(household).saturating_sub(less);
        if left == 0 {
            self.0.remove(&household);
        } else {
            self.0.insert(household, left);
        }
    }

    /// Whether nobody takes anything.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn household(text: &str) -> Household {
        Household::of(text.parse().unwrap())
    }

    #[test]
    fn a_network_of_ipv6_is_one_household_and_every_address_of_ipv4_its_own() {
        assert_eq!(household("2001:db8::1"), household("2001:db8::ffff:2"));
        assert_ne!(household("2001:db8::1"), household("2001:db8:0:1::1"));
        assert_ne!(household("192.0.2.1"), household("192.0.2.2"));
    }

    #[test]
    fn a_share_ends_at_the_most_and_comes_back() {
        let (mut shares, one) = (Shares::default(), household("192.0.2.1"));
        assert!(
            shares.take(one, 2, 3) && !shares.take(one, 2, 3),
            "what is refused is not counted"
        );
        assert!(shares.take(household("192.0.2.2"), 3, 3), "others have shares of their own");
        assert!(!shares.take(one, u64::MAX, 3));
        assert_eq!(shares.of(one), 2);
        shares.give_back(one, 2);
        shares.give_back(household("192.0.2.2"), 3);
        assert!(shares.is_empty());
    }
}
