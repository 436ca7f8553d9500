//! Turns: how many guests may compute for long at a time.
//!
//! The attack this file stops: as many endless loops as there are workers, each of which gives its worker up only once a
//! tick, so that everybody else's calls wait for ticks. A guest that computes for longer than a call of ours ever does
//! needs a turn, of which there is one fewer than there are processors; so one worker is always free of loops.

use crate::limits;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::UpdateDeadline;

/// The turns of a process.
pub(crate) struct Turns(Arc<Semaphore>);

impl Turns {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))))
    }

    /// A turn, in the order in which they were asked for. `None` cannot happen while the process runs.
    pub(crate) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        take(Arc::clone(&self.0)).await
    }
}

async fn take(turns: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    turns.acquire_owned().await.ok()
}

/// How long a call's guest has computed, and its turn, where it has one.
#[derive(Default)]
pub(crate) struct Turn {
    /// Made by the first turn: an ordinary call has none, and allocates nothing.
    slot: Option<Arc<Slot>>,
    /// Ticks since the last host call.
    streak: u32,
    /// Ticks in all.
    ticks: u32,
}

#[derive(Default)]
struct Slot(Mutex<Option<OwnedSemaphorePermit>>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// The epoch moved while the guest computed: others run now, and it goes on when it has its turn again.
    pub(crate) fn tick(&mut self, turns: &Turns) -> UpdateDeadline {
        self.streak = self.streak.saturating_add(1);
        self.ticks = self.ticks.saturating_add(1);
        if self.streak < limits::TICKS_IN_A_ROW && self.ticks < limits::TICKS_IN_ALL {
            return UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now()));
        }
        let slot = Arc::clone(self.slot.get_or_insert_default());
        slot.lock().take();
        let turns = Arc::clone(&turns.0);
        UpdateDeadline::YieldCustom(
            1,
            Box::pin(async move {
                // Also where nobody else waits for a turn: calls that need none do.
                tokio::task::yield_now().await;
                let turn = take(turns).await;
                *slot.lock() = turn;
            }),
        )
    }

    /// The guest asks the host for something, which may take long: it computes no more.
    pub(crate) fn give_back(&mut self) {
        self.streak = 0;
        if let Some(slot) = &self.slot {
            slot.lock().take();
        }
    }

    /// Was it the guest itself that took the time?
    pub(crate) fn is_computing(&self) -> bool {
        self.streak > 0
    }
}
