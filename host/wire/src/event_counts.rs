//! Counts of the events of a small set, such as the outcomes of an act, shared by threads without
//! a lock.
//!
//! This file prevents an event from counting as another event: the set and the counts have the
//! same length by their type, and an event outside of the set is not counted.

use std::array;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// An event of a set, of which `N` are counted.
pub trait CountedEvent<const N: usize>: Copy + Eq + 'static {
    /// The counted events.
    const COUNTED: [Self; N];
}

/// The number of each event of a set.
#[derive(Debug)]
pub struct EventCounts<E, const N: usize> {
    /// In the order of [`CountedEvent::COUNTED`].
    counts: [AtomicU64; N],
    events: PhantomData<E>,
}

impl<E, const N: usize> Default for EventCounts<E, N> {
    fn default() -> Self {
        Self { counts: array::from_fn(|_| AtomicU64::new(0)), events: PhantomData }
    }
}

impl<E: CountedEvent<N>, const N: usize> EventCounts<E, N> {
    /// Counts an event, unless the event is not of the counted events.
    pub fn note(&self, event: E) {
        let counted =
            E::COUNTED.into_iter().zip(&self.counts).find(|(counted, _)| *counted == event);
        if let Some((_, count)) = counted {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of each event, also of events that did not happen.
    #[must_use]
    pub fn read(&self) -> [(E, u64); N] {
        let mut read = E::COUNTED.map(|event| (event, 0));
        for ((_, number), count) in read.iter_mut().zip(&self.counts) {
            *number = count.load(Ordering::Relaxed);
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Outcome {
        Done,
        Failed,
        Moot,
    }

    impl CountedEvent<2> for Outcome {
        const COUNTED: [Self; 2] = [Self::Done, Self::Failed];
    }

    #[test]
    fn events_outside_of_the_set_count_nowhere() {
        let counts = EventCounts::<Outcome, 2>::default();
        for outcome in [Outcome::Failed, Outcome::Moot, Outcome::Failed] {
            counts.note(outcome);
        }
        assert_eq!(counts.read(), [(Outcome::Done, 0), (Outcome::Failed, 2)]);
    }
}
