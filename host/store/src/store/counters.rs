//! Counters of stored bytes, as queries ask for them.

use super::Store;
use crate::fault::StoreFault;
use crate::script::StatementBatch;
use crate::stored;
use crate::stored_limit::StoredLimit;
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

impl Store {
    /// Checks that something can still be stored within `limit`. Without a query if memory knows
    /// that there is room.
    ///
    /// # Errors
    /// [`StoreFault::OverLimit`] if the limit is reached, [`StoreFault::Unavailable`] if the
    /// database cannot be read.
    pub async fn assert_room(&self, limit: &StoredLimit) -> Result<(), StoreFault> {
        if self.data.stored.has_room(&limit.counter, 1, limit.most) {
            return Ok(());
        }
        let mut question = StatementBatch::default();
        stored::ask_bytes(&mut question, &limit.counter)?;
        let stored = stored::parse_bytes(&self.database().snapshot(question).await?, 0)?;
        if stored >= limit.most { Err(limit.full(stored)) } else { Ok(()) }
    }

    /// Returns the bytes that each mount stores, by the first segment of the mount's keys: rows of
    /// data, leases, reservations and timers. Mounts without a row are left out.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn stored_bytes(&self) -> Result<BTreeMap<String, u64>, StoreFault> {
        let query = sqlx::query_as("SELECT mount, bytes FROM stored WHERE instr(mount, '/') = 0");
        let read = async |connection: &mut SqliteConnection| query.fetch_all(connection).await;
        let counted: Vec<(String, i64)> = self.database().readers().read(read).await?;
        let bytes = |(mount, bytes)| Some((mount, u64::try_from(bytes).ok()?));
        Ok(counted.into_iter().filter_map(bytes).collect())
    }
}
