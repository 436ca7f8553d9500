//! Admission to the engine's pool of instances: who waits, and who gives way.
//!
//! Every instance has its place here, the idle ones too. The attack this file stops: one mount
//! whose calls hang, or come in thousands, holding every place. Free places go round by mount and
//! not by arrival; the requests of a mount hold no more than its share; and the last places are for
//! due work, so that leases end while requests hang.

use crate::compartment::{Compartment, Taken};
use crate::engine::Sandbox;
use crate::limits;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::sync;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Milliseconds after which whoever met a full queue may try again.
const FULL_QUEUE_PAUSE: u64 = 1_000;

/// What waits for places, apart from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Calls that somebody waits for. They never take the last places, and of one mount not more
    /// than its share.
    Foreground,
    /// Due work, of which there is never more than there are claims.
    Background,
}

/// The slots that a call wants.
pub struct Wanted<'a> {
    /// The mount that it belongs to.
    pub compartment: &'a Arc<Compartment>,
    /// Instances that it may need at once: two where it reaches a database plugin, so that a nested
    /// call never waits for an instance that its own caller holds.
    pub places: u32,
    /// Where it waits.
    pub priority: Priority,
    /// How long it waits.
    pub deadline: Instant,
}

/// The slots of the pool of instances. A root call takes them once and holds them until it ends.
pub struct Admission {
    places: Arc<InstanceSlots>,
    count: u32,
    /// Whose share they are of; none for due work and idle instances.
    taken: Option<Arc<Taken>>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.places.give_back(self.count, self.taken.as_deref());
    }
}

impl Sandbox {
    /// Waits for places, in turn with the calls of other mounts.
    ///
    /// # Errors
    /// `unavailable` when there are none until the deadline, and at once when more calls of the
    /// mount wait than may.
    pub async fn admit(&self, wanted: Wanted<'_>) -> Result<Admission, Failure> {
        let (told, lacks_room) = match self.runtime.places.enter(&wanted) {
            Entered::In(admission) => return Ok(admission),
            Entered::Crowded => return Err(crowded()),
            Entered::Waits { told, lacks_room } => (told, lacks_room),
        };
        if lacks_room {
            // After the wait has begun: a place that becomes free belongs to whoever waits first,
            // and not to an instance that a call which just ended would like to keep.
            self.shelves.make_room(wanted.places);
        }
        match tokio::time::timeout_at(wanted.deadline, told).await {
            Ok(Ok(admission)) => Ok(admission),
            Ok(Err(_)) | Err(_) => Err(Failure::new(
                Kind::Unavailable,
                "all plugin instances are busy; try again later",
            )),
        }
    }

    /// A place for an instance that is kept for later, if there is one that nobody waits for.
    pub(crate) fn admit_idle(&self) -> Option<Admission> {
        self.runtime.places.enter_idle()
    }
}

fn crowded() -> Failure {
    let most = limits::WAITING_CALLS;
    let message = format!(
        "{most} requests of this mount wait for a plugin instance already; try again later"
    );
    Failure { retry_after: Some(FULL_QUEUE_PAUSE), ..Failure::new(Kind::Unavailable, message) }
}

/// All places of the pool.
pub(crate) struct InstanceSlots(Mutex<State>);

struct State {
    free: u32,
    requests: Ring,
    work: Ring,
}

/// The mounts that have calls waiting, in the order of their turns.
type Ring = VecDeque<Queue>;

/// The waiting calls of one mount, in the order in which they came.
struct Queue {
    taken: Arc<Taken>,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    compartment: Arc<Compartment>,
    places: u32,
    told: oneshot::Sender<Admission>,
}

enum Entered {
    In(Admission),
    Waits {
        told: oneshot::Receiver<Admission>,
        /// There are too few places: it is not only that the mount has its share.
        lacks_room: bool,
    },
    Crowded,
}

/// Whether a call may have its places now.
enum Fit {
    Fits,
    /// Its mount holds its share.
    FullShare,
    /// There are too few places for anybody in its priority.
    NoRoom,
}

/// A waiter and what it gets, to be told when the lock is free again.
type Handed = Vec<(oneshot::Sender<Admission>, Admission)>;

impl InstanceSlots {
    pub(crate) fn new(count: u32) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { free: count, requests: Ring::new(), work: Ring::new() })))
    }

    fn enter(self: &Arc<Self>, wanted: &Wanted<'_>) -> Entered {
        let mut state = self.lock();
        let fit = state.fit(wanted.priority, wanted.places, wanted.compartment);
        if state.ring(wanted.priority).is_empty() && matches!(fit, Fit::Fits) {
            return Entered::In(state.take(
                self,
                wanted.priority,
                wanted.places,
                wanted.compartment,
            ));
        }
        let (tell, told) = oneshot::channel();
        let waiter = Waiter {
            compartment: Arc::clone(wanted.compartment),
            places: wanted.places,
            told: tell,
        };
        if !state.wait(wanted.priority, waiter) {
            return Entered::Crowded;
        }
        // It may be the turn of this mount although another waits: for its own share.
        let handed = state.hand_out(self);
        drop(state);
        tell_all(handed);
        Entered::Waits { told, lacks_room: matches!(fit, Fit::NoRoom) }
    }

    fn enter_idle(self: &Arc<Self>) -> Option<Admission> {
        let mut state = self.lock();
        let is_spare =
            state.free > limits::WORK_PLACES && state.requests.is_empty() && state.work.is_empty();
        if !is_spare {
            return None;
        }
        state.free -= 1;
        Some(Admission { places: Arc::clone(self), count: 1, taken: None })
    }

    fn give_back(self: &Arc<Self>, count: u32, taken: Option<&Taken>) {
        let mut state = self.lock();
        state.free = state.free.saturating_add(count);
        if let Some(taken) = taken {
            taken.give_back(count);
        }
        let handed = state.hand_out(self);
        drop(state);
        tell_all(handed);
    }

    /// Slots that are free.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.lock().free as usize
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.0)
    }
}

/// Whoever went away meanwhile gives back what it was given.
fn tell_all(handed: Handed) {
    for (told, admission) in handed {
        drop(told.send(admission));
    }
}

impl State {
    fn ring(&mut self, priority: Priority) -> &mut Ring {
        match priority {
            Priority::Foreground => &mut self.requests,
            Priority::Background => &mut self.work,
        }
    }

    fn fit(&self, priority: Priority, places: u32, compartment: &Compartment) -> Fit {
        let kept_back = if priority == Priority::Foreground { limits::WORK_PLACES } else { 0 };
        if self.free < places.saturating_add(kept_back) {
            return Fit::NoRoom;
        }
        let held = compartment.taken().places();
        // One call is always served, however small the share.
        let is_over = held > 0 && held.saturating_add(places) > compartment.limits().concurrency;
        if priority == Priority::Foreground && is_over { Fit::FullShare } else { Fit::Fits }
    }

    fn take(
        &mut self,
        all: &Arc<InstanceSlots>,
        priority: Priority,
        places: u32,
        compartment: &Compartment,
    ) -> Admission {
        self.free = self.free.saturating_sub(places);
        let taken = (priority == Priority::Foreground).then(|| Arc::clone(compartment.taken()));
        if let Some(taken) = &taken {
            taken.take(places);
        }
        Admission { places: Arc::clone(all), count: places, taken }
    }

    /// Queues a call behind the others of its mount. Says whether there was room to wait.
    fn wait(&mut self, priority: Priority, waiter: Waiter) -> bool {
        let ring = self.ring(priority);
        let taken = waiter.compartment.taken();
        let Some(queue) = ring.iter_mut().find(|queue| Arc::ptr_eq(&queue.taken, taken)) else {
            ring.push_back(Queue { taken: Arc::clone(taken), waiting: VecDeque::from([waiter]) });
            return true;
        };
        if queue.waiting.len() >= limits::WAITING_CALLS {
            queue.waiting.retain(|waiter| !waiter.told.is_closed());
        }
        let has_room = queue.waiting.len() < limits::WAITING_CALLS;
        if has_room {
            queue.waiting.push_back(waiter);
        }
        has_room
    }

    /// Gives free places to those who wait: due work first, of which there is little, and in each
    /// priority mount by mount.
    fn hand_out(&mut self, all: &Arc<InstanceSlots>) -> Handed {
        let mut handed = Handed::new();
        for priority in [Priority::Background, Priority::Foreground] {
            let mut passed_over = 0;
            while passed_over < self.ring(priority).len() {
                let Some(next) = self.next(priority) else { continue };
                match self.fit(priority, next.0, &next.1) {
                    // Whoever wants one place less behind it waits too, or two places would never
                    // be free together.
                    Fit::NoRoom => break,
                    Fit::FullShare => passed_over += 1,
                    Fit::Fits => {
                        passed_over = 0;
                        let admission = self.take(all, priority, next.0, &next.1);
                        let first = self
                            .ring(priority)
                            .front_mut()
                            .and_then(|queue| queue.waiting.pop_front());
                        handed.extend(first.map(|waiter| (waiter.told, admission)));
                    }
                }
                self.ring(priority).rotate_left(1);
            }
        }
        handed
    }

    /// What the first call of the mount whose turn it is wants. `None` when nobody of that mount
    /// waits any more, and it has lost its turn.
    fn next(&mut self, priority: Priority) -> Option<(u32, Arc<Compartment>)> {
        let ring = self.ring(priority);
        let queue = ring.front_mut()?;
        while queue.waiting.front().is_some_and(|waiter| waiter.told.is_closed()) {
            queue.waiting.pop_front();
        }
        let next =
            queue.waiting.front().map(|waiter| (waiter.places, Arc::clone(&waiter.compartment)));
        if next.is_none() {
            ring.pop_front();
        }
        next
    }
}

#[cfg(test)]
mod tests;
