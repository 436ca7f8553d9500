//! Usage counters per client. Clients without usage take no memory.

use bulkhead_wire::client::Client;
use std::collections::HashMap;

/// The current usage of every client.
#[derive(Debug, Default)]
pub(crate) struct ClientUsage(HashMap<Client, u64>);

impl ClientUsage {
    /// Returns the usage of `client`.
    pub(crate) fn of(&self, client: Client) -> u64 {
        self.0.get(&client).copied().unwrap_or_default()
    }

    /// Adds `more` to the client's usage unless the sum exceeds `most`. Returns whether `more` was
    /// added.
    pub(crate) fn take(&mut self, client: Client, more: u64, most: u64) -> bool {
        let all = self.of(client).saturating_add(more);
        if all <= most {
            self.0.insert(client, all);
        }
        all <= most
    }

    /// Subtracts `less` from the client's usage.
    pub(crate) fn give_back(&mut self, client: Client, less: u64) {
        let left = self.of(client).saturating_sub(less);
        if left == 0 {
            self.0.remove(&client);
        } else {
            self.0.insert(client, left);
        }
    }

    /// Returns whether no client uses anything.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> Client {
        Client::of(text.parse().unwrap())
    }

    #[test]
    fn client_share_ends_at_maximum_and_returns() {
        let (mut usage, one) = (ClientUsage::default(), client("192.0.2.1"));
        assert!(
            usage.take(one, 2, 3) && !usage.take(one, 2, 3),
            "a refused request does not count"
        );
        assert!(usage.take(client("192.0.2.2"), 3, 3), "another client has its own share");
        assert!(!usage.take(one, u64::MAX, 3));
        assert_eq!(usage.of(one), 2);
        usage.give_back(one, 2);
        usage.give_back(client("192.0.2.2"), 3);
        assert!(usage.is_empty());
    }
}
