//! Places for connections, and who has to go where there are none left.
//!
//! The attack this file stops: thousands of connections that do nothing, so that nobody else gets
//! one. A connection is idle unless a request of it is being served, also while it drips its
//! headers; where the places are taken, the one that has been idle longest goes. One address holds
//! a part of them only.

use crate::households::{Household, Shares};
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Connections at a time, where the system allows as many.
const MOST: u64 = 4096;

/// File descriptors for everything that is no client's connection: the store, databases, the log.
const OWN_DESCRIPTORS: u64 = 256;

/// Connections at a time, however few descriptors the system allows.
const LEAST: u64 = 16;

/// A request of the connection is being served.
const BUSY: u64 = 0;
/// The connection was told to go; it begins no request any more.
const LEAVING: u64 = u64::MAX;

/// How many connections there may be at a time in a process that may have so many `descriptors`.
pub(crate) fn most(descriptors: u64) -> usize {
    usize::try_from(descriptors.saturating_sub(OWN_DESCRIPTORS).clamp(LEAST, MOST))
        .unwrap_or(usize::MAX)
}

/// The places of a listener.
pub(crate) struct Places {
    per_household: u64,
    /// Of each place: [`BUSY`], [`LEAVING`], or when its connection became idle, as a number that
    /// only grows. Beside the rest, so that a request changes it without a lock.
    idle: Box<[AtomicU64]>,
    clock: AtomicU64,
    seats: Mutex<Seats>,
    /// Somebody waits for a place, or for one that becomes idle.
    is_awaited: AtomicBool,
    changed: Notify,
}

struct Seats {
    free: Vec<usize>,
    taken: Vec<Option<Seat>>,
    shares: Shares,
}

/// A place that is taken.
struct Seat {
    /// `None` for those that are not counted by address.
    household: Option<Household>,
    leave: Arc<Notify>,
}

/// What became of a wish for a place.
enum Wish {
    Granted(Place),
    /// Somebody was told to go, or everybody is busy: there will be one.
    Later,
    /// The address has all that it may have, and is busy on each.
    Refused,
}

/// Why a connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Others need the place, and nothing is being served on it.
    AtOnce,
    /// The server stops: what was begun is answered.
    AfterAnswer,
}

impl Places {
    /// So many places in `total`, and so many for one address.
    pub(crate) fn new(total: usize, per_address: usize) -> Arc<Self> {
        let seats = Seats {
            free: (0..total).rev().collect(),
            taken: (0..total).map(|_| None).collect(),
            shares: Shares::default(),
        };
        Arc::new(Self {
            per_household: u64::try_from(per_address).unwrap_or(u64::MAX),
            idle: (0..total).map(|_| AtomicU64::new(BUSY)).collect(),
            clock: AtomicU64::new(BUSY),
            seats: Mutex::new(seats),
            is_awaited: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// A place for a connection of `peer`, as soon as there is one. A proxy stands for many clients
    /// and is not counted. `None` when the address has its part already and is busy on all of it:
    /// close the connection.
    pub(crate) async fn enter(self: &Arc<Self>, peer: IpAddr, is_proxy: bool) -> Option<Place> {
        let household = (!is_proxy).then(|| Household::of(peer));
        loop {
            let granted = match self.wish(household) {
                Wish::Granted(place) => Some(Some(place)),
                Wish::Refused => Some(None),
                Wish::Later => None,
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

    /// Tells the connection that has been idle longest to go, whosever it is.
    pub(crate) fn make_room(&self) {
        self.tell_longest_idle(&self.lock(), None);
    }

    /// Tells everybody to go once they are answered.
    pub(crate) fn close(&self) {
        self.lock().taken.iter().flatten().for_each(|seat| seat.leave.notify_one());
    }

    fn wish(self: &Arc<Self>, household: Option<Household>) -> Wish {
        let mut seats = self.lock();
        if let Some(one) = household
            && seats.shares.of(one) >= self.per_household
        {
            return if self.tell_longest_idle(&seats, household) {
                Wish::Later
            } else {
                Wish::Refused
            };
        }
        let Some(slot) = seats.free.pop() else {
            self.tell_longest_idle(&seats, None);
            return Wish::Later;
        };
        let leave = Arc::new(Notify::new());
        if let Some(seat) = seats.taken.get_mut(slot) {
            *seat = Some(Seat { household, leave: Arc::clone(&leave) });
        }
        if let Some(one) = household {
            seats.shares.take(one, 1, self.per_household);
        }
        self.became_idle(slot);
        Wish::Granted(Place { places: Arc::clone(self), slot, household, leave })
    }

    /// Tells the connection to go that has been idle longest, of that household or of all. Whether
    /// one is leaving.
    fn tell_longest_idle(&self, seats: &Seats, household: Option<Household>) -> bool {
        loop {
            let mut longest: Option<(u64, &AtomicU64, &Seat)> = None;
            for (since, seat) in self.idle.iter().zip(&seats.taken) {
                let Some(seat) =
                    seat.as_ref().filter(|seat| household.is_none() || seat.household == household)
                else {
                    continue;
                };
                match since.load(Ordering::SeqCst) {
                    BUSY => {}
                    LEAVING => return true,
                    then if longest.is_some_and(|(earliest, ..)| earliest <= then) => {}
                    then => longest = Some((then, since, seat)),
                }
            }
            let Some((then, since, seat)) = longest else { return false };
            // A request may have come in the meantime: then it is another's turn.
            if since.compare_exchange(then, LEAVING, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                seat.leave.notify_one();
                return true;
            }
        }
    }

    fn became_idle(&self, slot: usize) {
        let now = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(since) = self.idle.get(slot) {
            since.store(now, Ordering::SeqCst);
        }
        self.tell_waiting();
    }

    fn tell_waiting(&self) {
        if self.is_awaited.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        sync::lock(&self.seats)
    }
}

/// The place of one connection, given back when it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    slot: usize,
    household: Option<Household>,
    leave: Arc<Notify>,
}

impl Place {
    /// Begins to serve a request, until what is returned is dropped. `None` when the connection was
    /// told to go at once.
    pub(crate) fn busy(&self) -> Option<Busy<'_>> {
        let since = self.places.idle.get(self.slot)?;
        let begin = |state| (state != LEAVING).then_some(BUSY);
        since.fetch_update(Ordering::SeqCst, Ordering::SeqCst, begin).ok()?;
        Some(Busy(self))
    }

    /// Ends when the connection is to go.
    pub(crate) async fn told_to_go(&self) -> Leave {
        self.leave.notified().await;
        let state = self.places.idle.get(self.slot).map(|since| since.load(Ordering::SeqCst));
        if state == Some(LEAVING) { Leave::AtOnce } else { Leave::AfterAnswer }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut seats = self.places.lock();
        if let Some(seat) = seats.taken.get_mut(self.slot) {
            *seat = None;
        }
        seats.free.push(self.slot);
        if let Some(one) = self.household {
            seats.shares.give_back(one, 1);
        }
        drop(seats);
        self.places.tell_waiting();
    }
}

/// A request is being served on the place.
pub(crate) struct Busy<'a>(&'a Place);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.places.became_idle(self.0.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Poll;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// What a future says that is asked once.
    async fn at_once<F: Future>(future: F) -> Poll<F::Output> {
        let mut future = pin!(future);
        std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
    }

    async fn entered(places: &Arc<Places>, peer: IpAddr) -> Place {
        match at_once(places.enter(peer, false)).await {
            Poll::Ready(Some(place)) => place,
            _ => panic!("there is no place for {peer}"),
        }
    }

    #[tokio::test]
    async fn the_one_that_has_been_idle_longest_goes_and_the_newcomer_gets_its_place() {
        let places = Places::new(3, 3);
        let all = [
            entered(&places, address(1)).await,
            entered(&places, address(2)).await,
            entered(&places, HERE).await,
        ];
        // the first has served a request since, so that the second has been idle longest
        drop(all[0].busy().unwrap());
        let [first, second, third] = all;
        let mut newcomer = pin!(places.enter(address(4), false));
        assert!(at_once(newcomer.as_mut()).await.is_pending());
        assert_eq!(at_once(second.told_to_go()).await, Poll::Ready(Leave::AtOnce));
        assert!(second.busy().is_none(), "it begins nothing any more");
        for stays in [&first, &third] {
            assert!(at_once(stays.told_to_go()).await.is_pending());
        }
        drop(second);
        assert!(newcomer.await.is_some());
    }

    #[tokio::test]
    async fn who_is_busy_stays_and_the_newcomer_waits_until_one_is_not() {
        let places = Places::new(1, 9);
        let place = entered(&places, address(1)).await;
        let busy = place.busy().unwrap();
        let mut newcomer = pin!(places.enter(HERE, false));
        assert!(at_once(newcomer.as_mut()).await.is_pending());
        assert!(at_once(place.told_to_go()).await.is_pending());
        drop(busy);
        assert!(at_once(newcomer.as_mut()).await.is_pending());
        assert_eq!(at_once(place.told_to_go()).await, Poll::Ready(Leave::AtOnce));
        drop(place);
        assert!(newcomer.await.is_some());
    }

    #[tokio::test]
    async fn an_address_at_its_cap_loses_its_own_idle_connection_or_the_new_one_and_no_other() {
        let places = Places::new(10, 2);
        let other = entered(&places, address(9)).await;
        let (old, young) = (entered(&places, HERE).await, entered(&places, HERE).await);
        let mut newcomer = pin!(places.enter(HERE, false));
        assert!(at_once(newcomer.as_mut()).await.is_pending());
        assert_eq!(at_once(old.told_to_go()).await, Poll::Ready(Leave::AtOnce));
        drop(old);
        let newest = newcomer.await.unwrap();
        let _all_busy = (young.busy().unwrap(), newest.busy().unwrap());
        assert!(matches!(at_once(places.enter(HERE, false)).await, Poll::Ready(None)));
        assert!(at_once(other.told_to_go()).await.is_pending());
        assert!(
            matches!(at_once(places.enter(HERE, true)).await, Poll::Ready(Some(_))),
            "a proxy is not counted"
        );
    }

    #[tokio::test]
    async fn a_household_of_ipv6_counts_as_one() {
        let places = Places::new(10, 1);
        let first = entered(&places, "2001:db8::1".parse().unwrap()).await;
        let _busy = first.busy().unwrap();
        let (same, next) =
            ("2001:db8::ffff:2".parse().unwrap(), "2001:db8:0:1::1".parse().unwrap());
        assert!(matches!(at_once(places.enter(same, false)).await, Poll::Ready(None)));
        entered(&places, next).await;
    }

    #[tokio::test]
    async fn places_come_back_and_nothing_is_kept_of_who_left() {
        let places = Places::new(2, 2);
        for round in 0..100 {
            drop(entered(&places, address(round)).await);
        }
        let seats = places.lock();
        assert!(seats.shares.is_empty() && seats.free.len() == 2);
    }

    #[tokio::test]
    async fn closing_tells_everybody_to_end_with_the_answer() {
        let places = Places::new(2, 2);
        let place = entered(&places, HERE).await;
        places.close();
        assert_eq!(at_once(place.told_to_go()).await, Poll::Ready(Leave::AfterAnswer));
        assert!(place.busy().is_some());
    }

    #[test]
    fn there_are_as_many_places_as_descriptors_allow() {
        for (descriptors, places) in
            [(0, 16), (64, 16), (1_024, 768), (20_000, 4_096), (u64::MAX, 4_096)]
        {
            assert_eq!(most(descriptors), places);
        }
    }
}
