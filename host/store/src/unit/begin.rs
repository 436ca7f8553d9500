//! Kinds of units of work: of a mount that counts revisions, within a limit, in one commit, and in
//! the turn of a request.

use super::{Unit, UnitPart};
use crate::store::Store;
use crate::write_queue::QueueTicket;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::Address;
use bulkhead_record::stored_limit::StoredLimit;
use std::sync::Arc;

impl Store {
    /// Begins a unit of work. The unit costs nothing before its first read.
    pub fn begin(self: &Arc<Self>) -> Unit {
        Unit {
            store: Arc::clone(self),
            work: UnitPart::default(),
            host: None,
            mount: None,
            wrote: false,
            checkpoints: 0,
            is_whole: false,
            spoiled: None,
            limits: Vec::new(),
            turn: None,
        }
    }

    /// Begins a unit of work of a mount with revisions: a commit that changes data of the mount
    /// (records of [`Space::Data`] below `<mount>/`) raises the revision, and the records that the
    /// commit puts carry the number.
    pub fn begin_revised(self: &Arc<Self>, mount: &str) -> Unit {
        Unit { mount: Some(mount.to_owned()), ..self.begin() }
    }
}

impl Unit {
    /// Bounds stored bytes by `limit`, besides the limits that the unit has.
    #[must_use]
    pub fn with_limit(mut self, limit: &Arc<StoredLimit>) -> Unit {
        self.add_limit(limit);
        self
    }

    /// Bounds stored bytes by `limit`, besides the limits that the unit has.
    pub fn add_limit(&mut self, limit: &Arc<StoredLimit>) {
        self.limits.push(Arc::clone(limit));
    }

    /// Stores everything in one commit or nothing: a checkpoint fails.
    #[must_use]
    pub fn whole(self) -> Unit {
        Unit { is_whole: true, ..self }
    }

    /// Joins the turn of a request: the unit reports its conflicts and yields to the turn of
    /// another request. For callers that wait for their [`QueueTicket`] and begin again.
    #[must_use]
    pub fn with_ticket(self, turn: &QueueTicket) -> Unit {
        Unit { turn: Some(Arc::clone(turn.state())), ..self }
    }

    /// Refuses a checkpoint of a unit that stores everything in one commit. The unit is then
    /// spoiled: a caller that ignores the failure must not store a part of the work.
    pub(super) fn check_parts(&mut self) -> Result<(), StoreFault> {
        if !self.is_whole {
            return Ok(());
        }
        let message = "this work needs a single commit, of at most 2,048 records and 3 MiB, and \
                       cannot be stored in parts";
        let fault = StoreFault::TooLarge(message.to_owned());
        self.spoiled = Some(fault.clone());
        Err(fault)
    }

    /// Checks that no other request has its turn for the record, which the unit is going to write.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] during the turn of another request, which the commit would get.
    pub fn give_way(&self, address: &Address) -> Result<(), StoreFault> {
        let gives_way = self.turn.as_ref().is_some_and(|turn| turn.gives_way(address));
        if gives_way { Err(StoreFault::Conflict) } else { Ok(()) }
    }
}
