//! Secrets of targets that a mount alone knows, as noted by the component in the mount's storage.
//!
//! This file prevents the loss of a root credential without a word: after a rotation, only the
//! mount knows the password or key of its own account, and the data of a disabled mount are
//! deleted.

use bulkhead_store::{Space, Unit};
use bulkhead_wire::failure::Failure;
use serde_json::Value;

/// Prefix of the notes in a mount's storage; `wit/storage.wit` describes them.
const PREFIX: &str = "only-copy";
/// Maximum number of notes that are shown.
const MAX_SHOWN: u32 = 32;
/// Maximum number of bytes of the notes that are read.
const MAX_BYTES: usize = 64 << 10;

/// Returns descriptions of the secrets that only the mount `uuid` knows. Another record below
/// the prefix is left out.
///
/// # Errors
/// The store's failure.
pub(super) async fn of_mount(unit: &mut Unit, uuid: &str) -> Result<Vec<String>, Failure> {
    let prefix = format!("{uuid}/{PREFIX}/");
    let found = unit.records(Space::Data, (&prefix, ""), MAX_SHOWN, MAX_BYTES).await?;
    let notes = found.iter().filter_map(|(_, record)| {
        let text = std::str::from_utf8(&record.body).ok()?;
        let note: Value = serde_json::from_str(text).ok()?;
        note.get("secret")?.as_str().map(str::to_owned)
    });
    Ok(notes.collect())
}
