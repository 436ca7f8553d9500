//! The steps of a scheduled snapshot on a file system that may hang.
//!
//! This file prevents a network file system without an answer from delaying the seal, the other
//! schedules and the next unsealing: a step that makes no progress is left behind in its thread.
//! A schedule begins no further step before the thread has ended, so that a single thread hangs.

use super::ScheduledSnapshot;
use bulkhead_access::sealing::SealSignal;
use bulkhead_wire::failure::{Failure, FailureKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Maximum time of a step without progress.
const STEP_TIMEOUT: Duration = Duration::from_secs(300);
/// Time for which the seal waits for a step, so that the step deletes its file.
const SEAL_WAIT: Duration = Duration::from_secs(2);

/// The steps of a schedule, outside of the threads that serve requests.
pub(crate) struct SnapshotSteps<'a> {
    plan: &'a ScheduledSnapshot,
    state: Arc<StepState>,
    timeout: Duration,
}

/// The state that a step shares with its schedule.
pub(crate) struct StepState {
    sealing: SealSignal,
    progress: AtomicU64,
    is_left_behind: AtomicBool,
}

impl StepState {
    /// Notes progress of a long step. Returns `false` if the step must end.
    pub(crate) fn may_continue(&self) -> bool {
        self.progress.fetch_add(1, Ordering::Relaxed);
        !self.sealing.has_begun() && !self.is_left_behind.load(Ordering::Relaxed)
    }

    /// Returns true if there was progress since the count `seen`, which becomes the present count.
    fn has_progressed_since(&self, seen: &mut u64) -> bool {
        let progress = self.progress.load(Ordering::Relaxed);
        std::mem::replace(seen, progress) != progress
    }
}

impl<'a> SnapshotSteps<'a> {
    /// Returns the steps of `plan`, until `sealing` begins.
    pub(crate) fn new(plan: &'a ScheduledSnapshot, sealing: &SealSignal) -> Self {
        let (progress, is_left_behind) = (AtomicU64::new(0), AtomicBool::new(false));
        let state = StepState { sealing: sealing.clone(), progress, is_left_behind };
        Self { plan, state: Arc::new(state), timeout: STEP_TIMEOUT }
    }

    /// Does an act on files.
    ///
    /// # Errors
    /// The failure of the act. 503 if the act makes no progress, if an earlier act has not ended,
    /// or if the service is being sealed; the act is then left behind.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        act: impl FnOnce(&ScheduledSnapshot, &StepState) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        if Arc::strong_count(&self.state) > 1 {
            return Err(self.stalled_failure());
        }
        self.state.is_left_behind.store(false, Ordering::Relaxed);
        let (plan, state) = (self.plan.clone(), Arc::clone(&self.state));
        let mut step = tokio::task::spawn_blocking(move || act(&plan, &state));
        let ended = tokio::select! {
            ended = &mut step => Some(ended),
            () = self.state.sealing.wait_for_seal() => {
                tokio::time::timeout(SEAL_WAIT, &mut step).await.ok()
            }
            () = self.wait_for_stall() => None,
        };
        if let Some(ended) = ended {
            let early = "an act on the snapshot's files ended early";
            return ended.unwrap_or_else(|_| Err(Failure::internal(early)));
        }
        self.state.is_left_behind.store(true, Ordering::Relaxed);
        Err(match self.state.sealing.has_begun() {
            true => interrupted(),
            false => self.stalled_failure(),
        })
    }

    /// Waits until a step has made no progress for the timeout.
    async fn wait_for_stall(&self) {
        let mut seen = self.state.progress.load(Ordering::Relaxed);
        loop {
            tokio::time::sleep(self.timeout).await;
            if !self.state.has_progressed_since(&mut seen) {
                return;
            }
        }
    }

    fn stalled_failure(&self) -> Failure {
        let message = format!(
            "the file system of {} does not answer; check the mount, or name another directory",
            self.plan.directory.display()
        );
        Failure::new(FailureKind::Unavailable, message).recordable()
    }
}

/// Returns the failure of a snapshot that the seal ends.
pub(crate) fn interrupted() -> Failure {
    Failure::new(FailureKind::Unavailable, "the service is being sealed").recordable()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshots::{SnapshotName, SnapshotSchedule};
    use std::sync::mpsc;

    fn plan() -> ScheduledSnapshot {
        let name = SnapshotName::parse("nightly").unwrap();
        let schedule = SnapshotSchedule::parse("0 3 * * *").unwrap();
        ScheduledSnapshot { name, schedule, directory: "/mnt/backup".into(), retain: 1 }
    }

    fn signal() -> SealSignal {
        SealSignal::new(&Arc::default())
    }

    /// Waits until the other end of the channel is dropped, as a hanging file system.
    fn hang(end: &mpsc::Receiver<()>) -> Result<(), Failure> {
        end.recv().unwrap_err();
        Ok(())
    }

    #[tokio::test]
    async fn hanging_step_is_left_behind() {
        let (plan, sealing) = (plan(), signal());
        let timeout = Duration::from_millis(20);
        let steps = SnapshotSteps { timeout, ..SnapshotSteps::new(&plan, &sealing) };
        let (hanging, end) = mpsc::channel();
        let message = steps.run(move |_, _| hang(&end)).await.unwrap_err().message;
        assert!(message.contains("/mnt/backup does not answer"), "{message}");
        // No further thread hangs.
        let again = steps.run(|_, _| Ok(())).await.unwrap_err();
        assert_eq!(again.message, message);
        drop(hanging);
        while steps.run(|_, _| Ok(())).await.is_err() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn seal_leaves_hanging_step_behind() {
        let (plan, sealing) = (plan(), signal());
        let steps = SnapshotSteps::new(&plan, &sealing);
        let (hanging, end) = mpsc::channel();
        let hanging_step = steps.run(move |_, _| hang(&end));
        let (step, ()) = tokio::join!(hanging_step, async { sealing.begin() });
        assert_eq!(step.unwrap_err().message, "the service is being sealed");
        drop(hanging);
        // A step that ends by itself deletes its file before the seal goes on.
        let ending = SnapshotSteps::new(&plan, &sealing);
        assert!(!ending.run(|_, state| Ok(state.may_continue())).await.unwrap());
    }

    #[test]
    fn progress_of_step_postpones_end() {
        let (plan, sealing) = (plan(), signal());
        let state = SnapshotSteps::new(&plan, &sealing).state;
        let mut seen = 0;
        assert!(!state.has_progressed_since(&mut seen));
        assert!(state.may_continue() && state.may_continue());
        assert!(state.has_progressed_since(&mut seen));
        assert!(!state.has_progressed_since(&mut seen));
    }
}
