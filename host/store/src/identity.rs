//! The identity of a database, read before the database is used: format, cluster, the seals of the
//! root key, and the sealed keys that prove a key right.
//!
//! This file prevents a server started with the wrong key or on the wrong directory from mixing its
//! records with records sealed by another key; no single key would open such data. Nothing is
//! written before format, cluster and key agree.

mod meta;
pub(crate) mod migration_mark;

use std::path::Path;

use crate::database::DatabasePlace;
use aws_lc_rs::digest;
use bulkhead_place::directory;
use bulkhead_record::cipher::{self, ClusterId, SealKey};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::keyring::{Keyring, RootKey};
use bulkhead_record::meta_rows::{FORMAT, MetaChange, MetaRows};
use bulkhead_record::root_seals::{AutomaticRoot, DataSeals, FirstKeys, HolderSeal};
use bulkhead_record::seal::Seal;
use bulkhead_wire::hexadecimal;
pub(crate) use meta::{
    automatic_rows, copied_rows, holders_rows, keyring_of, keyring_row, migration_position,
    migration_row, restore_rows, restored_row, time_row,
};
use meta::{number, row};

/// The rows of `meta` in the format of this version. Only the keys are secret, and the keys are
/// sealed.
pub(crate) struct StoreIdentity {
    cluster: ClusterId,
    /// At least one of the two seals of the root key is there.
    holders: Option<HolderSeal>,
    automatic: Option<AutomaticRoot>,
    /// The keyring, sealed by the root key.
    keyring: Vec<u8>,
    /// The store time that the data have reached, in milliseconds.
    reached: u64,
    /// The store time of the restore from a snapshot, in milliseconds; `None` if the data were not
    /// restored, or released since.
    restored: Option<u64>,
}

impl StoreIdentity {
    /// Generates a new cluster and the seal. The first term begins at `installed` (store time,
    /// milliseconds).
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if there is no randomness.
    pub(crate) fn generate(
        keys: FirstKeys<'_>,
        installed: u64,
    ) -> Result<(StoreIdentity, Seal), StoreFault> {
        let cluster: ClusterId = cipher::random()?;
        let (root, keyring) = (RootKey::generate()?, Keyring::generate(installed)?);
        let holders = keys.holders.map(|holders| HolderSeal::make(&root, &cluster, holders));
        let automatic = keys.automatic.map(|seal| AutomaticRoot::make(&root, &cluster, seal));
        let sealed = root.seal_keyring(&cluster, &keyring)?;
        let identity = StoreIdentity {
            cluster,
            holders: holders.transpose()?,
            automatic: automatic.transpose()?,
            keyring: sealed,
            reached: installed,
            restored: None,
        };
        Ok((identity, Seal::new(cluster, root, keyring)))
    }

    /// Returns the rows of the identity.
    pub(crate) fn rows(&self) -> Vec<MetaChange> {
        let mut rows = seal_rows(self.holders(), self.automatic());
        rows.retain(|(_, value)| value.is_some());
        rows.extend([
            (row::FORMAT, Some(FORMAT.as_bytes().to_vec())),
            (row::CLUSTER, Some(self.cluster.to_vec())),
            keyring_row(&self.keyring),
            time_row(self.reached),
        ]);
        rows
    }

    /// Reads the identity from the rows of the database at `path`.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if a row is missing or damaged.
    pub(crate) fn of_rows(rows: &MetaRows, path: &Path) -> Result<StoreIdentity, StoreFault> {
        let lost = |name| {
            let fault = format!("has lost or damaged the row {name:?} of the store's identity");
            directory::unusable(path, &fault)
        };
        let time = |name| match rows.get(name) {
            Some(text) => number(text).map(Some).ok_or_else(|| lost(name)),
            None => Ok(None),
        };
        let holders = meta::read_holders(rows).map_err(lost)?;
        let automatic = meta::read_automatic(rows).map_err(lost)?;
        if holders.is_none() && automatic.is_none() {
            return Err(lost(row::ROOT));
        }
        let cluster = rows.get(row::CLUSTER).and_then(|id| id.as_slice().try_into().ok());
        Ok(StoreIdentity {
            reached: time(row::TIME)?.unwrap_or_default(),
            restored: time(row::RESTORED)?,
            cluster: cluster.ok_or_else(|| lost(row::CLUSTER))?,
            holders,
            automatic,
            keyring: rows.get(row::KEYRING).cloned().ok_or_else(|| lost(row::KEYRING))?,
        })
    }

    /// Opens the seal with the key of the holders.
    ///
    /// # Errors
    /// [`StoreFault::WrongKey`] if `key` does not open the root key: another key, the key of
    /// another cluster, an edited cluster or configuration, or data without holders.
    /// [`StoreFault::Refused`] if `key` is right but the keyring was edited.
    pub(crate) fn open(&self, key: &SealKey, place: &Path) -> Result<Seal, StoreFault> {
        let root = match &self.holders {
            Some(holders) => holders.open(key, &self.cluster)?,
            None => None,
        };
        self.open_keyring(root, place)
    }

    /// Opens the seal with the key of the automatic seal.
    ///
    /// # Errors
    /// As [`StoreIdentity::open`].
    pub(crate) fn open_automatically(
        &self,
        key: &SealKey,
        place: &Path,
    ) -> Result<Seal, StoreFault> {
        let root = match &self.automatic {
            Some(automatic) => automatic.open(key, &self.cluster)?,
            None => None,
        };
        self.open_keyring(root, place)
    }

    /// Opens the seal with the root key of another opened seal.
    ///
    /// # Errors
    /// [`StoreFault::WrongKey`] if the keyring has another root key.
    pub(crate) fn open_like(&self, opened: &Seal) -> Result<Seal, StoreFault> {
        let keyring = opened.root().open_keyring(&self.cluster, &self.keyring)?;
        let keyring = keyring.ok_or(StoreFault::WrongKey)?;
        Ok(Seal::new(self.cluster, opened.root().copy(), keyring))
    }

    /// Returns whether the data are of the cluster of `seal`.
    pub(crate) fn is_of(&self, seal: &Seal) -> bool {
        self.cluster == *seal.cluster()
    }

    fn open_keyring(&self, root: Option<RootKey>, place: &Path) -> Result<Seal, StoreFault> {
        let root = root.ok_or(StoreFault::WrongKey)?;
        let keyring = root.open_keyring(&self.cluster, &self.keyring)?.ok_or_else(|| {
            StoreFault::Refused(format!(
                "the key is right, but the keyring in {} was changed outside of Bulkhead; restore \
                 the data directory from a backup",
                place.display()
            ))
        })?;
        Ok(Seal::new(self.cluster, root, keyring))
    }

    /// Returns the sealed keyring, which differs between any two initialisations.
    pub(crate) fn sealed_keyring(&self) -> &[u8] {
        &self.keyring
    }

    /// Returns the root key sealed for the holders.
    pub(crate) fn holders(&self) -> Option<&HolderSeal> {
        self.holders.as_ref()
    }

    /// Returns the root key sealed by the automatic seal.
    pub(crate) fn automatic(&self) -> Option<&AutomaticRoot> {
        self.automatic.as_ref()
    }

    /// Returns the ways in which the data can be opened.
    pub(crate) fn seals(&self) -> DataSeals {
        DataSeals {
            holders: self.holders.as_ref().map(|holders| holders.config),
            automatic: self.automatic.as_ref().map(|automatic| automatic.seal.clone()),
        }
    }

    /// Returns the store time that the data have reached. No process begins before that time.
    pub(crate) fn reached(&self) -> u64 {
        self.reached
    }

    /// Returns the store time of the restore; `None` if the data do not wait for a release.
    pub(crate) fn restored(&self) -> Option<u64> {
        self.restored
    }

    /// Returns the cluster's public name, a UUID: a hash of the cluster id, so that the id, a part
    /// of every label, is not published.
    pub(crate) fn cluster_name(&self) -> String {
        let hash = digest::digest(
            &digest::SHA256,
            &[b"bulkhead: name of the cluster".as_slice(), &self.cluster].concat(),
        );
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(hash.as_ref()).for_each(|(byte, hashed)| *byte = *hashed);
        // Version 8 (custom) and the variant of RFC 9562.
        let number = u128::from_be_bytes(bytes);
        let number = number & !(0xf << 76) & !(0x3 << 62) | 8 << 76 | 2 << 62;
        let digits = hexadecimal::text(&number.to_be_bytes());
        let mut name = String::with_capacity(36);
        for (position, digit) in digits.chars().enumerate() {
            if matches!(position, 8 | 12 | 16 | 20) {
                name.push('-');
            }
            name.push(digit);
        }
        name
    }
}

/// Returns the rows of both seals of the root key; a seal that is missing has no rows.
pub(crate) fn seal_rows(
    holders: Option<&HolderSeal>,
    automatic: Option<&AutomaticRoot>,
) -> Vec<MetaChange> {
    let mut rows = holders_rows(holders);
    rows.extend(automatic_rows(automatic));
    rows
}

/// Reads the identity of the database at `place` without writing to the database; `None` if
/// nothing was initialised.
///
/// # Errors
/// [`StoreFault::Refused`] if the database is of another program, or lacks a part of the identity;
/// [`StoreFault::OtherFormat`]; [`StoreFault::Unavailable`] if the database cannot be read.
pub(crate) async fn read(place: DatabasePlace<'_>) -> Result<Option<StoreIdentity>, StoreFault> {
    let rows = place.read_identity().await?;
    rows.map(|rows| of_own_format(&rows, &place.name())).transpose()
}

/// Reads the identity like [`read`], for a process that will write to the database.
///
/// # Errors
/// As [`read`]; [`StoreFault::Refused`] if the data were migrated to another database.
pub(crate) async fn read_for_start(
    place: DatabasePlace<'_>,
) -> Result<Option<StoreIdentity>, StoreFault> {
    let Some(rows) = place.read_identity().await? else { return Ok(None) };
    of_rows_for_start(place, &rows).map(Some)
}

/// Reads the identity from the rows of the database at `place` like [`read_for_start`].
///
/// # Errors
/// As [`read_for_start`].
pub(crate) fn of_rows_for_start(
    place: DatabasePlace<'_>,
    rows: &MetaRows,
) -> Result<StoreIdentity, StoreFault> {
    migration_mark::refuse_migrated(place, rows)?;
    of_own_format(rows, &place.name())
}

/// Checks that the database is ours, and creates and changes nothing, unlike [`read`]. A database
/// with the unfinished writes of a dead process is not looked at: no reader could leave its files
/// alone.
///
/// # Errors
/// As [`read_for_start`].
pub(crate) async fn examine(place: DatabasePlace<'_>) -> Result<(), StoreFault> {
    let Some(rows) = place.examine().await? else { return Ok(()) };
    of_rows_for_start(place, &rows).map(drop)
}

/// Reads the identity from the rows of the database at `path`.
///
/// # Errors
/// As [`read`].
pub(crate) fn of_own_format(rows: &MetaRows, path: &Path) -> Result<StoreIdentity, StoreFault> {
    if migration_position(rows).is_some() {
        return Err(StoreFault::Refused(format!(
            "{} holds an unfinished migration and no complete data; run `bulkhead operator \
             migrate` with the same configuration again, or choose another place for the data",
            path.display()
        )));
    }
    let format = rows.get(row::FORMAT).map(Vec::as_slice);
    if format == Some(FORMAT.as_bytes()) {
        return StoreIdentity::of_rows(rows, path);
    }
    let place = path.display().to_string();
    Err(match format.and_then(number) {
        Some(found) => StoreFault::OtherFormat { place, found, known: FORMAT },
        None => StoreFault::Refused(format!(
            "the data in {place} do not say their format; restore the database from a backup"
        )),
    })
}
