//! The stored data of a version.

use crate::secret_path::SecretPath;
use bulkhead_sdk::{Failure, Host, stored};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The data of a version, or of a secret in version 1 of the API. No `Debug`: the data are secret.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct VersionRecord {
    pub(crate) data: Map<String, Value>,
}

stored!(VersionRecord, "version", reads_stored_versions);

impl VersionRecord {
    /// Returns the data of a version which the metadata call present.
    ///
    /// # Errors
    /// Internal if the record is missing.
    pub(crate) fn read(
        host: &dyn Host,
        path: &SecretPath<'_>,
        number: u64,
    ) -> Result<Map<String, Value>, Failure> {
        let record: Option<Self> = host.storage().get(&path.version(number))?;
        record.map(|record| record.data).ok_or_else(|| {
            Failure::internal(format!("the data of version {number} of the secret are missing"))
        })
    }
}
