//! Admission to the engine's pool of instances: a queue of calls, fair to mounts and to clients.
//!
//! Every instance holds a slot, also an idle instance. This file prevents one mount from holding
//! every slot with calls that hang or come in thousands, and one client from doing the same to the
//! other clients of a mount. Free slots go round by mount, and within a mount by client, not by
//! arrival. The requests of a mount hold no more than its share. The last slots are for due work,
//! so that leases end while requests hang.

use crate::compartment::{Compartment, CompartmentUsage};
use crate::fair_queue::FairQueue;
use crate::limits;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::sync;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Milliseconds after which a caller may retry if the queue was full.
const FULL_QUEUE_PAUSE: u64 = 1_000;

/// The queue of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPriority {
    /// Requests: their callers wait. Requests never take the last slots, and the requests of one
    /// mount take no more than its share.
    Foreground,
    /// Due work. The number of claims bounds its calls.
    Background,
}

/// A call's request for slots.
pub struct SlotRequest<'a> {
    /// The mount of the call.
    pub compartment: &'a Arc<Compartment>,
    /// Instances that the call may need at once: two if the call reaches a database plugin, so that
    /// a nested call never waits for an instance that its own caller holds.
    pub slots: u32,
    /// The queue of the call.
    pub priority: CallPriority,
    /// The client of the call, for fairness within the mount; `None` for due work.
    pub caller: Option<Client>,
    /// The end of the wait.
    pub deadline: Instant,
}

/// Slots of the pool of instances. A root call takes its slots once and holds them until it ends.
pub struct SlotPermit {
    all: Arc<InstanceSlots>,
    count: u32,
    /// The mount's share that the slots count against; `None` for due work and idle instances.
    share: Option<Arc<CompartmentUsage>>,
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        self.all.give_back(self.count, self.share.as_deref());
    }
}

pub(crate) fn crowded() -> Failure {
    let most = limits::WAITING_CALLS;
    let message = format!(
        "{most} requests of this mount wait for a plugin instance already; try again later"
    );
    Failure {
        retry_after: Some(FULL_QUEUE_PAUSE),
        ..Failure::new(FailureKind::Unavailable, message)
    }
}

/// Waits for the slots of a call in the queue.
///
/// # Errors
/// `unavailable` at the deadline, or if the call left the queue because the queue was full.
pub(crate) async fn wait(
    admission: oneshot::Receiver<SlotPermit>,
    deadline: Instant,
) -> Result<SlotPermit, Failure> {
    match tokio::time::timeout_at(deadline, admission).await {
        Ok(Ok(admission)) => Ok(admission),
        Ok(Err(_)) => Err(crowded()),
        Err(_) => Err(Failure::new(
            FailureKind::Unavailable,
            "all plugin instances are busy; try again later",
        )),
    }
}

/// All slots of the pool.
pub(crate) struct InstanceSlots(Mutex<AdmissionState>);

struct AdmissionState {
    free: u32,
    foreground: MountRing,
    background: MountRing,
}

/// Mounts with waiting calls, in the order of service.
type MountRing = VecDeque<MountQueue>;

/// The waiting calls of one mount, served client by client.
struct MountQueue {
    share: Arc<CompartmentUsage>,
    waiting: FairQueue<Option<Client>, SlotWaiter>,
}

struct SlotWaiter {
    compartment: Arc<Compartment>,
    slots: u32,
    admit: oneshot::Sender<SlotPermit>,
}

/// The result of a call's request for slots.
pub(crate) enum AdmissionOutcome {
    Admitted(SlotPermit),
    Waits {
        admission: oneshot::Receiver<SlotPermit>,
        /// The pool has too few free slots; false if only the mount's share is used up.
        lacks_room: bool,
    },
    /// The queue of the mount is full.
    Crowded,
}

/// Says if a call may have its slots now.
enum SlotAvailability {
    Fits,
    /// The mount holds its whole share.
    FullShare,
    /// The pool has too few slots for any call of this priority.
    NoRoom,
}

/// Admissions for waiters, sent after the lock is released.
type PendingAdmissions = Vec<(oneshot::Sender<SlotPermit>, SlotPermit)>;

impl InstanceSlots {
    pub(crate) fn new(count: u32) -> Arc<Self> {
        let (foreground, background) = (MountRing::new(), MountRing::new());
        Arc::new(Self(Mutex::new(AdmissionState { free: count, foreground, background })))
    }

    /// Takes the slots at once, or joins the queue.
    pub(crate) fn enter(self: &Arc<Self>, wanted: &SlotRequest<'_>) -> AdmissionOutcome {
        let &SlotRequest { compartment, slots, priority, caller, .. } = wanted;
        let mut state = self.lock();
        let fit = state.fit(priority, slots, compartment);
        if state.ring(priority).is_empty() && matches!(fit, SlotAvailability::Fits) {
            return AdmissionOutcome::Admitted(state.take(self, priority, slots, compartment));
        }
        let (admit, admission) = oneshot::channel();
        let waiter = SlotWaiter { compartment: Arc::clone(compartment), slots, admit };
        if !state.enqueue(priority, caller, waiter) {
            return AdmissionOutcome::Crowded;
        }
        // The mount may be next although another mount waits: the other mount may wait for its own
        // share.
        let handed_out = state.hand_out(self);
        drop(state);
        send_all(handed_out);
        AdmissionOutcome::Waits { admission, lacks_room: matches!(fit, SlotAvailability::NoRoom) }
    }

    /// Returns a slot for an idle instance, if the pool has a slot that no call waits for.
    pub(crate) fn enter_idle(self: &Arc<Self>) -> Option<SlotPermit> {
        let mut state = self.lock();
        let is_spare = state.free > limits::BACKGROUND_SLOTS
            && state.foreground.is_empty()
            && state.background.is_empty();
        if !is_spare {
            return None;
        }
        state.free -= 1;
        Some(SlotPermit { all: Arc::clone(self), count: 1, share: None })
    }

    fn give_back(self: &Arc<Self>, count: u32, share: Option<&CompartmentUsage>) {
        let mut state = self.lock();
        state.free = state.free.saturating_add(count);
        if let Some(share) = share {
            share.give_back(count);
        }
        let handed_out = state.hand_out(self);
        drop(state);
        send_all(handed_out);
    }

    /// Returns the number of calls that wait for slots.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.lock();
        let queues = state.foreground.iter().chain(&state.background);
        queues.map(|queue| queue.waiting.len()).sum()
    }

    /// Returns the number of free slots.
    pub(crate) fn free(&self) -> usize {
        self.lock().free as usize
    }

    fn lock(&self) -> MutexGuard<'_, AdmissionState> {
        sync::lock(&self.0)
    }
}

/// Sends the admissions. The admission of a cancelled waiter is dropped, and so gives its slots
/// back.
fn send_all(handed_out: PendingAdmissions) {
    for (admit, admission) in handed_out {
        drop(admit.send(admission));
    }
}

impl AdmissionState {
    fn ring(&mut self, priority: CallPriority) -> &mut MountRing {
        match priority {
            CallPriority::Foreground => &mut self.foreground,
            CallPriority::Background => &mut self.background,
        }
    }

    fn fit(
        &self,
        priority: CallPriority,
        slots: u32,
        compartment: &Compartment,
    ) -> SlotAvailability {
        let is_foreground = priority == CallPriority::Foreground;
        let kept_back = if is_foreground { limits::BACKGROUND_SLOTS } else { 0 };
        if self.free < slots.saturating_add(kept_back) {
            return SlotAvailability::NoRoom;
        }
        let in_use = compartment.taken().slots();
        // One call is always served, however small the share is.
        let is_over = in_use > 0 && in_use.saturating_add(slots) > compartment.limits().concurrency;
        if is_foreground && is_over { SlotAvailability::FullShare } else { SlotAvailability::Fits }
    }

    fn take(
        &mut self,
        all: &Arc<InstanceSlots>,
        priority: CallPriority,
        slots: u32,
        compartment: &Compartment,
    ) -> SlotPermit {
        self.free = self.free.saturating_sub(slots);
        let share = (priority == CallPriority::Foreground).then(|| Arc::clone(compartment.taken()));
        if let Some(share) = &share {
            share.take(slots);
        }
        SlotPermit { all: Arc::clone(all), count: slots, share }
    }

    /// Queues a call behind the other calls of its client. If the mount's queue is full, drops the
    /// last call of the client with most calls to make room for a client with fewer. Returns false
    /// if the queue has no room.
    fn enqueue(
        &mut self,
        priority: CallPriority,
        caller: Option<Client>,
        waiter: SlotWaiter,
    ) -> bool {
        let ring = self.ring(priority);
        let share = waiter.compartment.taken();
        let index = ring.iter().position(|queue| Arc::ptr_eq(&queue.share, share));
        let index = index.unwrap_or_else(|| {
            ring.push_back(MountQueue { share: Arc::clone(share), waiting: FairQueue::default() });
            ring.len() - 1
        });
        let Some(queue) = ring.get_mut(index) else { return false };
        if queue.waiting.len() >= limits::WAITING_CALLS {
            queue.waiting.retain(|waiter| !waiter.admit.is_closed());
        }
        // The dropped call learns of the refusal, because its sender is dropped here.
        let has_room = queue.waiting.len() < limits::WAITING_CALLS
            || queue.waiting.pop_excess_over(&caller).is_some();
        if has_room {
            queue.waiting.push(caller, waiter);
        }
        has_room
    }

    /// Hands free slots to waiting calls: first to due work, which has few calls, and in each
    /// priority mount by mount.
    fn hand_out(&mut self, all: &Arc<InstanceSlots>) -> PendingAdmissions {
        let mut handed_out = PendingAdmissions::new();
        for priority in [CallPriority::Background, CallPriority::Foreground] {
            let mut passed_over = 0;
            while passed_over < self.ring(priority).len() {
                let Some((slots, compartment)) = self.next(priority) else { continue };
                match self.fit(priority, slots, &compartment) {
                    // Calls behind this call wait too, even calls for one slot less: otherwise two
                    // slots would never be free together.
                    SlotAvailability::NoRoom => break,
                    SlotAvailability::FullShare => passed_over += 1,
                    SlotAvailability::Fits => {
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

    /// Returns the request of the next mount's first call. If no call of that mount waits any more,
    /// removes the mount from the ring and returns `None`.
    fn next(&mut self, priority: CallPriority) -> Option<(u32, Arc<Compartment>)> {
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
