//! The rows of the table `meta`, by name. Numbers are decimal text.

use sqlx::sqlite::SqliteConnection;

use crate::fault::StoreFault;
use crate::root_seals::{AutomaticRoot, AutomaticSeal, HolderSeal};
use crate::script::StatementBatch;
use crate::shamir::SealConfig;

/// Statement that writes a row, replacing an existing row.
const WRITE_ROW: &str = "INSERT INTO meta (name, value) VALUES (?, ?) \
     ON CONFLICT DO UPDATE SET value = excluded.value";

/// Names of the rows.
pub(super) mod row {
    pub(in crate::identity) const FORMAT: &str = "format";
    /// Number of applied schema scripts; absent if only the first was applied.
    pub(in crate::identity) const SCHEMA: &str = "schema";
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
    pub(in crate::identity) const KEYRING: &str = "keyring";
    /// The store time that the data have reached, in milliseconds; absent in data of an earlier
    /// release.
    pub(in crate::identity) const TIME: &str = "time";
    /// The store time at which the data were restored from a snapshot, in milliseconds. No due work
    /// runs before a person removes the row.
    pub(in crate::identity) const RESTORED: &str = "restored";
}

/// Replaces the sealed keyring, in the transaction open on `connection`.
///
/// # Errors
/// The error of SQLite.
pub(crate) async fn replace_keyring(
    connection: &mut SqliteConnection,
    sealed: &[u8],
) -> Result<(), sqlx::Error> {
    write_row(connection, row::KEYRING, sealed).await
}

/// Replaces the root key sealed for the holders and the split, in the transaction open on
/// `connection`.
///
/// # Errors
/// The error of SQLite.
pub(crate) async fn replace_holders(
    connection: &mut SqliteConnection,
    holders: &HolderSeal,
) -> Result<(), sqlx::Error> {
    let HolderSeal { config, root } = holders;
    write_row(connection, row::SHARES, config.shares.to_string().as_bytes()).await?;
    write_row(connection, row::THRESHOLD, config.threshold.to_string().as_bytes()).await?;
    write_row(connection, row::ROOT, root).await
}

/// Replaces or removes the automatic seal, in the transaction open on `connection`.
///
/// # Errors
/// The error of SQLite.
pub(crate) async fn replace_automatic(
    connection: &mut SqliteConnection,
    automatic: Option<&AutomaticRoot>,
) -> Result<(), sqlx::Error> {
    let Some(AutomaticRoot { seal, root }) = automatic else {
        for name in [row::SEAL_KIND, row::SEAL_KEY_ID, row::SEAL_WRAPPED_KEY, row::SEAL_ROOT] {
            let removal = sqlx::query("DELETE FROM meta WHERE name = ?").bind(name);
            removal.execute(&mut *connection).await?;
        }
        return Ok(());
    };
    write_row(connection, row::SEAL_KIND, seal.kind.as_bytes()).await?;
    write_row(connection, row::SEAL_KEY_ID, seal.key_id.as_bytes()).await?;
    write_row(connection, row::SEAL_WRAPPED_KEY, &seal.wrapped_key).await?;
    write_row(connection, row::SEAL_ROOT, root).await
}

/// Reads the root key sealed for the holders; `None` if nobody holds shares.
///
/// # Errors
/// The name of a row that is missing beside others, or damaged; and a failed read.
pub(super) async fn read_holders(
    connection: &mut SqliteConnection,
) -> Result<Option<HolderSeal>, MetaFault> {
    let shares = read_row(connection, row::SHARES).await?;
    let threshold = read_row(connection, row::THRESHOLD).await?;
    let root = read_row(connection, row::ROOT).await?;
    if shares.is_none() && threshold.is_none() && root.is_none() {
        return Ok(None);
    }
    let count = |text: Option<Vec<u8>>, name| {
        text.and_then(|text| number(&text)).ok_or(MetaFault::Lost(name))
    };
    let shares = count(shares, row::SHARES)?;
    let threshold = count(threshold, row::THRESHOLD)?;
    let config = SealConfig::new(shares, threshold).map_err(|_| MetaFault::Lost(row::THRESHOLD))?;
    Ok(Some(HolderSeal { config, root: root.ok_or(MetaFault::Lost(row::ROOT))? }))
}

/// Reads the automatic seal; `None` if there is no such seal.
///
/// # Errors
/// As [`read_holders`].
pub(super) async fn read_automatic(
    connection: &mut SqliteConnection,
) -> Result<Option<AutomaticRoot>, MetaFault> {
    let Some(kind) = read_row(connection, row::SEAL_KIND).await? else { return Ok(None) };
    let text = |bytes: Option<Vec<u8>>, name| {
        bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(MetaFault::Lost(name))
    };
    let key_id = read_row(connection, row::SEAL_KEY_ID).await?;
    let wrapped_key = read_row(connection, row::SEAL_WRAPPED_KEY).await?;
    let root = read_row(connection, row::SEAL_ROOT).await?;
    let seal = AutomaticSeal {
        kind: text(Some(kind), row::SEAL_KIND)?,
        key_id: text(key_id, row::SEAL_KEY_ID)?,
        wrapped_key: wrapped_key.ok_or(MetaFault::Lost(row::SEAL_WRAPPED_KEY))?,
    };
    Ok(Some(AutomaticRoot { seal, root: root.ok_or(MetaFault::Lost(row::SEAL_ROOT))? }))
}

/// Notes that the data were restored at the store time `at`, in the transaction open on
/// `connection`. The time that the data have reached becomes `at`, unless it is later.
///
/// # Errors
/// The error of SQLite.
pub(crate) async fn note_restore(
    connection: &mut SqliteConnection,
    at: u64,
) -> Result<(), sqlx::Error> {
    let query = sqlx::query_scalar("SELECT value FROM meta WHERE name = ?").bind(row::TIME);
    let time: Option<Vec<u8>> = query.fetch_optional(&mut *connection).await?;
    let reached = time.and_then(|text| number(&text)).unwrap_or_default().max(at);
    write_row(connection, row::TIME, reached.to_string().as_bytes()).await?;
    write_row(connection, row::RESTORED, at.to_string().as_bytes()).await
}

/// Removes the note of a restore, in the transaction open on `connection`.
///
/// # Errors
/// The error of SQLite.
pub(crate) async fn remove_restore(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let removal = sqlx::query("DELETE FROM meta WHERE name = ?").bind(row::RESTORED);
    removal.execute(connection).await.map(drop)
}

/// The reason why a part of the identity was not read.
pub(super) enum MetaFault {
    /// The row of this name is missing or damaged.
    Lost(&'static str),
    Unread(StoreFault),
}

impl From<StoreFault> for MetaFault {
    fn from(fault: StoreFault) -> MetaFault {
        MetaFault::Unread(fault)
    }
}

/// Adds the store time that the data have reached to a script.
///
/// # Errors
/// As [`StatementBatch::bind`].
pub(crate) fn put_time(script: &mut StatementBatch, reached: u64) -> Result<(), sqlx::Error> {
    script.add(WRITE_ROW);
    script.bind(row::TIME)?;
    script.bind(reached.to_string().into_bytes())
}

/// Reads a number of decimal text.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads the value of a row; `None` if there is no such row.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database cannot be read.
pub(super) async fn read_row(
    connection: &mut SqliteConnection,
    name: &str,
) -> Result<Option<Vec<u8>>, StoreFault> {
    let query = sqlx::query_scalar("SELECT value FROM meta WHERE name = ?").bind(name);
    query.fetch_optional(connection).await.map_err(StoreFault::from)
}

/// Writes a row, in the transaction open on `connection`.
///
/// # Errors
/// The error of SQLite.
pub(super) async fn write_row(
    connection: &mut SqliteConnection,
    name: &str,
    value: &[u8],
) -> Result<(), sqlx::Error> {
    let query = sqlx::query(WRITE_ROW);
    query.bind(name).bind(value).execute(connection).await?;
    Ok(())
}
