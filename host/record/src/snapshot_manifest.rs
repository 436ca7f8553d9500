//! The manifest of a snapshot, in JSON. Nothing in the manifest is secret.

use serde_json::{Value, json};

use crate::archive_reader::damaged;
use crate::fault::StoreFault;
use crate::meta_rows::FORMAT;

/// Name of the format, in the member `kind`.
const KIND: &str = "bulkhead snapshot";
/// Version of the format, in the member `version`.
const VERSION: u64 = 1;
/// Maximum length of a text of the manifest, in bytes. No message repeats a longer text.
const MAX_TEXT_BYTES: usize = 64;

/// The description of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotManifest {
    /// Format of the store, as a number.
    pub format: u64,
    /// Number of applied schema scripts.
    pub schema: u64,
    /// Public name of the cluster, a UUID.
    pub cluster_id: String,
    /// Store time of the snapshot, in milliseconds since 1970.
    pub store_time: u64,
    /// The same time in RFC 3339.
    pub taken_at: String,
    /// Version of the server that took the snapshot.
    pub server_version: String,
    /// Number of records.
    pub records: u64,
    /// Number of rows of the store's identity.
    pub identity_rows: u64,
    /// Term of the key that sealed new records.
    pub key_term: u64,
}

impl SnapshotManifest {
    /// Returns the manifest as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "kind": KIND,
            "version": VERSION,
            "format": self.format,
            "schema": self.schema,
            "cluster_id": self.cluster_id,
            "store_time": self.store_time,
            "taken_at": self.taken_at,
            "server_version": self.server_version,
            "records": self.records,
            "identity_rows": self.identity_rows,
            "key_term": self.key_term,
        })
    }

    /// Parses the entry with the manifest.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if the file is of another kind, of a newer version or format, or
    /// lacks a member or has a text of more than 64 characters.
    pub fn parse(content: &[u8]) -> Result<SnapshotManifest, StoreFault> {
        let json: Value = serde_json::from_slice(content)
            .map_err(|_| damaged("the manifest meta.json is not JSON"))?;
        if json.get("kind").and_then(Value::as_str) != Some(KIND) {
            return Err(damaged("the manifest meta.json is of another program"));
        }
        let number = |name: &str| {
            json.get(name)
                .and_then(Value::as_u64)
                .ok_or_else(|| damaged(&format!("the manifest has no number {name:?}")))
        };
        let text = |name: &str| {
            let text = json.get(name).and_then(Value::as_str);
            let text =
                text.ok_or_else(|| damaged(&format!("the manifest has no text {name:?}")))?;
            if text.len() > MAX_TEXT_BYTES || !text.chars().all(|sign| sign.is_ascii_graphic()) {
                return Err(damaged(&format!(
                    "the text {name:?} of the manifest has more than {MAX_TEXT_BYTES} characters, \
                     or spaces or control characters"
                )));
            }
            Ok(text.to_owned())
        };
        let server_version = text("server_version")?;
        let (version, format) = (number("version")?, number("format")?);
        if version != VERSION || format.to_string() != FORMAT {
            return Err(StoreFault::Refused(format!(
                "the snapshot has version {version} with store format {format}, and this program \
                 reads version {VERSION} with format {}; use Bulkhead {server_version}, which \
                 took the snapshot",
                FORMAT
            )));
        }
        Ok(SnapshotManifest {
            format,
            schema: number("schema")?,
            cluster_id: text("cluster_id")?,
            store_time: number("store_time")?,
            taken_at: text("taken_at")?,
            server_version,
            records: number("records")?,
            identity_rows: number("identity_rows")?,
            key_term: number("key_term")?,
        })
    }
}
