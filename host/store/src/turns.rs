//! Turns: how requests that change the same records get past each other.
//!
//! Units of work are optimistic: of many that change one record at once, one commits and the others
//! begin again. The fault this file stops: a request that loses every race, and is refused although
//! nothing is wrong with it. A request whose unit met a conflict gets in line for what it met, and
//! where it is the first in each of its lines it has its turn: until it is done, or for
//! [`TURN_TIME`], no other request's unit writes there. Such a unit is refused as for any other
//! conflict, before it writes, and its request gets in line behind. Due work that meets other due
//! work has its turn for [`DUE_TURN_TIME`].
//!
//! A request is in all its lines or in none, and got there in one step. So two requests stand in
//! the same order in every line that they share, and none waits for one that waits for it.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bulkhead_wire::sync;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::range::KeyRange;
use crate::record::{Address, Space};

/// How long a turn keeps others out. A request that waits for a network longer than that is
/// optimistic again, and may have to begin anew.
pub(crate) const TURN_TIME: Duration = Duration::from_secs(1);
/// How long a turn of due work keeps other due work out. No caller waits for it, and each attempt
/// that is lost asks a target once more for what was done already.
pub(crate) const DUE_TURN_TIME: Duration = Duration::from_secs(60);
/// Lines that one request stands in. What else it met it tries its luck with.
const MOST_LINES: usize = 64;

/// What units conflict on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Contended {
    /// A record.
    Record(Address),
    /// What a range lists.
    Listing(KeyRange),
}

impl Contended {
    /// All data of which the keys begin with the folder's name.
    pub(crate) fn of_folder(name: &str) -> Contended {
        Contended::Listing(KeyRange::new(Space::Data, name, ""))
    }
}

/// The lines of one store.
#[derive(Default)]
pub(crate) struct Turns {
    lines: Mutex<Lines>,
    /// Requests in line, for those that are not to pay for a look.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct Lines {
    last_id: u64,
    /// Who stands in each line, the first one first.
    lines: HashMap<Contended, VecDeque<u64>>,
    /// The ranges among them: few, and looked through at each write.
    ranges: HashSet<KeyRange>,
    members: HashMap<u64, Member>,
}

/// A request in line.
struct Member {
    lines: Vec<Contended>,
    /// How long its turn lasts against others that have as much time.
    time: Duration,
    /// In how many of them another one stands before it.
    behind: usize,
    /// Since when it has its turn.
    since: Option<Instant>,
    call: Option<oneshot::Sender<()>>,
}

/// One request's place. Dropped, it has left its lines.
pub struct Turn(Arc<TurnState>);

/// What the units of a request tell it, and the committer asks.
pub(crate) struct TurnState {
    turns: Arc<Turns>,
    id: u64,
    time: Duration,
    met: Mutex<Vec<Contended>>,
    gave_way: AtomicBool,
}

impl Turn {
    /// A place in no line, for a turn of that time.
    pub(crate) fn new(turns: &Arc<Turns>, time: Duration) -> Turn {
        let id = turns.next_id();
        let (turns, met) = (Arc::clone(turns), Mutex::default());
        Turn(Arc::new(TurnState { turns, id, time, met, gave_way: AtomicBool::new(false) }))
    }

    /// What a unit of this request reports to.
    pub(crate) fn state(&self) -> &Arc<TurnState> {
        &self.0
    }

    /// Waits for the request's turn on all that its units met so far, not longer than `until`.
    /// `false` when they met nothing, so that there is nothing to wait for.
    pub async fn wait(&self, until: Instant) -> bool {
        let TurnState { turns, id, time, met, .. } = &*self.0;
        let met = sync::lock(met).clone();
        if met.is_empty() {
            return false;
        }
        let Some(mut called) = turns.enter((*id, *time), met) else { return true };
        loop {
            let patience = until.min(Instant::now() + TURN_TIME);
            if tokio::time::timeout_at(patience, &mut called).await.is_ok() {
                return true;
            }
            if Instant::now() >= until {
                return true;
            }
            turns.pass_over_the_slow((*id, *time));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.turns.leave(self.0.id);
    }
}

impl TurnState {
    /// A unit of the request met a conflict there.
    pub(crate) fn report(&self, contended: Contended) {
        let mut met = sync::lock(&self.met);
        if met.len() < MOST_LINES && !met.contains(&contended) {
            met.push(contended);
        }
    }

    /// On what a unit of this request that writes there has to give way, because it is another
    /// one's turn.
    pub(crate) fn give_way<'a>(
        &self,
        mut written: impl Iterator<Item = &'a Address>,
    ) -> Option<Contended> {
        if self.turns.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let lines = self.turns.lock();
        let asking = (self.id, self.time);
        let found = written.find_map(|address| lines.turn_of_another(asking, address));
        self.gave_way.store(found.is_some(), Ordering::Release);
        found
    }

    /// Whether the unit that was refused last gave way. Asked once.
    pub(crate) fn take_gave_way(&self) -> bool {
        self.gave_way.swap(false, Ordering::AcqRel)
    }
}

impl Turns {
    fn next_id(&self) -> u64 {
        let mut lines = self.lock();
        lines.last_id += 1;
        lines.last_id
    }

    /// Gets in line. `None` when it is the request's turn at once. One that had its turn for all
    /// of it has it still, and anew.
    fn enter(
        &self,
        (id, time): (u64, Duration),
        wanted: Vec<Contended>,
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
    fn pass_over_the_slow(&self, waiting: (u64, Duration)) {
        let mut lines = self.lock();
        for slow in lines.slow_before(waiting, Instant::now()) {
            lines.remove(slow);
        }
        self.waiting.store(lines.members.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        sync::lock(&self.lines)
    }
}

impl Lines {
    fn append(
        &mut self,
        (id, time): (u64, Duration),
        wanted: Vec<Contended>,
    ) -> Option<oneshot::Receiver<()>> {
        let mut behind = 0;
        for one in &wanted {
            let line = self.lines.entry(one.clone()).or_default();
            behind += usize::from(!line.is_empty());
            line.push_back(id);
            if let Contended::Listing(range) = one {
                self.ranges.insert(range.clone());
            }
        }
        let (call, called) = oneshot::channel();
        let has_turn = behind == 0;
        let since = has_turn.then(Instant::now);
        let call = (!has_turn).then_some(call);
        self.members.insert(id, Member { lines: wanted, time, behind, since, call });
        (!has_turn).then_some(called)
    }

    /// Takes a request out of its lines, and calls those that are first now.
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
                Some(next) if was_first => self.move_up(next),
                Some(_) => {}
                None => {
                    self.lines.remove(one);
                    if let Contended::Listing(range) = one {
                        self.ranges.remove(range);
                    }
                }
            }
        }
    }

    /// One line fewer in which `id` is not the first.
    fn move_up(&mut self, id: u64) {
        let Some(member) = self.members.get_mut(&id) else { return };
        member.behind = member.behind.saturating_sub(1);
        if member.behind > 0 {
            return;
        }
        member.since = Some(Instant::now());
        if let Some(call) = member.call.take() {
            // One that waits no longer leaves by itself.
            let _ = call.send(());
        }
    }

    /// The line in which another request has its turn and keeps writers of `address` out. A turn
    /// lasts as long as both have time.
    fn turn_of_another(&self, (id, time): (u64, Duration), address: &Address) -> Option<Contended> {
        let listings = self.ranges.iter().filter(|range| range.contains(address));
        let listings = listings.map(|range| Contended::Listing(range.clone()));
        [Contended::Record(address.clone())].into_iter().chain(listings).find(|one| {
            let first = self.lines.get(one).and_then(VecDeque::front);
            let other = first.filter(|first| **first != id);
            let other = other.and_then(|other| self.members.get(other));
            other.is_some_and(|other| {
                other.since.is_some_and(|since| since.elapsed() < other.time.min(time))
            })
        })
    }

    /// Requests that stand before `id` and have had their turn for too long for one with `time`.
    fn slow_before(&self, (id, time): (u64, Duration), now: Instant) -> Vec<u64> {
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
