//! The rows of the identity, by name. Numbers are decimal text.

use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::{MetaChange, MetaRows};
use bulkhead_record::root_seals::{AutomaticRoot, AutomaticSeal, HolderSeal};
use bulkhead_record::shamir::SealConfig;

/// Names of the rows.
pub(super) mod row {
    pub(in crate::identity) const FORMAT: &str = "format";
    pub(in crate::identity) const CLUSTER: &str = "cluster";
    /// The split of the holders' key and the root key sealed by that key; all three are absent if
    /// nobody holds shares.
    pub(in crate::identity) const SHARES: &str = "shares";
    pub(in crate::identity) const THRESHOLD: &str = "threshold";
    pub(in crate::identity) const ROOT: &str = "root";
    /// The automatic seal and the root key sealed by its key; all four are absent without such a
    /// seal.
    pub(in crate::identity) const SEAL_KIND: &str = "seal-kind";
    pub(in crate::identity) const SEAL_KEY_ID: &str = "seal-key-id";
    pub(in crate::identity) const SEAL_WRAPPED_KEY: &str = "seal-wrapped-key";
    pub(in crate::identity) const SEAL_ROOT: &str = "seal-root";
    pub(in crate::identity) use bulkhead_record::meta_rows::KEYRING;
    /// The store time at which the data were restored from a snapshot, in milliseconds. No due work
    /// runs before a person removes the row.
    pub(in crate::identity) use bulkhead_record::meta_rows::RESTORED;
    /// The store time that the data have reached, in milliseconds; absent in data of an earlier
    /// release.
    pub(in crate::identity) use bulkhead_record::meta_rows::TIME;
    /// The position of a migration that is not complete, instead of all rows above.
    pub(in crate::identity) const MIGRATION: &str = "migration";
    /// The place to which the data were migrated.
    pub(in crate::identity) const MIGRATED: &str = "migrated";

    /// The rows that a migration copies.
    pub(in crate::identity) const COPIED: [&str; 12] = [
        FORMAT,
        CLUSTER,
        SHARES,
        THRESHOLD,
        ROOT,
        SEAL_KIND,
        SEAL_KEY_ID,
        SEAL_WRAPPED_KEY,
        SEAL_ROOT,
        KEYRING,
        TIME,
        RESTORED,
    ];
    /// The rows that belong to a database and not to its data.
    pub(in crate::identity) const OF_DATABASE: [&str; 3] = ["schema", MIGRATION, MIGRATED];
}

/// Returns the rows that a migration copies, as changes of another database.
///
/// # Errors
/// The name of a row that this version never writes.
pub(crate) fn copied_rows(rows: &MetaRows) -> Result<Vec<MetaChange>, String> {
    let is_of_database = |name: &str| row::OF_DATABASE.contains(&name);
    let mut copied = Vec::with_capacity(rows.len());
    for (name, value) in rows.iter().filter(|(name, _)| !is_of_database(name)) {
        let name = row::COPIED.iter().find(|copied| *copied == name).ok_or_else(|| name.clone())?;
        copied.push((*name, Some(value.clone())));
    }
    Ok(copied)
}

/// Returns the row of the position of a migration, or the removal of the row.
pub(crate) fn migration_row(position: Option<Vec<u8>>) -> MetaChange {
    (row::MIGRATION, position)
}

/// Returns the value of the row of [`migration_row`].
pub(crate) fn migration_position(rows: &MetaRows) -> Option<&[u8]> {
    rows.get(row::MIGRATION).map(Vec::as_slice)
}

/// Returns the row of the sealed keyring.
pub(crate) fn keyring_row(sealed: &[u8]) -> MetaChange {
    (row::KEYRING, Some(sealed.to_vec()))
}

/// Returns the sealed keyring.
///
/// # Errors
/// [`StoreFault::Refused`] without the row.
pub(crate) fn keyring_of(rows: &MetaRows) -> Result<&[u8], StoreFault> {
    rows.get(row::KEYRING).map(Vec::as_slice).ok_or_else(|| {
        StoreFault::Refused(
            "the database has lost the row of the keyring; restore the database from a backup"
                .to_owned(),
        )
    })
}

/// Returns the rows of the root key sealed for the holders, and of the split; the removal of these
/// rows if nobody holds shares.
pub(crate) fn holders_rows(holders: Option<&HolderSeal>) -> Vec<MetaChange> {
    let count = |number: u8| number.to_string().into_bytes();
    vec![
        (row::SHARES, holders.map(|holders| count(holders.config.shares))),
        (row::THRESHOLD, holders.map(|holders| count(holders.config.threshold))),
        (row::ROOT, holders.map(|holders| holders.root.clone())),
    ]
}

/// Returns the rows of the automatic seal, or the removal of these rows.
pub(crate) fn automatic_rows(automatic: Option<&AutomaticRoot>) -> Vec<MetaChange> {
    let seal = automatic.map(|automatic| &automatic.seal);
    vec![
        (row::SEAL_KIND, seal.map(|seal| seal.kind.clone().into_bytes())),
        (row::SEAL_KEY_ID, seal.map(|seal| seal.key_id.clone().into_bytes())),
        (row::SEAL_WRAPPED_KEY, seal.map(|seal| seal.wrapped_key.clone())),
        (row::SEAL_ROOT, automatic.map(|automatic| automatic.root.clone())),
    ]
}

/// Reads the root key sealed for the holders; `None` if nobody holds shares.
///
/// # Errors
/// The name of a row that is missing beside others, or damaged.
pub(super) fn read_holders(rows: &MetaRows) -> Result<Option<HolderSeal>, &'static str> {
    let names = [row::SHARES, row::THRESHOLD, row::ROOT];
    if !names.iter().any(|name| rows.contains_key(*name)) {
        return Ok(None);
    }
    let count = |name| rows.get(name).and_then(|text| number(text)).ok_or(name);
    let (shares, threshold) = (count(row::SHARES)?, count(row::THRESHOLD)?);
    let config = SealConfig::new(shares, threshold).map_err(|_| row::THRESHOLD)?;
    let root = rows.get(row::ROOT).cloned().ok_or(row::ROOT)?;
    Ok(Some(HolderSeal { config, root }))
}

/// Reads the automatic seal; `None` if there is no such seal.
///
/// # Errors
/// As [`read_holders`].
pub(super) fn read_automatic(rows: &MetaRows) -> Result<Option<AutomaticRoot>, &'static str> {
    if !rows.contains_key(row::SEAL_KIND) {
        return Ok(None);
    }
    let bytes = |name| rows.get(name).cloned().ok_or(name);
    let text = |name| String::from_utf8(bytes(name)?).map_err(|_| name);
    let seal = AutomaticSeal {
        kind: text(row::SEAL_KIND)?,
        key_id: text(row::SEAL_KEY_ID)?,
        wrapped_key: bytes(row::SEAL_WRAPPED_KEY)?,
    };
    Ok(Some(AutomaticRoot { seal, root: bytes(row::SEAL_ROOT)? }))
}

/// Returns the rows that note a restore at the store time `at` of data with these `rows`. The time
/// that the data have reached becomes `at`, unless it is later.
pub(crate) fn restore_rows(rows: &MetaRows, at: u64) -> Vec<MetaChange> {
    let reached = rows.get(row::TIME).and_then(|text| number(text)).unwrap_or_default();
    vec![time_row(reached.max(at)), restored_row(Some(at))]
}

/// Returns the note of a restore at the store time `at`, or the removal of the note.
pub(crate) fn restored_row(at: Option<u64>) -> MetaChange {
    (row::RESTORED, at.map(|at| at.to_string().into_bytes()))
}

/// Returns the row of the store time that the data have reached.
pub(crate) fn time_row(reached: u64) -> MetaChange {
    (row::TIME, Some(reached.to_string().into_bytes()))
}

/// Reads a number of decimal text.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
