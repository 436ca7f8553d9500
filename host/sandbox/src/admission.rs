//! Admission to the engine's pool of instances: who waits, and who gives way.
//!
//! Every instance has its slot here, the idle ones too. The attacks this file stops: one mount
//! whose calls hang, or come in thousands, holding every slot; and one client that does so to the
//! other clients of a mount. Free slots go round by mount, within a mount by client, and not by
//! arrival; the requests of a mount hold no more than its share; and the last slots are for due
//! work, so that leases end while requests hang.

use crate::compartment::{Compartment, Taken};
use crate::fair_queue::FairQueue;
use crate::limits;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::sync;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Milliseconds after which a caller that met a full queue may try again.
const FULL_QUEUE_PAUSE: u64 = 1_000;

/// Which of two queues a call waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Calls whose callers wait. They never take the last slots, and of one mount not more than its
    /// share.
    Foreground,
    /// Due work, of which there is never more than there are claims.
    Background,
}

/// The slots that a call wants.
pub struct SlotRequest<'a> {
    /// The mount that it belongs to.
    pub compartment: &'a Arc<Compartment>,
    /// Instances that it may need at once: two where it reaches a database plugin, so that a nested
    /// call never waits for an instance that its own caller holds.
    pub slots: u32,
    /// Where it waits.
    pub priority: Priority,
    /// The client that it is for, among those of its mount; `None` for due work.
    pub caller: Option<Client>,
    /// How long it waits.
    pub deadline: Instant,
}

/// The slots of the pool of instances. A root call takes them once and holds them until it ends.
pub struct Admission {
    all: Arc<InstanceSlots>,
    count: u32,
    /// The mount's share that they are of; none for due work and idle instances.
    share: Option<Arc<Taken>>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.all.give_back(self.count, self.share.as_deref());
    }
}

pub(crate) fn crowded() -> Failure {
    let most = limits::WAITING_CALLS;
    let message = format!(
        "{most} requests of this mount wait for a plugin instance already; try again later"
    );
    Failure { retry_after: Some(FULL_QUEUE_PAUSE), ..Failure::new(Kind::Unavailable, message) }
}

/// All slots of the pool.
pub(crate) struct InstanceSlots(Mutex<State>);

struct State {
    free: u32,
    foreground: Ring,
    background: Ring,
}

/// The mounts that have calls waiting, in the order in which they are served next.
type Ring = VecDeque<Queue>;

/// The waiting calls of one mount, served client by client.
struct Queue {
    share: Arc<Taken>,
    waiting: FairQueue<Option<Client>, Waiter>,
}

struct Waiter {
    compartment: Arc<Compartment>,
    slots: u32,
    admit: oneshot::Sender<Admission>,
}

/// What became of a call that asked for slots.
pub(crate) enum Entered {
    Admitted(Admission),
    Waits {
        admission: oneshot::Receiver<Admission>,
        /// There are too few slots: it is not only that the mount has its share.
        lacks_room: bool,
    },
    /// As many calls of its mount wait already as may.
    Crowded,
}

/// Whether a call may have its slots now.
enum Fit {
    Fits,
    /// Its mount holds its share.
    FullShare,
    /// There are too few slots for any call of its priority.
    NoRoom,
}

/// Waiters and what they get, to be sent when the lock is free again.
type HandedOut = Vec<(oneshot::Sender<Admission>, Admission)>;

impl InstanceSlots {
    pub(crate) fn new(count: u32) -> Arc<Self> {
        let (foreground, background) = (Ring::new(), Ring::new());
        Arc::new(Self(Mutex::new(State { free: count, foreground, background })))
    }

    /// Takes the slots at once, or joins the queue for them.
    pub(crate) fn enter(self: &Arc<Self>, wanted: &SlotRequest<'_>) -> Entered {
        let &SlotRequest { compartment, slots, priority, caller, .. } = wanted;
        let mut state = self.lock();
        let fit = state.fit(priority, slots, compartment);
        if state.ring(priority).is_empty() && matches!(fit, Fit::Fits) {
            return Entered::Admitted(state.take(self, priority, slots, compartment));
        }
        let (admit, admission) = oneshot::channel();
        let waiter = Waiter { compartment: Arc::clone(compartment), slots, admit };
        if !state.enqueue(priority, caller, waiter) {
            return Entered::Crowded;
        }
        // This mount may be next although another waits: for its own share.
        let handed_out = state.hand_out(self);
        drop(state);
        send_all(handed_out);
        Entered::Waits { admission, lacks_room: matches!(fit, Fit::NoRoom) }
    }

    /// A slot for an instance that is kept for later, if there is one that no call waits for.
    pub(crate) fn enter_idle(self: &Arc<Self>) -> Option<Admission> {
        let mut state = self.lock();
        let is_spare = state.free > limits::BACKGROUND_SLOTS
            && state.foreground.is_empty()
            && state.background.is_empty();
        if !is_spare {
            return None;
        }
        state.free -= 1;
        Some(Admission { all: Arc::clone(self), count: 1, share: None })
    }

    fn give_back(self: &Arc<Self>, count: u32, share: Option<&Taken>) {
        let mut state = self.lock();
        state.free = state.free.saturating_add(count);
        if let Some(share) = share {
            share.give_back(count);
        }
        let handed_out = state.hand_out(self);
        drop(state);
        send_all(handed_out);
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

/// A waiter that went away meanwhile gives back what it was given.
fn send_all(handed_out: HandedOut) {
    for (admit, admission) in handed_out {
        drop(admit.send(admission));
    }
}

impl State {
    fn ring(&mut self, priority: Priority) -> &mut Ring {
        match priority {
            Priority::Foreground => &mut self.foreground,
            Priority::Background => &mut self.background,
        }
    }

    fn fit(&self, priority: Priority, slots: u32, compartment: &Compartment) -> Fit {
        let is_foreground = priority == Priority::Foreground;
        let kept_back = if is_foreground { limits::BACKGROUND_SLOTS } else { 0 };
        if self.free < slots.saturating_add(kept_back) {
            return Fit::NoRoom;
        }
        let held = compartment.taken().slots();
        // One call is always served, however small the share.
        let is_over = held > 0 && held.saturating_add(slots) > compartment.limits().concurrency;
        if is_foreground && is_over { Fit::FullShare } else { Fit::Fits }
    }

    fn take(
        &mut self,
        all: &Arc<InstanceSlots>,
        priority: Priority,
        slots: u32,
        compartment: &Compartment,
    ) -> Admission {
        self.free = self.free.saturating_sub(slots);
        let share = (priority == Priority::Foreground).then(|| Arc::clone(compartment.taken()));
        if let Some(share) = &share {
            share.take(slots);
        }
        Admission { all: Arc::clone(all), count: slots, share }
    }

    /// Queues a call behind the others of its client. Says whether there was room to wait: where
    /// the mount's queue is full, the client with most calls in it makes room for one with fewer.
    fn enqueue(&mut self, priority: Priority, caller: Option<Client>, waiter: Waiter) -> bool {
        let ring = self.ring(priority);
        let share = waiter.compartment.taken();
        let index = ring.iter().position(|queue| Arc::ptr_eq(&queue.share, share));
        let index = index.unwrap_or_else(|| {
            ring.push_back(Queue { share: Arc::clone(share), waiting: FairQueue::default() });
            ring.len() - 1
        });
        let Some(queue) = ring.get_mut(index) else { return false };
        if queue.waiting.len() >= limits::WAITING_CALLS {
            queue.waiting.retain(|waiter| !waiter.admit.is_closed());
        }
        // The one that makes room learns it by its sender, which is dropped here.
        let has_room = queue.waiting.len() < limits::WAITING_CALLS
            || queue.waiting.pop_excess_over(&caller).is_some();
        if has_room {
            queue.waiting.push(caller, waiter);
        }
        has_room
    }

    /// Gives free slots to the calls that wait: due work first, of which there is little, and in
    /// each priority mount by mount.
    fn hand_out(&mut self, all: &Arc<InstanceSlots>) -> HandedOut {
        let mut handed_out = HandedOut::new();
        for priority in [Priority::Background, Priority::Foreground] {
            let mut passed_over = 0;
            while passed_over < self.ring(priority).len() {
                let Some((slots, compartment)) = self.next(priority) else { continue };
                match self.fit(priority, slots, &compartment) {
                    // A call behind it that wants one slot less waits too, or two slots would never
                    // be free together.
                    Fit::NoRoom => break,
                    Fit::FullShare => passed_over += 1,
                    Fit::Fits => {
                        passed_over = 0;
                        let admission = self.take(all, priority, slots, &compartment);
                        let queue = self.ring(priority).front_mut();
                        let first = queue.and_then(|queue| queue.waiting.pop());
                        handed_out.extend(first.map(|waiter| (waiter.admit, admission)));
                    }
                }
                self.ring(priority).rotate_left(1);
            }
        }
        handed_out
    }

    /// What the first call of the mount that is next wants. `None` when no call of that mount waits
    /// any more, and it is not next any more.
    fn next(&mut self, priority: Priority) -> Option<(u32, Arc<Compartment>)> {
        let ring = self.ring(priority);
        let queue = ring.front_mut()?;
        while queue.waiting.front().is_some_and(|waiter| waiter.admit.is_closed()) {
            queue.waiting.pop();
        }
        let next =
            queue.waiting.front().map(|waiter| (waiter.slots, Arc::clone(&waiter.compartment)));
        if next.is_none() {
            ring.pop_front();
        }
        next
    }
}

#[cfg(test)]
mod tests;
