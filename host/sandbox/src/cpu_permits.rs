//! Permits to compute: how many guests may compute for long at a time.
//!
//! The attack this file stops: as many busy guests as there are workers, each of which gives its
//! worker up only once a tick, so that everybody else's calls wait for ticks. A guest that computes
//! for longer than a call of ours ever does needs a turn, of which there is one fewer than there
//! are processors; so one worker is always free of them. Many calls that each end soon are no way
//! around it: where one of a mount computed for long, the next ones need a turn from their start.

use crate::call::CallTree;
use crate::compartment::Compartment;
use crate::limits;
use bulkhead_wire::sync;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::UpdateDeadline;

/// The turns of a process.
#[derive(Clone)]
pub(crate) struct CpuPermits(Arc<Semaphore>);

impl CpuPermits {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))))
    }

    /// A turn, in the order in which they were asked for. `None` cannot happen while the process
    /// runs.
    pub(crate) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}

/// How long the guest of a root call has computed, its nested calls included, and the turn that it
/// has.
#[derive(Default)]
pub(crate) struct Turn(Mutex<Computing>);

#[derive(Default)]
struct Computing {
    /// When it was last woken; `None` while it waits.
    woken: Option<Instant>,
    /// What it computed until it last waited.
    before: Duration,
    permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// Does the work of a root call: counts what it computes, and takes its turn from it wherever
    /// it waits.
    pub(crate) async fn counted<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.lock().woken = Some(Instant::now());
            let polled = work.as_mut().poll(context);
            self.lock().waits();
            polled
        })
        .await
    }

    /// Waits for a turn before the first instruction, where calls of the mount computed for long a
    /// moment ago.
    pub(crate) async fn begin(&self, turns: &CpuPermits, compartment: &Compartment) {
        if compartment.taken().computed_long(Instant::now()) {
            self.take(turns).await;
        }
    }

    async fn take(&self, turns: &CpuPermits) {
        let permit = turns.take().await;
        self.lock().permit = permit;
    }

    fn lock(&self) -> MutexGuard<'_, Computing> {
        sync::lock(&self.0)
    }
}

impl Computing {
    fn waits(&mut self) {
        self.before += self.woken.take().map(|woken| woken.elapsed()).unwrap_or_default();
        self.permit = None;
    }

    fn computed(&self) -> Duration {
        self.before + self.woken.map(|woken| woken.elapsed()).unwrap_or_default()
    }
}

/// The epoch moved while the guest computed: one that has done so for long goes on when it has its
/// turn again, and others run meanwhile.
pub(crate) fn tick(
    tree: &Arc<CallTree>,
    compartment: &Compartment,
    turns: &CpuPermits,
) -> UpdateDeadline {
    if tree.turn.lock().computed() < limits::COMPUTED_FREELY {
        return UpdateDeadline::Continue(1);
    }
    compartment.taken().computes_long(Instant::now());
    let (tree, turns) = (Arc::clone(tree), turns.clone());
    UpdateDeadline::YieldCustom(
        1,
        Box::pin(async move {
            // Also where nobody else waits for a turn: calls that need none do. And the turn that
            // it has ends there.
            tokio::task::yield_now().await;
            tree.turn.take(&turns).await;
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    fn one() -> CpuPermits {
        CpuPermits(Arc::new(Semaphore::new(1)))
    }

    /// Keeps the processor busy, as a guest does.
    fn compute(time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn whoever_computes_for_long_goes_on_with_a_turn_and_waits_without_one() {
        let (turns, compartment, tree) =
            (one(), Compartment::new("m", Limits::default()), Arc::new(CallTree::default()));
        let work = async {
            assert!(matches!(tick(&tree, &compartment, &turns), UpdateDeadline::Continue(1)));
            compute(limits::COMPUTED_FREELY);
            let UpdateDeadline::YieldCustom(1, other) = tick(&tree, &compartment, &turns) else {
                panic!("no turn")
            };
            Box::into_pin(Box::new(other)).await;
            assert_eq!(turns.0.available_permits(), 0, "it computes");
            tokio::task::yield_now().await;
            assert_eq!(turns.0.available_permits(), 1, "it waited");
        };
        tree.turn.counted(work).await;
        assert!(tree.turn.lock().before >= limits::COMPUTED_FREELY);
    }

    #[tokio::test]
    async fn calls_of_a_mount_that_computed_for_long_need_a_turn_from_their_start() {
        let turns = one();
        let busy = Compartment::new("busy", Limits::default());
        busy.taken().computes_long(Instant::now());
        let permits = async |compartment: &Compartment| {
            let tree = CallTree::default();
            let begun = async {
                tree.turn.begin(&turns, compartment).await;
                turns.0.available_permits()
            };
            tree.turn.counted(begun).await
        };
        assert_eq!(permits(&busy).await, 0);
        assert_eq!(permits(&Compartment::new("other", Limits::default())).await, 1);
        assert_eq!(permits(&busy.under(Limits::default())).await, 0, "whatever its limits become");
        let later = Instant::now() + limits::COMPUTED_LONG_AGO;
        assert!(!busy.taken().computed_long(later));
    }
}
