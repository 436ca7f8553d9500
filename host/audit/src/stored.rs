//! Stored records of the devices that the API made. Each unsealing opens the devices again.

use bulkhead_store::{Address, IndexColumns, Space, Store, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

const PREFIX: &str = "audit/";

/// A device as the API requested it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredDevice {
    /// Path of the device in `sys/audit`, without a slash; also the end of the record's key.
    pub name: String,
    /// Free text of the operator, shown in `sys/audit`; empty if the request gave none.
    pub description: String,
    /// Stored and shown, without effect: nothing is replicated.
    pub local: bool,
    /// Options as requested, such as `file_path`; each unsealing checks the options again.
    pub options: Map<String, Value>,
}

stored!(StoredDevice, "audit-device", reads_stored_devices);

impl StoredDevice {
    /// Writes the record into the unit.
    pub(super) fn put(&self, unit: &mut Unit) -> Result<(), Failure> {
        unit.put(address(&self.name), self.to_bytes()?, IndexColumns::default());
        Ok(())
    }
}

/// Returns whether a device of that name is stored.
pub(super) async fn is_stored(unit: &mut Unit, name: &str) -> Result<bool, Failure> {
    Ok(unit.get(&address(name)).await?.is_some())
}

/// Deletes the record within the unit.
pub(super) fn delete(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// Returns all stored devices: the name, and the record or the reason why it is unreadable.
pub(super) async fn all(
    store: &Arc<Store>,
) -> Result<Vec<(String, Result<StoredDevice, Failure>)>, Failure> {
    let (mut found, mut scan) = (Vec::new(), store.scan(Space::Core, PREFIX));
    while let Some(page) = scan.page().await? {
        for name in page.iter().filter_map(|address| address.key.strip_prefix(PREFIX)) {
            found.push((name.to_owned(), read(store, name).await));
        }
    }
    Ok(found)
}

async fn read(store: &Arc<Store>, name: &str) -> Result<StoredDevice, Failure> {
    let what = format!("the record of audit device {name}");
    let record = store.begin().get(&address(name)).await?;
    let record = record.ok_or_else(|| Failure::internal(format!("{what} vanished")))?;
    StoredDevice::from_bytes(&record.body).map_err(|unreadable| unreadable.of(what))
}

fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}
