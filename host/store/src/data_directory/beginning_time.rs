//! Store time at the opening of a database that other nodes share.

use super::DataDirectory;
use crate::database::Database;
use crate::database_clock::{self, ClockReading};
use bulkhead_place::claim_watch::NodeSharing;
use bulkhead_record::fault::StoreFault;

/// Number of readings of the clock of the database server, of which the best counts.
const READINGS: usize = 3;

impl DataDirectory {
    /// Begins store time at the clock of the database server if other nodes share the database.
    ///
    /// # Errors
    /// As [`database_clock::begin_at`].
    pub(super) async fn begin_time(&self, database: &Database) -> Result<(), StoreFault> {
        if self.sharing != NodeSharing::Shared {
            return Ok(());
        }
        let mut readings = Vec::with_capacity(READINGS);
        for _ in 0..READINGS {
            let before = self.clock.steady_time();
            if let Some(database) = database.read_clock().await? {
                let after = self.clock.steady_time();
                readings.push(ClockReading { asked: (before, after), database });
            }
        }
        database_clock::begin_at(&self.clock, &readings)
    }
}
