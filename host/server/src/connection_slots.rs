//! Slots for connections, and which connection has to go where no slot is left.
//!
//! The attack this file stops: thousands of connections that do nothing, so that no client with a
//! request gets one. A connection is idle unless a request of it is being served, also while it
//! drips its headers; where the slots are taken, the one that has been idle longest goes. One
//! address holds a part of the slots only.

use crate::client_usage::ClientUsage;
use bulkhead_wire::client::Client;
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Connections at a time, where the system allows as many.
pub(crate) const MOST: u64 = 4096;

/// The same of a listener whose requests may wait for a change: as many as may wait, and some more.
pub(crate) const MOST_THAT_WAIT: u64 = 12_288;

/// File descriptors for everything that is no client's connection: the store, databases, the log.
const OWN_DESCRIPTORS: u64 = 256;

/// Connections at a time, however few descriptors the system allows.
const LEAST: u64 = 16;

/// From here on: so many requests of the connection are being served, none at this very number.
/// Below it: when the connection became idle.
const BUSY: u64 = 1 << 63;
/// The connection was told to close; it begins no request any more.
const CLOSING: u64 = u64::MAX;

/// How many connections there may be at a time in a process that may have so many `descriptors`:
/// at most `most`.
pub(crate) fn capacity(descriptors: u64, most: u64) -> usize {
    usize::try_from(descriptors.saturating_sub(OWN_DESCRIPTORS).clamp(LEAST, most))
        .unwrap_or(usize::MAX)
}

/// The slots of a listener.
pub(crate) struct ConnectionSlots {
    per_client: u64,
    /// Of each slot: how many requests are being served (see [`BUSY`]), [`CLOSING`], or when its
    /// connection became idle, as a number that only grows. Beside the rest, so that a request
    /// changes it without a lock.
    idle: Box<[AtomicU64]>,
    clock: AtomicU64,
    table: Mutex<Table>,
    /// A new connection waits for a slot, or for a connection that becomes idle.
    is_awaited: AtomicBool,
    changed: Notify,
}

struct Table {
    free: Vec<usize>,
    taken: Vec<Option<Taken>>,
    usage: ClientUsage,
}

/// A slot that is taken.
struct Taken {
    /// `None` for a connection that is not counted by address.
    client: Option<Client>,
    close: Arc<Notify>,
}

/// What became of asking for a slot.
enum Attempt {
    Granted(ConnectionSlot),
    /// A connection was told to close, or all of them are busy: there will be a slot.
    Later,
    /// The client has all slots that it may have, and is busy on each.
    Refused,
}

/// When a connection is to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// A new connection needs the slot, and nothing is being served on it; or too many bytes of its
    /// answers are not taken.
    AtOnce,
    /// The server stops: what was begun is answered.
    AfterAnswer,
}

impl ConnectionSlots {
    /// So many slots in `total`, and so many for one address.
    pub(crate) fn new(total: usize, per_address: usize) -> Arc<Self> {
        let table = Table {
            free: (0..total).rev().collect(),
            taken: (0..total).map(|_| None).collect(),
            usage: ClientUsage::default(),
        };
        Arc::new(Self {
            per_client: u64::try_from(per_address).unwrap_or(u64::MAX),
            idle: (0..total).map(|_| AtomicU64::new(BUSY)).collect(),
            clock: AtomicU64::new(0),
            table: Mutex::new(table),
            is_awaited: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// A slot for a connection of `peer`, as soon as there is one. A proxy stands for many clients
    /// and is not counted. `None` when the address has its part already and is busy on all of it:
    /// close the connection.
    pub(crate) async fn take(
        self: &Arc<Self>,
        peer: IpAddr,
        is_proxy: bool,
    ) -> Option<ConnectionSlot> {
        let client = (!is_proxy).then(|| Client::of(peer));
        loop {
            let granted = match self.try_take(client) {
                Attempt::Granted(slot) => Some(Some(slot)),
                Attempt::Refused => Some(None),
                Attempt::Later => None,
            };
            if let Some(granted) = granted {
                self.is_awaited.store(false, Ordering::SeqCst);
                return granted;
            }
            // Looked at once more after this is set, so that no change in between is missed.
            if self.is_awaited.swap(true, Ordering::SeqCst) {
                self.changed.notified().await;
                self.is_awaited.store(false, Ordering::SeqCst);
            }
        }
    }

    /// Tells the connection that has been idle longest to close, whichever client has it.
    pub(crate) fn close_longest_idle(&self) {
        self.close_longest_idle_of(&self.lock(), None);
    }

    /// Tells every connection to close once its request is answered.
    pub(crate) fn drain(&self) {
        self.lock().taken.iter().flatten().for_each(|taken| taken.close.notify_one());
    }

    fn try_take(self: &Arc<Self>, client: Option<Client>) -> Attempt {
        let mut table = self.lock();
        if let Some(one) = client
            && table.usage.of(one) >= self.per_client
        {
            return if self.close_longest_idle_of(&table, client) {
                Attempt::Later
            } else {
                Attempt::Refused
            };
        }
        let Some(index) = table.free.pop() else {
            self.close_longest_idle_of(&table, None);
            return Attempt::Later;
        };
        let close = Arc::new(Notify::new());
        if let Some(taken) = table.taken.get_mut(index) {
            *taken = Some(Taken { client, close: Arc::clone(&close) });
        }
        if let Some(one) = client {
            table.usage.take(one, 1, self.per_client);
        }
        self.mark_idle(index);
        let (slots, is_cut) = (Arc::clone(self), AtomicBool::new(false));
        Attempt::Granted(ConnectionSlot { slots, index, client, close, is_cut })
    }

    /// Tells the connection to close that has been idle longest, of that client or of all. Whether
    /// one is closing.
    fn close_longest_idle_of(&self, table: &Table, client: Option<Client>) -> bool {
        loop {
            let mut longest: Option<(u64, &AtomicU64, &Taken)> = None;
            for (since, taken) in self.idle.iter().zip(&table.taken) {
                let Some(taken) =
                    taken.as_ref().filter(|taken| client.is_none() || taken.client == client)
                else {
                    continue;
                };
                match since.load(Ordering::SeqCst) {
                    CLOSING => return true,
                    BUSY.. => {}
                    then if longest.is_some_and(|(earliest, ..)| earliest <= then) => {}
                    then => longest = Some((then, since, taken)),
                }
            }
            let Some((then, since, taken)) = longest else { return false };
            // A request may have come in the meantime: then it is another's turn.
            if since.compare_exchange(then, CLOSING, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                taken.close.notify_one();
                return true;
            }
        }
    }

    fn mark_idle(&self, index: usize) {
        let now = self.tick();
        if let Some(since) = self.idle.get(index) {
            since.store(now, Ordering::SeqCst);
        }
        self.wake_waiting();
    }

    /// One request less is being served.
    fn end_request(&self, index: usize) {
        let now = self.tick();
        let less = |state: u64| Some(if state > BUSY + 1 { state - 1 } else { now });
        if let Some(since) = self.idle.get(index) {
            // It always changes something.
            since.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).unwrap_or_default();
        }
        self.wake_waiting();
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn wake_waiting(&self) {
        if self.is_awaited.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        sync::lock(&self.table)
    }
}

/// The slot of one connection, given back when it is dropped.
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    index: usize,
    client: Option<Client>,
    close: Arc<Notify>,
    /// The connection is to end, also while requests are being served on it.
    is_cut: AtomicBool,
}

impl ConnectionSlot {
    /// Tells the connection to end at once, also while requests are being served on it.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        self.close.notify_one();
    }

    /// Number of its requests that are being served or whose answers are not taken.
    pub(crate) fn requests(&self) -> u64 {
        let state = self.slots.idle.get(self.index).map(|state| state.load(Ordering::SeqCst));
        state.filter(|state| *state != CLOSING).map_or(0, |state| state.saturating_sub(BUSY))
    }

    /// Begins to serve a request, until what is returned is dropped. `None` when the connection was
    /// told to close at once.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<Busy> {
        let since = self.slots.idle.get(self.index)?;
        let begin = |state| match state {
            CLOSING => None,
            BUSY.. => Some(state + 1),
            _ => Some(BUSY + 1),
        };
        since.fetch_update(Ordering::SeqCst, Ordering::SeqCst, begin).ok()?;
        Some(Busy(Arc::clone(self)))
    }

    /// Which of the connection's times of idleness this is; `None` while a request is being served.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        let since = self.slots.idle.get(self.index)?.load(Ordering::SeqCst);
        (since < BUSY).then_some(since)
    }

    /// Ends when the connection is to close.
    pub(crate) async fn told_to_close(&self) -> Close {
        self.close.notified().await;
        if self.is_cut.load(Ordering::SeqCst) {
            return Close::AtOnce;
        }
        let state = self.slots.idle.get(self.index).map(|since| since.load(Ordering::SeqCst));
        if state == Some(CLOSING) { Close::AtOnce } else { Close::AfterAnswer }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut table = self.slots.lock();
        if let Some(taken) = table.taken.get_mut(self.index) {
            *taken = None;
        }
        table.free.push(self.index);
        if let Some(one) = self.client {
            table.usage.give_back(one, 1);
        }
        drop(table);
        self.slots.wake_waiting();
    }
}

/// A request is being served on the slot.
pub(crate) struct Busy(Arc<ConnectionSlot>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.slots.end_request(self.0.index);
    }
}

#[cfg(test)]
mod tests;
