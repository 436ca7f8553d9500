//! Admission to the engine's pool of instances: who waits, and who gives way.
//!
//! Every instance has its place here, the idle ones too. A call that finds no place free takes that of an idle
//! instance before it waits, whichever mount keeps it.

use crate::engine::Sandbox;
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// Places in the pool of instances. A root call takes them once and holds them until it ends.
pub struct Admission(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Sandbox {
    /// Waits for room for `instances` instances (two for routes that reach a database plugin, so that
    /// a nested call never waits for an instance that its own caller holds).
    ///
    /// # Errors
    /// `unavailable` when there is none until `deadline`.
    pub async fn admit(&self, instances: u32, deadline: Instant) -> Result<Admission, Failure> {
        if let Some(admission) = self.admit_at_once(instances) {
            return Ok(admission);
        }
        let room = Arc::clone(&self.runtime.admission).acquire_many_owned(instances);
        // In this order: a place that becomes free belongs to whoever waits first, and not to an instance that a call
        // which just ended would like to keep.
        let waiting = async { tokio::join!(biased; room, async { self.shelves.make_room(instances) }).0 };
        match tokio::time::timeout_at(deadline, waiting).await {
            Ok(Ok(permit)) => Ok(Admission(permit)),
            Ok(Err(_)) | Err(_) => {
                Err(Failure::new(Kind::Unavailable, "all plugin instances are busy; try again later"))
            }
        }
    }

    /// Room for `instances` instances, if there is some that nobody waits for.
    pub(crate) fn admit_at_once(&self, instances: u32) -> Option<Admission> {
        Arc::clone(&self.runtime.admission).try_acquire_many_owned(instances).ok().map(Admission)
    }
}
