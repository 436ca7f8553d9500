//! Kinds of units of work: of a mount that counts revisions, within a limit, in one commit, and in
//! the turn of a request.

use super::{Part, Unit};
use crate::counted::StoredLimit;
use crate::fault::StoreFault;
use crate::store::Store;
use crate::turns::Turn;
use std::sync::Arc;

impl Store {
    /// Begins a unit of work. Costs nothing until it reads.
    pub fn begin(self: &Arc<Self>) -> Unit {
        Unit {
            store: Arc::clone(self),
            work: Part::default(),
            host: None,
            mount: None,
            wrote: false,
            checkpoints: 0,
            is_whole: false,
            spoiled: None,
            limit: None,
            turn: None,
        }
    }

    /// Begins a unit of work of a mount that has revisions: each of its commits that changes data
    /// of the mount (records of [`Space::Data`] below `<mount>/`) counts, and numbers what it puts.
    pub fn begin_revised(self: &Arc<Self>, mount: &str) -> Unit {
        Unit { mount: Some(mount.to_owned()), ..self.begin() }
    }
}

impl Unit {
    /// As a unit that takes its mount to this limit at most.
    #[must_use]
    pub fn within(self, limit: &Arc<StoredLimit>) -> Unit {
        Unit { limit: Some(Arc::clone(limit)), ..self }
    }

    /// As a unit that stores everything in one commit or nothing: a checkpoint fails.
    #[must_use]
    pub fn whole(self) -> Unit {
        Unit { is_whole: true, ..self }
    }

    /// As a unit of the request with this place: the unit reports its conflicts, and gives way to
    /// another request's turn. For callers who wait for their [`Turn`] and begin anew.
    #[must_use]
    pub fn in_turn(self, turn: &Turn) -> Unit {
        Unit { turn: Some(Arc::clone(turn.state())), ..self }
    }

    /// Refuses a checkpoint of a unit that stores everything in one commit. The unit is then
    /// spoiled: a caller that ignores the failure must not store a part of the work.
    pub(super) fn check_parts(&mut self) -> Result<(), StoreFault> {
        if !self.is_whole {
            return Ok(());
        }
        let message = "this work is committed at once or not at all, so that it cannot be stored \
                       in parts: at most 2,048 records and 3 MiB";
        let fault = StoreFault::TooLarge(message.to_owned());
        self.spoiled = Some(fault.clone());
        Err(fault)
    }
}
