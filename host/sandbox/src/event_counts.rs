//! Counts of rare events since the store was opened: changes of versions, and loads of compiled
//! code.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// An event of a small set.
pub trait CountedEvent: Copy + Eq + 'static {
    /// All events of the set, at most 3.
    const ALL: &'static [Self];

    /// Returns the value of the label.
    fn word(self) -> &'static str;
}

/// The outcome of a change of a mount's plugin version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginSwap {
    /// Another version serves.
    Done,
    /// The version before serves on.
    Refused,
    /// The version before serves again, because the new version crashed.
    RolledBack,
}

impl CountedEvent for PluginSwap {
    const ALL: &'static [Self] = &[Self::Done, Self::Refused, Self::RolledBack];

    fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::RolledBack => "rolled-back",
        }
    }
}

/// The source of a component's compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeSource {
    /// The store.
    Stored,
    /// The compiler, because the store has no code of this build.
    Compiled,
}

impl CountedEvent for CodeSource {
    const ALL: &'static [Self] = &[Self::Stored, Self::Compiled];

    fn word(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Compiled => "compiled",
        }
    }
}

/// Counts of the events of a set.
#[derive(Debug)]
pub struct EventCounts<E> {
    /// In the order of [`CountedEvent::ALL`].
    counts: [AtomicU64; 3],
    events: PhantomData<E>,
}

impl<E> Default for EventCounts<E> {
    fn default() -> Self {
        Self { counts: Default::default(), events: PhantomData }
    }
}

impl<E: CountedEvent> EventCounts<E> {
    /// Counts an event.
    pub fn note(&self, event: E) {
        let place = E::ALL.iter().position(|other| *other == event);
        if let Some(count) = place.and_then(|place| self.counts.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the word and the number of each event, also of events that did not happen.
    #[must_use]
    pub fn read(&self) -> Vec<(&'static str, u64)> {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        E::ALL.iter().map(|event| event.word()).zip(counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_count_by_word() {
        let swaps = EventCounts::default();
        swaps.note(PluginSwap::RolledBack);
        assert_eq!(swaps.read(), [("done", 0), ("refused", 0), ("rolled-back", 1)]);
        let loads = EventCounts::default();
        loads.note(CodeSource::Stored);
        assert_eq!(loads.read(), [("stored", 1), ("compiled", 0)]);
    }
}
