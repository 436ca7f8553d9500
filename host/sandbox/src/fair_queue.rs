//! Queues that serve their keys in turn. A thousand items of a key delay every other key by a
//! single item.
//!
//! The attack this file stops: a client that sends so many requests for a scarce resource that the
//! requests of other clients wait behind all of them.

use bulkhead_wire::sync;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// Queue length at which cancelled waiters are removed, and again at each doubling.
const SWEEP_THRESHOLD: usize = 64;

/// Items of several keys.
pub(crate) struct FairQueue<K, T> {
    /// Keys with their items, in the order of service. A key without items is removed.
    ring: VecDeque<(K, VecDeque<T>)>,
    length: usize,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self { ring: VecDeque::new(), length: 0 }
    }
}

impl<K: PartialEq, T> FairQueue<K, T> {
    /// Number of items of all keys.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Queues an item behind the other items of the key.
    pub(crate) fn push(&mut self, key: K, item: T) {
        self.length += 1;
        match self.ring.iter_mut().find(|(ring_key, _)| *ring_key == key) {
            Some((_, items)) => items.push_back(item),
            None => self.ring.push_back((key, VecDeque::from([item]))),
        }
    }

    /// Returns the item that [`FairQueue::pop`] takes next.
    pub(crate) fn front(&self) -> Option<&T> {
        self.ring.front().and_then(|(_, items)| items.front())
    }

    /// Takes the first item of the next key. The key then waits for all other keys.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let (key, mut items) = self.ring.pop_front()?;
        let item = items.pop_front();
        if !items.is_empty() {
            self.ring.push_back((key, items));
        }
        self.length -= usize::from(item.is_some());
        item
    }

    /// Drops all items except those that `is_kept` accepts.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.ring.iter_mut().for_each(|(_, items)| items.retain(&is_kept));
        self.ring.retain(|(_, items)| !items.is_empty());
        self.length = self.ring.iter().map(|(_, items)| items.len()).sum();
    }

    /// Takes the last item of the longest queue, if that queue stays longer than the queue of `key`
    /// with another item.
    pub(crate) fn pop_excess_over(&mut self, key: &K) -> Option<T> {
        let own = self.ring.iter().find(|(ring_key, _)| ring_key == key);
        let own = own.map_or(0, |(_, items)| items.len());
        let (_, items) = self.ring.iter_mut().max_by_key(|(_, items)| items.len())?;
        if items.len() <= own + 1 {
            return None;
        }
        self.length -= 1;
        items.pop_back()
    }
}

/// A semaphore with permits that go round by key.
pub struct FairSemaphore<K: PartialEq>(Arc<Mutex<SemaphoreState<K>>>);

struct SemaphoreState<K: PartialEq> {
    free: usize,
    waiting: FairQueue<K, oneshot::Sender<FairPermit<K>>>,
}

/// A permit of a [`FairSemaphore`], until it is dropped.
pub struct FairPermit<K: PartialEq>(Option<Arc<Mutex<SemaphoreState<K>>>>);

impl<K: PartialEq> Clone for FairSemaphore<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: PartialEq> FairSemaphore<K> {
    /// Makes a semaphore with this number of permits.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self(Arc::new(Mutex::new(SemaphoreState { free: permits, waiting: FairQueue::default() })))
    }

    /// Waits for a permit, in turn with the other keys. `None` cannot happen while `self` lives.
    pub async fn acquire(&self, key: K) -> Option<FairPermit<K>> {
        let called = {
            let mut state = sync::lock(&self.0);
            if state.free > 0 {
                state.free -= 1;
                return Some(FairPermit(Some(Arc::clone(&self.0))));
            }
            let length = state.waiting.len();
            if length >= SWEEP_THRESHOLD && length.is_power_of_two() {
                state.waiting.retain(|waiter| !waiter.is_closed());
            }
            let (call, called) = oneshot::channel();
            state.waiting.push(key, call);
            called
        };
        called.await.ok()
    }

    /// Returns the number of free permits.
    #[cfg(test)]
    pub(crate) fn available(&self) -> usize {
        sync::lock(&self.0).free
    }
}

impl<K: PartialEq> Drop for FairPermit<K> {
    fn drop(&mut self) {
        let Some(semaphore) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = sync::lock(&semaphore);
                let next = state.waiting.pop();
                state.free += usize::from(next.is_none());
                next
            };
            let Some(call) = next else { return };
            match call.send(Self(Some(Arc::clone(&semaphore)))) {
                Ok(()) => return,
                // The waiter was cancelled: the permit goes to the next waiter.
                Err(mut unwanted) => drop(unwanted.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn keys_are_served_in_turn_with_items_ordered() {
        let mut queue = FairQueue::default();
        (0..3).for_each(|item| queue.push("greedy", item));
        queue.push("modest", 10);
        assert_eq!((queue.len(), queue.front()), (4, Some(&0)));
        let served: Vec<i32> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!((served, queue.len()), (vec![0, 10, 1, 2], 0));
    }

    #[test]
    fn largest_key_gives_room_to_smaller_key() {
        let mut queue = FairQueue::default();
        (0..3).for_each(|item| queue.push("greedy", item));
        queue.push("modest", 10);
        assert_eq!(queue.pop_excess_over(&"greedy"), None);
        assert_eq!(queue.pop_excess_over(&"new"), Some(2));
        assert_eq!(
            queue.pop_excess_over(&"modest"),
            None,
            "no entry is removed for an equal entry"
        );
        queue.retain(|item| *item != 10);
        assert_eq!((queue.len(), queue.pop()), (2, Some(0)));
    }

    #[tokio::test]
    async fn permit_goes_to_next_waiting_key() {
        let semaphore = FairSemaphore::new(1);
        let first = semaphore.acquire(1).await;
        let mut greedy: Vec<_> = (0..200).map(|_| Box::pin(semaphore.acquire(1))).collect();
        assert!(greedy.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        let mut modest = Box::pin(semaphore.acquire(2));
        assert!(modest.as_mut().now_or_never().is_none());
        drop(first);
        let second = greedy[0].as_mut().now_or_never().flatten();
        assert!(second.is_some() && modest.as_mut().now_or_never().is_none());
        drop(second);
        let third = modest.as_mut().now_or_never().flatten();
        assert!(third.is_some(), "an entry of the other key comes first");
        drop(greedy);
        drop(third);
        assert_eq!(semaphore.available(), 1, "no waiter that went away keeps it");
    }
}
