//! The choice of the message at which a connection is cut.

use super::Direction;
use super::message::is_query_with;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A message of all connections and both directions, counted from the choice on.
#[derive(Clone, Copy, Debug)]
pub enum MessageChoice {
    /// The message with this number, from 1.
    Number(u32),
    /// The next simple query of a client with this part in its text.
    Query(&'static str),
}

/// Place of the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutPlace {
    /// Nothing of the message arrives.
    Before,
    /// The first half of the message arrives.
    Within,
    /// The message arrives, and nothing after it.
    After,
}

/// The next cut, if any.
#[derive(Default)]
pub(super) struct CutPlan(Mutex<PlannedCut>);

#[derive(Default)]
struct PlannedCut {
    next: Option<(MessageChoice, CutPlace)>,
    has_cut: bool,
}

impl CutPlan {
    pub(super) fn set(&self, choice: MessageChoice, place: CutPlace) {
        *self.lock() = PlannedCut { next: Some((choice, place)), has_cut: false };
    }

    /// Returns true if the connection was cut.
    pub(super) fn has_cut(&self) -> bool {
        self.lock().has_cut
    }

    /// Forgets the cut. Returns true if the connection was cut.
    pub(super) fn clear(&self) -> bool {
        std::mem::take(&mut *self.lock()).has_cut
    }

    /// Counts a message. Returns the place if its connection must be cut.
    pub(super) fn place_for(&self, direction: Direction, message: &[u8]) -> Option<CutPlace> {
        let mut planned = self.lock();
        let (choice, place) = planned.next.as_mut()?;
        let is_chosen = match choice {
            MessageChoice::Number(left) => {
                *left = left.saturating_sub(1);
                *left == 0
            }
            MessageChoice::Query(part) => {
                direction == Direction::ToServer && is_query_with(message, part)
            }
        };
        let place = is_chosen.then_some(*place)?;
        *planned = PlannedCut { next: None, has_cut: true };
        Some(place)
    }

    fn lock(&self) -> MutexGuard<'_, PlannedCut> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
