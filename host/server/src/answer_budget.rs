//! Budget for the bytes of answers that clients have not read yet.
//!
//! This file prevents a client from filling the memory with requests on many connections or streams
//! whose answers the client never reads. An answer counts until its memory is free. If a client
//! exceeds its budget, the connection with the client's oldest answer is closed; if all clients
//! together exceed the total budget, the client with the most bytes loses its oldest answer.
//! Clients that read their answers notice nothing. Answers that share a document take no memory of
//! their own and do not count.

use crate::connection_slots::ConnectionSlot;
use bulkhead_wire::client::Client;
use bulkhead_wire::response::ResponseBytes;
use bulkhead_wire::sync;
use hyper::body::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};

/// Maximum size of an uncounted answer, in bytes. The number of requests bounds small answers.
const MAX_UNCOUNTED_ANSWER: u64 = 4 << 10;

/// Maximum number of bytes waiting for a client.
const PER_CLIENT: u64 = 64 << 20;

/// Maximum number of bytes waiting for all clients together.
const MAX_WAITING_BYTES: u64 = 256 << 20;

/// The budget of all clients, and the answers that count.
pub(crate) struct AnswerBudget {
    per_client: u64,
    all: u64,
    waiting: Mutex<CountedAnswers>,
}

#[derive(Default)]
struct CountedAnswers {
    next: u64,
    all: u64,
    of_clients: HashMap<Client, ClientAnswers>,
}

#[derive(Default)]
struct ClientAnswers {
    bytes: u64,
    /// Ordered by age, the oldest first.
    answers: BTreeMap<u64, CountedAnswer>,
}

/// A counted answer, and the slot of its connection.
struct CountedAnswer {
    bytes: u64,
    slot: Weak<ConnectionSlot>,
}

impl Default for AnswerBudget {
    fn default() -> Self {
        Self { per_client: PER_CLIENT, all: MAX_WAITING_BYTES, waiting: Mutex::default() }
    }
}

impl AnswerBudget {
    /// Counts an answer to `client` on the connection in `slot` until the returned bytes are
    /// dropped. Closes connections until the budget suffices.
    pub(crate) fn hold(
        self: &Arc<Self>,
        content: ResponseBytes,
        client: Client,
        slot: &Arc<ConnectionSlot>,
    ) -> Bytes {
        let content = match content {
            ResponseBytes::Shared(document) => return Bytes::from_owner(SharedDocument(document)),
            ResponseBytes::Own(content) => content,
            // The source of a stream bounds the bytes that wait.
            ResponseBytes::Streamed(_) => return Bytes::new(),
        };
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        if bytes <= MAX_UNCOUNTED_ANSWER {
            return Bytes::from(content);
        }
        let mut waiting = sync::lock(&self.waiting);
        waiting.next += 1;
        let number = waiting.next;
        waiting.add(client, number, CountedAnswer { bytes, slot: Arc::downgrade(slot) });
        let cut = waiting.make_room(client, self);
        drop(waiting);
        cut.iter().filter_map(Weak::upgrade).for_each(|slot| slot.force_close());
        Bytes::from_owner(CountedBytes { content, budget: Arc::clone(self), client, number })
    }
}

impl CountedAnswers {
    fn add(&mut self, client: Client, number: u64, answer: CountedAnswer) {
        self.all = self.all.saturating_add(answer.bytes);
        let of_client = self.of_clients.entry(client).or_default();
        of_client.bytes = of_client.bytes.saturating_add(answer.bytes);
        of_client.answers.insert(number, answer);
    }

    fn remove(&mut self, client: Client, number: u64) -> Option<CountedAnswer> {
        let of_client = self.of_clients.get_mut(&client)?;
        let answer = of_client.answers.remove(&number)?;
        of_client.bytes = of_client.bytes.saturating_sub(answer.bytes);
        self.all = self.all.saturating_sub(answer.bytes);
        if of_client.answers.is_empty() {
            self.of_clients.remove(&client);
        }
        Some(answer)
    }

    /// Removes answers until the client and the total are within `budget`; a single answer may
    /// exceed the budget. Returns the slots of the removed answers.
    fn make_room(&mut self, client: Client, budget: &AnswerBudget) -> Vec<Weak<ConnectionSlot>> {
        let mut cut = Vec::new();
        let is_over = |of: &ClientAnswers| of.bytes > budget.per_client && of.answers.len() > 1;
        while self.of_clients.get(&client).is_some_and(is_over) {
            cut.extend(self.remove_oldest(client));
        }
        while self.all > budget.all {
            let most = self.of_clients.iter().max_by_key(|(_, of_client)| of_client.bytes);
            let Some(most) = most.filter(|_| self.answers() > 1).map(|(most, _)| *most) else {
                break;
            };
            cut.extend(self.remove_oldest(most));
        }
        cut
    }

    fn answers(&self) -> usize {
        self.of_clients.values().map(|of_client| of_client.answers.len()).sum()
    }

    fn remove_oldest(&mut self, client: Client) -> Option<Weak<ConnectionSlot>> {
        let oldest = self.of_clients.get(&client)?.answers.keys().next().copied()?;
        self.remove(client, oldest).map(|answer| answer.slot)
    }
}

/// Bytes of an answer that count until the drop.
struct CountedBytes {
    content: Vec<u8>,
    budget: Arc<AnswerBudget>,
    client: Client,
    number: u64,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        // An answer removed to make room does not count any more.
        drop(sync::lock(&self.budget.waiting).remove(self.client, self.number));
    }
}

/// Bytes of a shared document.
struct SharedDocument(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedDocument {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_slots::{CloseMoment, ConnectionSlots};
    use std::time::Duration;
    use tokio::time::timeout;

    const MIB: usize = 1 << 20;

    fn budget() -> Arc<AnswerBudget> {
        let (per_client, all) = (4 << 20, 8 << 20);
        Arc::new(AnswerBudget { per_client, all, waiting: Mutex::default() })
    }

    fn client(last: u8) -> Client {
        Client::of([192, 0, 2, last].into())
    }

    async fn slots(number: usize) -> Vec<Arc<ConnectionSlot>> {
        let slots = ConnectionSlots::new(number, number);
        let mut taken = Vec::new();
        for _ in 0..number {
            taken.push(Arc::new(slots.take([192, 0, 2, 1].into(), false).await.unwrap()));
        }
        taken
    }

    /// Returns for each connection whether it was told to end.
    async fn cut(slots: &[Arc<ConnectionSlot>]) -> Vec<bool> {
        let mut cut = Vec::new();
        for slot in slots {
            let moment = timeout(Duration::ZERO, slot.close_requested()).await;
            cut.push(moment == Ok(CloseMoment::AtOnce));
        }
        cut
    }

    fn own(size: usize) -> ResponseBytes {
        ResponseBytes::Own(vec![b'a'; size])
    }

    #[tokio::test]
    async fn client_over_budget_loses_longest_waiting_connection() {
        let (budget, slots) = (budget(), slots(6).await);
        let mut answers: Vec<Bytes> =
            (0..4).map(|index| budget.hold(own(MIB), client(1), &slots[index])).collect();
        answers.push(budget.hold(own(MIB), client(2), &slots[4]));
        assert_eq!(cut(&slots).await, [false; 6], "all are within their budgets");
        answers.remove(1);
        answers.push(budget.hold(own(MIB), client(1), &slots[5]));
        assert_eq!(cut(&slots).await, [false; 6], "one was taken");
        answers.push(budget.hold(own(1), client(1), &slots[5]));
        answers.push(budget.hold(own(MIB), client(1), &slots[5]));
        assert_eq!(cut(&slots).await, [true, false, false, false, false, false]);
        drop(answers);
        let waiting = sync::lock(&budget.waiting);
        assert!(waiting.all == 0 && waiting.of_clients.is_empty());
    }

    #[tokio::test]
    async fn all_clients_share_budget_and_largest_user_pays() {
        let (budget, slots) = (budget(), slots(4).await);
        let _three = budget.hold(own(3 * MIB), client(1), &slots[0]);
        let _two = budget.hold(own(2 * MIB), client(2), &slots[1]);
        let _more = budget.hold(own(2 * MIB), client(3), &slots[2]);
        let _last = budget.hold(own(2 * MIB), client(4), &slots[3]);
        assert_eq!(cut(&slots).await, [true, false, false, false]);
    }

    #[tokio::test]
    async fn large_answer_fits_and_shared_document_costs_nothing() {
        let (budget, slots) = (budget(), slots(2).await);
        let large = budget.hold(own(9 * MIB), client(1), &slots[0]);
        assert_eq!((cut(&slots).await, large.len()), (vec![false; 2], 9 * MIB));
        drop(large);
        let document = Arc::new(vec![b'a'; 6 * MIB]);
        let _shared: Vec<Bytes> = (0..100)
            .map(|_| budget.hold(ResponseBytes::Shared(document.clone()), client(1), &slots[1]))
            .collect();
        assert_eq!(sync::lock(&budget.waiting).all, 0);
        assert_eq!(cut(&slots).await, [false; 2]);
    }
}
