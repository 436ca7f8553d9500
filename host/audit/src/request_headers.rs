//! Stored names of the request headers that the audit log records.

use super::bounds;
use bulkhead_store::{Address, IndexColumns, Space, Store, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

const PREFIX: &str = "audit-header/";
/// Maximum number of recorded headers.
pub const MOST_HEADERS: usize = bounds::HEADERS;

/// Maximum length of a header's name.
pub const LONGEST_HEADER_NAME: usize = bounds::HEADER_NAME;

/// The way in which a header is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedHeader {
    /// True if the audit log shows a hash in place of the value.
    pub hmac: bool,
}

stored!(RecordedHeader, "recorded-header", reads_stored_headers);

impl RecordedHeader {
    /// Writes the record of the header into the unit. `name` is in lower case.
    ///
    /// # Errors
    /// 500 if the record cannot be serialised.
    pub fn put(self, unit: &mut Unit, name: &str) -> Result<(), Failure> {
        unit.put(address(name), self.to_bytes()?, IndexColumns::default());
        Ok(())
    }

    /// Deletes the record of the header within the unit.
    pub fn delete(unit: &mut Unit, name: &str) {
        unit.delete(address(name));
    }
}

/// Returns all recorded headers, each with true if its value is hashed. A record that cannot be
/// read counts as hashed, so that no secret becomes readable.
pub(super) async fn all(store: &Arc<Store>) -> Result<BTreeMap<String, bool>, Failure> {
    let (mut found, mut scan) = (BTreeMap::new(), store.scan(Space::Core, PREFIX));
    while let Some(page) = scan.page().await? {
        for name in page.iter().filter_map(|address| address.key.strip_prefix(PREFIX)) {
            let Some(record) = store.begin().get(&address(name)).await? else { continue };
            let header = RecordedHeader::from_bytes(&record.body);
            found.insert(name.to_owned(), header.map_or(true, |header| header.hmac));
        }
    }
    Ok(found)
}

fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}
