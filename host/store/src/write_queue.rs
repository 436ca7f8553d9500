//! Turns: a fair order for requests that change the same records.
//!
//! Units of work are optimistic: of many units that change one record at once, one commits and the
//! others retry. This file prevents a request from losing every race and being refused although
//! nothing is wrong with the request. After a conflict of a unit, the request queues for each
//! contended key or range. A request that is first in all of its queues has its turn: until the
//! request is done, or for [`TURN_TIME`], no unit of another request writes there. Such a unit gets
//! a conflict before the write, and the request of the unit queues behind. Between two requests of
//! due work a turn lasts for [`DUE_TURN_TIME`].
//!
//! A request enters all of its queues in one step, and is in all or in none. Two requests therefore
//! stand in the same order in every shared queue, so no two requests wait for each other (no
//! deadlock).
//!
//! Example. Fifty clients send `POST /v1/secret/data/app` at once, and a single unit commits. Each
//! other unit conflicts on the metadata record of the secret: `TicketState::report` notes the
//! record, and [`QueueTicket::wait`] queues the request. The first request in the queue runs again,
//! with its turn. A newcomer's unit that writes the record during the turn is refused by
//! `Unit::give_way` or `CommitRequest::give_way`, and the newcomer queues behind. The end of the
//! request drops the [`QueueTicket`], and the next request is called. If the request in its turn
//! waits for a network for longer than [`TURN_TIME`], the next request ends the turn
//! (`WriteQueue::skip_expired_turns`), and the slow request may lose its race again. After a change
//! outside, the unit drops the ticket (`Unit::mark_effectful`) and yields to no turn. A request
//! that still conflicts at its deadline is answered with 503.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bulkhead_wire::sync;
use tokio::sync::oneshot;
use tokio::time::Instant;

use bulkhead_record::range::KeyRange;
use bulkhead_record::record::{Address, Space};

/// Maximum time that a turn excludes other requests. A request that waits longer for a network is
/// optimistic again, and may have to retry.
pub(crate) const TURN_TIME: Duration = Duration::from_secs(1);
/// Maximum time that a turn of due work excludes other due work. No caller waits for due work, and
/// each lost attempt repeats requests to a target.
pub(crate) const DUE_TURN_TIME: Duration = Duration::from_secs(60);
/// Maximum number of contended keys and ranges for which a request queues. The request retries the
/// rest optimistically.
const MAX_QUEUED_KEYS: usize = 64;

/// The subject of a conflict between units.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ContendedKey {
    /// A record.
    Record(Address),
    /// The keys listed in a range.
    Listing(KeyRange),
}

impl ContendedKey {
    /// Returns the conflict on all data whose keys begin with the folder's name.
    pub(crate) fn folder_contents(name: &str) -> ContendedKey {
        ContendedKey::Listing(KeyRange::new(Space::Data, name, ""))
    }
}

/// The queues of one store.
#[derive(Default)]
pub(crate) struct WriteQueue {
    lines: Mutex<QueueState>,
    /// Number of queued requests, so that a commit without queued requests takes no lock.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct QueueState {
    last_id: u64,
    /// The requests in each queue, first in line first.
    lines: HashMap<ContendedKey, VecDeque<u64>>,
    /// The contended ranges: few, and searched at each write.
    ranges: HashSet<KeyRange>,
    members: HashMap<u64, QueuedRequest>,
}

/// A queued request.
struct QueuedRequest {
    lines: Vec<ContendedKey>,
    /// Maximum time of the turn against requests with as much time.
    time: Duration,
    /// Number of queues in which another request stands before this request.
    behind: usize,
    /// The start of the request's turn, if the request has the turn.
    since: Option<Instant>,
    call: Option<oneshot::Sender<()>>,
}

/// A request's place in the queues. Dropping it leaves the queues.
pub struct QueueTicket(Arc<TicketState>);

/// The part of a turn shared by the request, its units and the committer.
pub(crate) struct TicketState {
    turns: Arc<WriteQueue>,
    id: u64,
    time: Duration,
    met: Mutex<Vec<ContendedKey>>,
    yielded: AtomicBool,
}

impl QueueTicket {
    /// Creates a place in no queue, with turns of at most `time`.
    pub(crate) fn new(turns: &Arc<WriteQueue>, time: Duration) -> QueueTicket {
        let id = turns.next_id();
        let (turns, met) = (Arc::clone(turns), Mutex::default());
        QueueTicket(Arc::new(TicketState { turns, id, time, met, yielded: AtomicBool::new(false) }))
    }

    /// Returns the state to which the request's units report conflicts.
    pub(crate) fn state(&self) -> &Arc<TicketState> {
        &self.0
    }

    /// Waits for the request's turn on all conflicts that its units met so far, but not beyond
    /// `until`. Returns `false` if there were no conflicts, so that there is nothing to wait for.
    pub async fn wait(&self, until: Instant) -> bool {
        let TicketState { turns, id, time, met, .. } = &*self.0;
        let met = sync::lock(met).clone();
        if met.is_empty() {
            return false;
        }
        let Some(mut called) = turns.enter((*id, *time), met) else { return true };
        loop {
            let patience = until.min(Instant::now() + TURN_TIME);
            let is_called = tokio::time::timeout_at(patience, &mut called).await.is_ok();
            if is_called || Instant::now() >= until {
                return true;
            }
            turns.skip_expired_turns((*id, *time));
        }
    }
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        self.0.turns.leave(self.0.id);
    }
}

impl TicketState {
    /// Records a conflict that a unit of the request met.
    pub(crate) fn report(&self, contended: ContendedKey) {
        let mut met = sync::lock(&self.met);
        if met.len() < MAX_QUEUED_KEYS && !met.contains(&contended) {
            met.push(contended);
        }
    }

    /// Returns the conflict if a unit of this request writes `written` during another request's
    /// turn.
    pub(crate) fn yield_to_others<'a>(
        &self,
        mut written: impl Iterator<Item = &'a Address>,
    ) -> Option<ContendedKey> {
        if self.turns.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let lines = self.turns.lock();
        let asking = (self.id, self.time);
        let found = written.find_map(|address| lines.blocking_turn(asking, address));
        self.yielded.store(found.is_some(), Ordering::Release);
        found
    }

    /// Reports a conflict and returns `true` if another request has its turn for the record.
    pub(crate) fn gives_way(&self, address: &Address) -> bool {
        let found = self.yield_to_others(std::iter::once(address));
        found.map(|contended| self.report(contended)).is_some_and(|()| self.take_yielded())
    }

    /// Returns `true` if the last refused unit gave way, and resets the answer.
    pub(crate) fn take_yielded(&self) -> bool {
        self.yielded.swap(false, Ordering::AcqRel)
    }
}

impl WriteQueue {
    /// Returns the number of queued requests, with those that have their turn.
    pub(crate) fn queued(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed) as u64
    }

    fn next_id(&self) -> u64 {
        let mut lines = self.lock();
        lines.last_id += 1;
        lines.last_id
    }

    /// Queues the request. Returns `None` if the request has its turn at once. A request that
    /// already has its turn on all of `wanted` keeps the turn, and the time starts again.
    fn enter(
        &self,
        (id, time): (u64, Duration),
        wanted: Vec<ContendedKey>,
    ) -> Option<oneshot::Receiver<()>> {
        let mut lines = self.lock();
        if let Some(member) = lines.members.get_mut(&id)
            && member.since.is_some()
            && wanted.iter().all(|one| member.lines.contains(one))
        {
            member.since = Some(Instant::now());
            return None;
        }
        lines.remove(id);
        let called = lines.append((id, time), wanted);
        self.waiting.store(lines.members.len(), Ordering::Release);
        called
    }

    fn leave(&self, id: u64) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut lines = self.lock();
        lines.remove(id);
        self.waiting.store(lines.members.len(), Ordering::Release);
    }

    /// Ends the turns before `waiting` that last too long.
    fn skip_expired_turns(&self, waiting: (u64, Duration)) {
        let mut lines = self.lock();
        for slow in lines.expired_before(waiting, Instant::now()) {
            lines.remove(slow);
        }
        self.waiting.store(lines.members.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        sync::lock(&self.lines)
    }
}

impl QueueState {
    fn append(
        &mut self,
        (id, time): (u64, Duration),
        wanted: Vec<ContendedKey>,
    ) -> Option<oneshot::Receiver<()>> {
        let mut behind = 0;
        for one in &wanted {
            let line = self.lines.entry(one.clone()).or_default();
            behind += usize::from(!line.is_empty());
            line.push_back(id);
            if let ContendedKey::Listing(range) = one {
                self.ranges.insert(range.clone());
            }
        }
        let (call, called) = oneshot::channel();
        let has_turn = behind == 0;
        let since = has_turn.then(Instant::now);
        let call = (!has_turn).then_some(call);
        self.members.insert(id, QueuedRequest { lines: wanted, time, behind, since, call });
        (!has_turn).then_some(called)
    }

    /// Removes a request from its queues and calls the requests that now have their turn.
    fn remove(&mut self, id: u64) {
        let Some(member) = self.members.remove(&id) else { return };
        for one in &member.lines {
            let Some(line) = self.lines.get_mut(one) else { continue };
            let was_first = line.front() == Some(&id);
            if was_first {
                line.pop_front();
            } else {
                line.retain(|other| *other != id);
            }
            match line.front().copied() {
                Some(next) if was_first => self.advance_request(next),
                Some(_) => {}
                None => {
                    self.lines.remove(one);
                    if let ContendedKey::Listing(range) = one {
                        self.ranges.remove(range);
                    }
                }
            }
        }
    }

    /// Counts another queue in which `id` is first, and starts the turn if `id` is first in all.
    fn advance_request(&mut self, id: u64) {
        let Some(member) = self.members.get_mut(&id) else { return };
        member.behind = member.behind.saturating_sub(1);
        if member.behind > 0 {
            return;
        }
        member.since = Some(Instant::now());
        if let Some(call) = member.call.take() {
            // A request that no longer waits leaves the queues by itself.
            let _ = call.send(());
        }
    }

    /// Returns the queue in which another request has its turn and excludes writers of `address`.
    /// The turn lasts for the shorter time of the two requests.
    fn blocking_turn(
        &self,
        (id, time): (u64, Duration),
        address: &Address,
    ) -> Option<ContendedKey> {
        let listings = self.ranges.iter().filter(|range| range.contains(address));
        let listings = listings.map(|range| ContendedKey::Listing(range.clone()));
        [ContendedKey::Record(address.clone())].into_iter().chain(listings).find(|one| {
            let first = self.lines.get(one).and_then(VecDeque::front);
            let other = first.filter(|first| **first != id);
            let other = other.and_then(|other| self.members.get(other));
            other.is_some_and(|other| {
                other.since.is_some_and(|since| since.elapsed() < other.time.min(time))
            })
        })
    }

    /// Returns the requests that stand before `id` and whose turns last too long for a request with
    /// `time`.
    fn expired_before(&self, (id, time): (u64, Duration), now: Instant) -> Vec<u64> {
        let lines = self.members.get(&id).map_or(&[][..], |member| &member.lines);
        let firsts = lines.iter().filter_map(|one| self.lines.get(one)?.front().copied());
        let is_slow = |first: &u64| {
            *first != id
                && self.members.get(first).is_some_and(|member| {
                    member.since.is_some_and(|since| now - since >= member.time.min(time))
                })
        };
        firsts.filter(is_slow).collect()
    }
}
