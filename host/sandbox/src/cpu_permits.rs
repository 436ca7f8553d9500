//! Permits to compute: a bound on the guests that compute for long at a time.
//!
//! This file prevents busy guests from occupying all workers. A busy guest yields its worker only
//! once a tick, so that without permits the calls of all other mounts would wait for ticks. A guest
//! that computes for longer than an ordinary call needs a permit. The process has a permit less
//! than processors (at least one permit), so a worker stays free. Many short calls do not evade the
//! bound: if a call of a mount computed for long, the mount's next calls need a permit from their
//! start. Permits go round by mount and client, so a client with a hundred such calls delays
//! another client by a single permit.

use crate::compartment::Compartment;
use crate::fair_queue::{FairPermit, FairSemaphore};
use crate::limits;
use bulkhead_wire::client::Client;
use bulkhead_wire::sync;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wasmtime::UpdateDeadline;

/// The permits of a process.
#[derive(Clone)]
pub(crate) struct CpuPermits(FairSemaphore<CpuShareKey>);

/// A permit to compute.
pub(crate) type CpuPermit = FairPermit<CpuShareKey>;

/// A mount, and the client of the call.
type CpuShareKey = (String, Option<Client>);

impl CpuPermits {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self(FairSemaphore::new(processors.saturating_sub(1).max(1)))
    }

    /// Waits for a permit, in turn with other mounts and clients. `None` cannot happen while the
    /// process runs.
    pub(crate) async fn acquire(
        &self,
        compartment: &Compartment,
        caller: Option<Client>,
    ) -> Option<CpuPermit> {
        self.0.acquire((compartment.mount().to_owned(), caller)).await
    }
}

/// The time that the guest of a root call has computed, nested calls included, and the guest's
/// permit.
#[derive(Default)]
pub(crate) struct CpuMeter {
    /// The client of the root call; `None` for due work.
    caller: Option<Client>,
    computing: Mutex<CpuMeterState>,
}

#[derive(Default)]
struct CpuMeterState {
    /// Time of the last wake-up; `None` while the guest waits.
    woken: Option<Instant>,
    /// Time computed before the last wait.
    before: Duration,
    permit: Option<CpuPermit>,
}

impl CpuMeter {
    /// Makes the meter of a call for `caller`.
    pub(crate) fn of(caller: Client) -> Self {
        Self { caller: Some(caller), computing: Mutex::default() }
    }

    /// Returns the client of the root call; `None` for due work.
    pub(crate) fn caller(&self) -> Option<Client> {
        self.caller
    }

    /// Runs the work of a root call. Measures the time that the work computes, and releases the
    /// permit when the work waits.
    pub(crate) async fn measure<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.lock().woken = Some(Instant::now());
            let polled = work.as_mut().poll(context);
            self.lock().pause();
            polled
        })
        .await
    }

    /// Returns the time that the guests of the call computed.
    pub(crate) fn computed(&self) -> Duration {
        self.lock().computed()
    }

    /// Waits for a permit before the first instruction if calls of the mount computed for long
    /// recently.
    pub(crate) async fn admit(&self, permits: &CpuPermits, compartment: &Compartment) {
        if compartment.taken().computed_long(Instant::now()) {
            self.acquire(permits, compartment).await;
        }
    }

    async fn acquire(&self, permits: &CpuPermits, compartment: &Compartment) {
        let permit = permits.acquire(compartment, self.caller).await;
        self.lock().permit = permit;
    }

    fn lock(&self) -> MutexGuard<'_, CpuMeterState> {
        sync::lock(&self.computing)
    }
}

impl CpuMeterState {
    fn pause(&mut self) {
        self.before += self.woken.take().map(|woken| woken.elapsed()).unwrap_or_default();
        self.permit = None;
    }

    fn computed(&self) -> Duration {
        self.before + self.woken.map(|woken| woken.elapsed()).unwrap_or_default()
    }
}

/// Handles an epoch tick during the guest's computation. A guest that has computed for long yields
/// to other guests, and continues when it has a permit again.
pub(crate) fn on_epoch<R>(
    root: &Arc<R>,
    compartment: &Arc<Compartment>,
    permits: &CpuPermits,
) -> UpdateDeadline
where
    R: AsRef<CpuMeter> + Send + Sync + 'static,
{
    if (**root).as_ref().lock().computed() < limits::UNPERMITTED_CPU_TIME {
        return UpdateDeadline::Continue(1);
    }
    compartment.taken().mark_computing_long(Instant::now());
    let (root, compartment, permits) = (Arc::clone(root), Arc::clone(compartment), permits.clone());
    UpdateDeadline::YieldCustom(
        1,
        Box::pin(async move {
            // Yields even if no other guest waits for a permit, because calls without a permit need
            // the worker. The yield also releases the current permit.
            tokio::task::yield_now().await;
            (*root).as_ref().acquire(&permits, &compartment).await;
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_tree::CallTree;
    use crate::limits::MountLimits;

    fn one() -> CpuPermits {
        CpuPermits(FairSemaphore::new(1))
    }

    /// Keeps the processor busy, as a guest does.
    fn compute(time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn long_computation_needs_permit_to_continue() {
        let (permits, compartment, tree) =
            (one(), Compartment::new("m", MountLimits::default()), Arc::new(CallTree::default()));
        let work = async {
            assert!(matches!(on_epoch(&tree, &compartment, &permits), UpdateDeadline::Continue(1)));
            compute(limits::UNPERMITTED_CPU_TIME);
            let UpdateDeadline::YieldCustom(1, other) = on_epoch(&tree, &compartment, &permits)
            else {
                panic!("no permit")
            };
            Box::into_pin(Box::new(other)).await;
            assert_eq!(permits.0.available(), 0, "the permit is held while the call computes");
            tokio::task::yield_now().await;
            assert_eq!(permits.0.available(), 1, "the permit is free while the call waits");
        };
        tree.cpu_meter.measure(work).await;
        assert!(tree.cpu_meter.lock().before >= limits::UNPERMITTED_CPU_TIME);
    }

    #[tokio::test]
    async fn long_computing_mount_needs_permits_from_call_start() {
        let permits = one();
        let busy = Compartment::new("busy", MountLimits::default());
        busy.taken().mark_computing_long(Instant::now());
        let free = async |compartment: &Compartment| {
            let tree = CallTree::default();
            let begun = async {
                tree.cpu_meter.admit(&permits, compartment).await;
                permits.0.available()
            };
            tree.cpu_meter.measure(begun).await
        };
        assert_eq!(free(&busy).await, 0);
        assert_eq!(free(&Compartment::new("other", MountLimits::default())).await, 1);
        assert_eq!(
            free(&busy.with_limits(MountLimits::default())).await,
            0,
            "also after a change of its limits"
        );
        let later = Instant::now() + limits::CPU_HEAVY_WINDOW;
        assert!(!busy.taken().computed_long(later));
    }
}
