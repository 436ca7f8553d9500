//! The tracer of the process: the sampler, the queue and the clock of spans.

use crate::queue::{SpanQueue, TraceFigures};
use crate::record::FinishedSpan;
use crate::sampler::Sampler;
use aws_lc_rs::rand;
use std::sync::Arc;
use std::time::Instant;

/// The time of the machine, in nanoseconds since 1970.
pub type TraceClock = fn() -> u64;

/// The tracer of the process.
pub struct Tracer {
    pub(crate) sampler: Sampler,
    pub(crate) queue: SpanQueue,
    pub(crate) clock: TraceClock,
}

impl Tracer {
    /// Creates a tracer that samples a ratio, from 0 to 1, of all traces.
    #[must_use]
    pub fn new(ratio: f64, clock: TraceClock) -> Arc<Self> {
        Arc::new(Self { sampler: Sampler::new(ratio), queue: SpanQueue::default(), clock })
    }

    /// Changes the ratio.
    pub fn set_ratio(&self, ratio: f64) {
        self.sampler.set_ratio(ratio);
    }

    /// Returns the counts of spans.
    #[must_use]
    pub fn figures(&self) -> TraceFigures {
        self.queue.figures()
    }

    /// Waits until a whole batch of spans waits.
    pub async fn wait_for_batch(&self) {
        self.queue.wait_for_batch().await;
    }

    /// Takes the oldest spans, at most a batch. The caller reports the end of each span by
    /// [`Tracer::note_exported`] or [`Tracer::note_dropped`].
    #[must_use]
    pub fn take_batch(&self) -> Vec<FinishedSpan> {
        self.queue.take_batch()
    }

    /// Counts spans that a collector accepted.
    pub fn note_exported(&self, spans: u64) {
        self.queue.note_exported(spans);
    }

    /// Counts spans that no collector got or accepted.
    pub fn note_dropped(&self, spans: u64) {
        self.queue.note_dropped(spans);
    }

    /// Returns the moment as both clocks show it.
    pub(crate) fn now(&self) -> ClockReading {
        ClockReading { machine: (self.clock)(), process: Instant::now() }
    }
}

/// A moment in two clocks. The spans of a trace are measured by the clock that nobody can set.
#[derive(Clone, Copy)]
pub(crate) struct ClockReading {
    /// Nanoseconds since 1970.
    machine: u64,
    process: Instant,
}

impl ClockReading {
    /// Returns a later moment, in nanoseconds since 1970.
    pub(crate) fn at(&self, moment: Instant) -> u64 {
        let later = moment.saturating_duration_since(self.process).as_nanos();
        self.machine.saturating_add(u64::try_from(later).unwrap_or(u64::MAX))
    }
}

/// Returns a random number that is never 0.
pub(crate) fn random_id() -> u64 {
    let mut bytes = [0; 8];
    // A machine without randomness does not get as far as a trace.
    _ = rand::fill(&mut bytes);
    u64::from_ne_bytes(bytes).max(1)
}
