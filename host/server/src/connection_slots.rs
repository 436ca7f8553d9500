//! Connection slots of a listener, and the choice of the connection to close when all are taken.
//!
//! This file prevents thousands of inactive connections from locking out clients that have a
//! request. A connection is idle unless the server is serving a request of that connection; a
//! connection that is still sending its headers is idle too. When all slots are taken, the
//! connection that has been idle longest is closed. A single address may hold only a part of the
//! slots.

use crate::client_usage::ClientUsage;
use bulkhead_wire::client::Client;
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Maximum number of simultaneous connections of a listener, if the descriptor limit allows as
/// many.
pub(crate) const MAX_CONNECTIONS: u64 = 4096;

/// The same maximum for a listener whose requests may wait for a change (blocking queries): the
/// maximum number of waiting requests, plus a reserve.
pub(crate) const MAX_WAITING_CONNECTIONS: u64 = 12_288;

/// Number of file descriptors reserved for everything except client connections: the store,
/// databases, the log.
const OWN_DESCRIPTORS: u64 = 256;

/// Minimum number of simultaneous connections, even if the descriptor limit is lower.
const MIN_CONNECTIONS: u64 = 16;

/// Border between the 2 meanings of a slot's state. Above: `BUSY_BORDER` plus the number of
/// requests being served. Below: the clock value at which the connection became idle. `BUSY_BORDER`
/// itself is the state before the first use.
const BUSY_BORDER: u64 = 1 << 63;
/// The connection was told to close and begins no further request.
const CLOSING: u64 = u64::MAX;

/// Returns the number of simultaneous connections, `most` at most, that fit into `descriptors` file
/// descriptors.
pub(crate) fn slot_capacity(descriptors: u64, most: u64) -> usize {
    usize::try_from(descriptors.saturating_sub(OWN_DESCRIPTORS).clamp(MIN_CONNECTIONS, most))
        .unwrap_or(usize::MAX)
}

/// The slots of a listener.
pub(crate) struct ConnectionSlots {
    per_client: u64,
    /// State of each slot: [`BUSY_BORDER`] plus the number of requests, [`CLOSING`], or the clock
    /// value at which the connection became idle. The states are outside the table so that a
    /// request changes its state without a lock.
    idle: Box<[AtomicU64]>,
    clock: AtomicU64,
    table: Mutex<SlotTable>,
    /// A new connection is waiting for a free slot or for a connection to become idle.
    is_awaited: AtomicBool,
    changed: Notify,
}

struct SlotTable {
    free: Vec<usize>,
    taken: Vec<Option<SlotHolder>>,
    usage: ClientUsage,
}

/// The holder of a taken slot.
struct SlotHolder {
    /// `None` for a connection that is not counted by address.
    client: Option<Client>,
    close: Arc<Notify>,
}

/// The result of an attempt to get a slot.
enum SlotAttempt {
    Granted(ConnectionSlot),
    /// A connection was told to close, or all connections are busy: a slot will become free.
    Later,
    /// The client holds all slots that it may hold, and all its connections are busy.
    Refused,
}

/// The moment at which a connection has to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseMoment {
    /// Close now: a new connection needs the slot while the connection is idle, the client leaves
    /// too many bytes of its answers unread, or the time of a stopping server is over.
    AtOnce,
    /// Close after the requests in flight are answered: the server is stopping.
    AfterAnswer,
}

impl ConnectionSlots {
    /// Creates `total` slots, of which a single address may hold `per_address`.
    pub(crate) fn new(total: usize, per_address: usize) -> Arc<Self> {
        let table = SlotTable {
            free: (0..total).rev().collect(),
            taken: (0..total).map(|_| None).collect(),
            usage: ClientUsage::default(),
        };
        Arc::new(Self {
            per_client: u64::try_from(per_address).unwrap_or(u64::MAX),
            idle: (0..total).map(|_| AtomicU64::new(BUSY_BORDER)).collect(),
            clock: AtomicU64::new(0),
            table: Mutex::new(table),
            is_awaited: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// Waits for a slot for a connection from `peer`. The connections of a proxy are not counted,
    /// because a proxy carries the requests of many clients. Returns `None` if the address holds
    /// its part already and all its connections are busy: the caller then closes the connection.
    pub(crate) async fn take(
        self: &Arc<Self>,
        peer: IpAddr,
        is_proxy: bool,
    ) -> Option<ConnectionSlot> {
        let client = (!is_proxy).then(|| Client::of(peer));
        loop {
            let granted = match self.try_take(client) {
                SlotAttempt::Granted(slot) => Some(Some(slot)),
                SlotAttempt::Refused => Some(None),
                SlotAttempt::Later => None,
            };
            if let Some(granted) = granted {
                self.is_awaited.store(false, Ordering::SeqCst);
                return granted;
            }
            // The loop tries again after setting the flag, so that no change in between is missed.
            if self.is_awaited.swap(true, Ordering::SeqCst) {
                self.changed.notified().await;
                self.is_awaited.store(false, Ordering::SeqCst);
            }
        }
    }

    /// Tells the connection that has been idle longest to close, regardless of its client.
    pub(crate) fn close_longest_idle(&self) {
        self.close_longest_idle_of(&self.lock(), None);
    }

    /// Tells every connection to close at once, and returns the number of connections. Their
    /// requests begin no answer.
    pub(crate) fn cut_all(&self) -> usize {
        let table = self.lock();
        let taken = self.idle.iter().zip(&table.taken);
        let taken = taken.filter_map(|(state, holder)| Some((state, holder.as_ref()?)));
        taken
            .inspect(|(state, holder)| {
                state.store(CLOSING, Ordering::SeqCst);
                holder.close.notify_one();
            })
            .count()
    }

    /// Tells every connection to close after its request is answered.
    pub(crate) fn drain(&self) {
        self.lock().taken.iter().flatten().for_each(|taken| taken.close.notify_one());
    }

    fn try_take(self: &Arc<Self>, client: Option<Client>) -> SlotAttempt {
        let mut table = self.lock();
        if let Some(one) = client
            && table.usage.of(one) >= self.per_client
        {
            return if self.close_longest_idle_of(&table, client) {
                SlotAttempt::Later
            } else {
                SlotAttempt::Refused
            };
        }
        let Some(index) = table.free.pop() else {
            self.close_longest_idle_of(&table, None);
            return SlotAttempt::Later;
        };
        let close = Arc::new(Notify::new());
        if let Some(taken) = table.taken.get_mut(index) {
            *taken = Some(SlotHolder { client, close: Arc::clone(&close) });
        }
        if let Some(one) = client {
            table.usage.take(one, 1, self.per_client);
        }
        self.mark_idle(index);
        let (slots, is_cut) = (Arc::clone(self), AtomicBool::new(false));
        SlotAttempt::Granted(ConnectionSlot { slots, index, client, close, is_cut })
    }

    /// Tells the connection that has been idle longest to close, among those of `client` or among
    /// all. Returns whether a connection is closing.
    fn close_longest_idle_of(&self, table: &SlotTable, client: Option<Client>) -> bool {
        loop {
            let mut longest: Option<(u64, &AtomicU64, &SlotHolder)> = None;
            for (since, taken) in self.idle.iter().zip(&table.taken) {
                let Some(taken) =
                    taken.as_ref().filter(|taken| client.is_none() || taken.client == client)
                else {
                    continue;
                };
                match since.load(Ordering::SeqCst) {
                    CLOSING => return true,
                    BUSY_BORDER.. => {}
                    then if longest.is_some_and(|(earliest, ..)| earliest <= then) => {}
                    then => longest = Some((then, since, taken)),
                }
            }
            let Some((then, since, taken)) = longest else { return false };
            // If a request arrived in the meantime, choose again.
            if since.compare_exchange(then, CLOSING, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                taken.close.notify_one();
                return true;
            }
        }
    }

    fn mark_idle(&self, index: usize) {
        let now = self.next_tick();
        if let Some(since) = self.idle.get(index) {
            since.store(now, Ordering::SeqCst);
        }
        self.wake_waiting();
    }

    /// Ends a request of the slot. After its last request, the connection is idle.
    fn end_request(&self, index: usize) {
        let now = self.next_tick();
        let less = |state| match state {
            CLOSING => None,
            state if state > BUSY_BORDER + 1 => Some(state - 1),
            _ => Some(now),
        };
        if let Some(since) = self.idle.get(index) {
            // The update fails if the connection was told to close at once, and stays so.
            since.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).unwrap_or_default();
        }
        self.wake_waiting();
    }

    fn next_tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn wake_waiting(&self) {
        if self.is_awaited.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotTable> {
        sync::lock(&self.table)
    }
}

/// The slot of a connection, freed when dropped.
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    index: usize,
    client: Option<Client>,
    close: Arc<Notify>,
    /// The connection has to end even while the server is serving its requests.
    is_cut: AtomicBool,
}

impl ConnectionSlot {
    /// Tells the connection to end at once, even while the server is serving its requests.
    pub(crate) fn force_close(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        self.close.notify_one();
    }

    /// Repeats the request to close, for the next reader of [`Self::close_requested`].
    pub(crate) fn repeat_close(&self) {
        self.close.notify_one();
    }

    /// Returns the number of the connection's requests that are being served or whose answers are
    /// not fully sent.
    pub(crate) fn requests(&self) -> u64 {
        let state = self.slots.idle.get(self.index).map(|state| state.load(Ordering::SeqCst));
        state.filter(|state| *state != CLOSING).map_or(0, |state| state.saturating_sub(BUSY_BORDER))
    }

    /// Marks the slot as serving a request until the returned guard is dropped. Returns `None` if
    /// the connection was told to close at once.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<BusySlot> {
        let since = self.slots.idle.get(self.index)?;
        let begin = |state| match state {
            CLOSING => None,
            BUSY_BORDER.. => Some(state + 1),
            _ => Some(BUSY_BORDER + 1),
        };
        since.fetch_update(Ordering::SeqCst, Ordering::SeqCst, begin).ok()?;
        Some(BusySlot(Arc::clone(self)))
    }

    /// Returns the clock value at which the connection became idle, or `None` while it serves a
    /// request.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        let since = self.slots.idle.get(self.index)?.load(Ordering::SeqCst);
        (since < BUSY_BORDER).then_some(since)
    }

    /// Waits until the connection has to close.
    pub(crate) async fn close_requested(&self) -> CloseMoment {
        self.close.notified().await;
        if self.is_cut.load(Ordering::SeqCst) {
            return CloseMoment::AtOnce;
        }
        let state = self.slots.idle.get(self.index).map(|since| since.load(Ordering::SeqCst));
        if state == Some(CLOSING) { CloseMoment::AtOnce } else { CloseMoment::AfterAnswer }
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

/// A guard that counts a request of the slot as being served.
pub(crate) struct BusySlot(Arc<ConnectionSlot>);

impl Drop for BusySlot {
    fn drop(&mut self) {
        self.0.slots.end_request(self.0.index);
    }
}

#[cfg(test)]
mod tests;
