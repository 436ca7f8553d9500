//! The check of all records of a data directory or of a snapshot, without changing anything.
//!
//! This file prevents a backup whose damage is found on the day of the restore: with a key, every
//! record is opened as a server would open the record.

use std::path::Path;

use futures_util::TryStreamExt as _;

use super::reading::{open, read_snapshot};
use crate::database::{DatabasePlace, DatabaseReader};
use crate::identity::{self, StoreIdentity};
use bulkhead_place::directory;
use bulkhead_place::options::{DatabaseChoice, StoreOptions};
use bulkhead_record::archive::SUMS_PURPOSE;
use bulkhead_record::archive_reader::damaged;
use bulkhead_record::cipher::SealKey;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::{FORMAT, MetaRows};
use bulkhead_record::raw_record::RawRecord;
use bulkhead_record::record::Address;
use bulkhead_record::row_format::SnapshotRow;
use bulkhead_record::seal::Seal;
use bulkhead_record::shamir::{KeyShare, SealConfig, ShareCollector, ShareProgress};
use bulkhead_record::snapshot_manifest::SnapshotManifest;

/// Maximum number of damages that a report names; the others are counted.
const MAX_DAMAGES: usize = 1_000;

/// A record that was opened.
pub struct OpenedRecord<'a> {
    /// Address of the record.
    pub address: &'a Address,
    /// The body.
    pub body: &'a [u8],
}

/// A damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDamage {
    /// Name of the record, for example `data:<mount uuid>/roles/readonly`, or of another part.
    pub place: String,
    /// Description for the operator.
    pub fault: String,
}

/// The result of a check.
#[derive(Debug)]
pub struct CheckReport {
    /// The manifest, if a snapshot was checked.
    pub manifest: Option<SnapshotManifest>,
    /// Number of records that were read.
    pub records: u64,
    /// Number of records that were opened with the key; `None` without a key.
    pub opened: Option<u64>,
    /// The first damages.
    pub damages: Vec<DataDamage>,
    /// Number of further damages.
    pub more_damages: u64,
}

/// A check in progress.
struct RecordCheck<'a> {
    seal: Option<Seal>,
    report: CheckReport,
    observe: &'a mut dyn FnMut(OpenedRecord<'_>),
}

impl<'a> RecordCheck<'a> {
    fn new(seal: Option<Seal>, observe: &'a mut dyn FnMut(OpenedRecord<'_>)) -> RecordCheck<'a> {
        let report = CheckReport {
            manifest: None,
            records: 0,
            opened: seal.as_ref().map(|_| 0),
            damages: Vec::new(),
            more_damages: 0,
        };
        RecordCheck { seal, report, observe }
    }

    fn report_damage(&mut self, place: impl Into<String>, fault: impl Into<String>) {
        if self.report.damages.len() < MAX_DAMAGES {
            self.report.damages.push(DataDamage { place: place.into(), fault: fault.into() });
        } else {
            self.report.more_damages += 1;
        }
    }

    fn check(&mut self, record: RawRecord) {
        self.report.records += 1;
        let row = match record.into_sealed() {
            Ok(row) => row,
            Err(place) => {
                return self.report_damage(place, "has a kind or a stamp that was never written");
            }
        };
        let Some(seal) = &self.seal else { return };
        let address = row.address.clone();
        match row.open(seal) {
            Ok(record) => {
                self.report.opened = self.report.opened.map(|count| count + 1);
                (self.observe)(OpenedRecord { address: &address, body: &record.body });
            }
            Err(_) => self.report_damage(
                address.to_string(),
                "does not open: the record was changed or moved outside of Bulkhead",
            ),
        }
    }
}

/// Checks the snapshot in `path`. With `shares`, every record is opened and passed to `observe`.
/// Without shares, the structure and the digests are checked.
///
/// # Errors
/// As [`super::inspect_snapshot`]; [`StoreFault::WrongKey`] if the shares do not open the data.
pub async fn check_snapshot(
    path: &Path,
    shares: Vec<KeyShare>,
    observe: &mut dyn FnMut(OpenedRecord<'_>),
) -> Result<CheckReport, StoreFault> {
    // The first reading checks the digests, the second one opens the records.
    let mut identity_rows = Vec::new();
    let summary = read_snapshot(open(path)?, |row| {
        if let SnapshotRow::Identity(name, value) = row {
            identity_rows.push((name, value));
        }
        Ok(())
    })?;
    let identity = read_identity(&identity_rows, path)?;
    let seal = open_seal(&identity, shares, path)?;
    let is_authentic = seal.as_ref().map(|seal| {
        seal.hashes().keyed_hash(SUMS_PURPOSE, summary.sums.as_bytes()) == summary.sealed_sums
    });
    let mut check = RecordCheck::new(seal, observe);
    if is_authentic == Some(false) {
        check.report_damage("SHA256SUMS.sealed", "was not written by the cluster of the snapshot");
    }
    read_snapshot(open(path)?, |row| {
        if let SnapshotRow::Record(record) = row {
            check.check(record);
        }
        Ok(())
    })?;
    Ok(CheckReport { manifest: Some(summary.manifest), ..check.report })
}

/// Checks the data directory `path`, which no server may use at the same time. With `shares`, every
/// record is opened and passed to `observe`. The database is opened read-only.
///
/// # Errors
/// [`StoreFault::Refused`] if a process holds the directory or the database is not ours;
/// [`StoreFault::WrongKey`] if the shares do not open the data; [`StoreFault::Unavailable`] if the
/// database cannot be read.
pub async fn check_directory(
    path: &Path,
    shares: Vec<KeyShare>,
    observe: &mut dyn FnMut(OpenedRecord<'_>),
) -> Result<CheckReport, StoreFault> {
    if !directory::holds_database(path)? {
        return Err(empty(path));
    }
    let _lock = directory::lock_existing(path)?;
    if let Some(file) = directory::find_unfinished_change(path) {
        return Err(StoreFault::Refused(format!(
            "{} is left of an interrupted initialisation or restore, and the check changes \
             nothing; start the server once, then check again",
            file.display()
        )));
    }
    check_place(DatabasePlace::SqliteIn(path), shares, observe).await
}

/// Checks the data of a store. A directory is checked like [`check_directory`]; tables on a server
/// may be in use, and the check sees one state of the tables.
///
/// # Errors
/// As [`check_directory`].
pub async fn check_store(
    options: &StoreOptions,
    shares: Vec<KeyShare>,
    observe: &mut dyn FnMut(OpenedRecord<'_>),
) -> Result<CheckReport, StoreFault> {
    match &options.database {
        DatabaseChoice::SqliteFile => check_directory(&options.directory, shares, observe).await,
        DatabaseChoice::Postgres(place) => {
            check_place(DatabasePlace::Postgres(place), shares, observe).await
        }
    }
}

async fn check_place(
    place: DatabasePlace<'_>,
    shares: Vec<KeyShare>,
    observe: &mut dyn FnMut(OpenedRecord<'_>),
) -> Result<CheckReport, StoreFault> {
    let name = place.name();
    let identity = identity::read(place).await?.ok_or_else(|| empty(&name))?;
    let mut check = RecordCheck::new(open_seal(&identity, shares, &name)?, observe);
    let mut reader = place.open_for_check().await?;
    let read = check_database(&mut reader, &mut check).await;
    reader.close().await;
    // A page that cannot be read ends the reading. The report says so.
    if let Err(fault) = read {
        check.report_damage("the database", fault.to_string());
    }
    Ok(check.report)
}

fn empty(place: &Path) -> StoreFault {
    StoreFault::Refused(format!(
        "{} holds no data; name the data directory of a server, or a snapshot",
        place.display()
    ))
}

/// Lets the database check its file, and checks all records.
async fn check_database(
    reader: &mut DatabaseReader,
    check: &mut RecordCheck<'_>,
) -> Result<(), StoreFault> {
    for fault in reader.find_damage().await? {
        check.report_damage("the database", fault);
    }
    let mut records = reader.records();
    while let Some(record) = records.try_next().await? {
        match record {
            Ok(record) => check.check(record),
            Err(_) => check.report_damage("a record", "has a column of another type"),
        }
    }
    Ok(())
}

/// Reads the identity of a store from its rows in a snapshot, as from a database. Of two rows with
/// the same name, the later counts.
pub(super) fn read_identity(
    rows: &[(String, Vec<u8>)],
    path: &Path,
) -> Result<StoreIdentity, StoreFault> {
    let rows: MetaRows = rows.iter().cloned().collect();
    if rows.get("format").map(Vec::as_slice) != Some(FORMAT.as_bytes()) {
        return Err(damaged("the rows of the store's identity are of another format"));
    }
    StoreIdentity::of_rows(&rows, path)
}

/// Opens the seal with the key of the `shares`, or with the key of the automatic seal; `None`
/// without shares.
fn open_seal(
    identity: &StoreIdentity,
    shares: Vec<KeyShare>,
    path: &Path,
) -> Result<Option<Seal>, StoreFault> {
    if shares.is_empty() {
        return Ok(None);
    }
    if let Some(key) = automatic_key(identity, &shares) {
        match identity.open_automatically(&key, path) {
            Err(StoreFault::WrongKey) => {}
            opened => return opened.map(Some),
        }
    }
    let config = identity.holders().map(|holders| holders.config).ok_or(StoreFault::WrongKey)?;
    let mut collector = ShareCollector::new(config);
    let mut key: Option<SealKey> = None;
    for share in shares {
        if key.is_none() {
            key = collector.add(share).map_err(StoreFault::Refused)?.into_key();
        }
    }
    let key = key.ok_or_else(|| {
        StoreFault::Refused(format!(
            "{} different unseal keys were given, and the data need {}; give more keys",
            collector.count(),
            config.threshold
        ))
    })?;
    identity.open(&key, path).map(Some)
}

/// Returns the only given key, if the key is whole and the data have an automatic seal.
fn automatic_key(identity: &StoreIdentity, shares: &[KeyShare]) -> Option<SealKey> {
    let [share] = shares else { return None };
    identity.automatic()?;
    let progress = ShareCollector::new(SealConfig::SINGLE).add(share.clone());
    progress.ok().and_then(ShareProgress::into_key)
}
