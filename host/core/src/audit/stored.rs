//! Devices that the API made, as they are stored: each unsealing opens them again.

use bulkhead_store::{Address, Index, Space, Store, Unit};
use bulkhead_wire::failure::Failure;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

const PREFIX: &str = "audit/";

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredDevice {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Kept and shown, without effect: nothing is replicated.
    pub(crate) local: bool,
    pub(crate) options: Map<String, Value>,
}

impl StoredDevice {
    /// Writes it into the unit.
    pub(super) fn put(&self, unit: &mut Unit) -> Result<(), Failure> {
        let body =
            serde_json::to_vec(self).map_err(|error| Failure::internal(error.to_string()))?;
        unit.put(address(&self.name), body, Index::default());
        Ok(())
    }
}

/// Whether a device of that name is stored.
pub(super) async fn is_stored(unit: &mut Unit, name: &str) -> Result<bool, Failure> {
    Ok(unit.get(&address(name)).await?.is_some())
}

/// Removes it in the unit.
pub(super) fn delete(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// All stored devices: the name, and what could be read of the record.
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
    let unreadable =
        |why: &str| Failure::internal(format!("the record of audit device {name} {why}"));
    let record = store.begin().get(&address(name)).await?.ok_or_else(|| unreadable("vanished"))?;
    serde_json::from_slice(&record.body).map_err(|_| unreadable("does not parse"))
}

fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}
