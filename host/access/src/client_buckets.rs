//! Budgets of requests, one for each client.
//!
//! This file prevents a flood of addresses from taking the memory: the number of clients with a
//! budget of their own is bounded, and further clients share one.

use bulkhead_wire::client::Client;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Maximum number of clients with their own budget. Further clients share a single budget.
pub(crate) const CLIENTS_MAX: usize = 10_000;
/// Minimum interval between removals of clients with a full budget.
const SWEPT_EVERY: Duration = Duration::from_secs(1);

/// The budgets, each as the time at which it is full again.
#[derive(Debug, Default)]
pub(crate) struct ClientBuckets {
    full_at: HashMap<Client, Instant>,
    /// Time of the last removal of clients with a full budget.
    swept: Option<Instant>,
}

impl ClientBuckets {
    /// Returns the time at which the client's budget is full again.
    pub(crate) fn full_at(&mut self, client: Client, now: Instant) -> &mut Instant {
        if self.full_at.len() >= CLIENTS_MAX
            && self.swept.is_none_or(|swept| now >= swept + SWEPT_EVERY)
        {
            self.full_at.retain(|_, full_at| *full_at > now);
            self.swept = Some(now);
        }
        let is_known = self.full_at.len() < CLIENTS_MAX || self.full_at.contains_key(&client);
        let key = if is_known { client } else { Client::OTHERS };
        self.full_at.entry(key).or_insert(now)
    }

    /// Gives the client one request back, which takes `one` to grow. Does nothing for a client
    /// without a budget.
    pub(crate) fn give_back(&mut self, client: Client, one: Duration) {
        if let Some(full_at) = self.full_at.get_mut(&client) {
            *full_at = full_at.checked_sub(one).unwrap_or(*full_at);
        }
    }

    /// Returns the number of budgets.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.full_at.len()
    }
}
