//! The position of an unfinished migration: a row of the destination, which the transaction of each
//! batch replaces.

use aws_lc_rs::digest;
use bulkhead_wire::hexadecimal;
use serde_json::{Value, json};

use crate::identity;
use crate::snapshot::push_record;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::MetaChange;
use bulkhead_record::raw_record::RawRecord;

/// The number of the form of the row.
const FORM: u64 = 1;

/// The digest before the first record.
const NO_RECORDS: &str = "none";

/// The position of an unfinished migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MigrationPosition {
    /// Public name of the cluster of the source.
    pub(super) cluster: String,
    /// Number of copied records.
    pub(super) records: u64,
    /// Digest of the copied records in their order, in hexadecimal.
    digest: String,
}

impl MigrationPosition {
    /// Returns the position before the first record.
    pub(super) fn of(cluster: &str) -> MigrationPosition {
        let digest = NO_RECORDS.to_owned();
        MigrationPosition { cluster: cluster.to_owned(), records: 0, digest }
    }

    /// Moves the position behind the next record.
    ///
    /// # Errors
    /// A record of 4 GiB or more.
    pub(super) fn pass(&mut self, record: &RawRecord) -> Result<(), StoreFault> {
        let mut content = std::mem::take(&mut self.digest).into_bytes();
        push_record(&mut content, record)?;
        self.digest = hexadecimal::text(digest::digest(&digest::SHA256, &content).as_ref());
        self.records = self.records.saturating_add(1);
        Ok(())
    }

    /// Returns the change that writes the row.
    pub(super) fn row(&self) -> MetaChange {
        let MigrationPosition { cluster, records, digest } = self;
        let text =
            json!({ "form": FORM, "cluster": cluster, "records": records, "digest": digest });
        identity::migration_row(Some(text.to_string().into_bytes()))
    }

    /// Parses the row.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] for a row that this version never writes.
    pub(super) fn parse(row: &[u8]) -> Result<MigrationPosition, StoreFault> {
        Self::read(row).ok_or_else(|| {
            StoreFault::Refused(
                "the destination holds an unfinished migration of another version of Bulkhead; \
                 run that version again, or empty the destination"
                    .to_owned(),
            )
        })
    }

    fn read(row: &[u8]) -> Option<MigrationPosition> {
        let row: Value = serde_json::from_slice(row).ok()?;
        let text = |name: &str| row.get(name)?.as_str().map(str::to_owned);
        let number = |name: &str| row.get(name)?.as_u64();
        (number("form")? == FORM).then_some(())?;
        Some(MigrationPosition {
            cluster: text("cluster")?,
            records: number("records")?,
            digest: text("digest")?,
        })
    }
}

#[cfg(test)]
mod tests;
