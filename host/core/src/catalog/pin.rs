//! Pins: the version of a plugin for every mount that does not override the pin.
//!
//! This file prevents a new version from reaching a mount because the version was uploaded: with a
//! pin, the newest version is used only by mounts that name the version and override the pin.

use super::entry::PluginType;
use bulkhead_store::{Address, IndexColumns, Space, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::RwLock;

/// Prefix of the keys of pins; type and name follow.
pub(super) const PREFIX: &str = "pin/";

/// A pin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Type of the pinned plugin; two types may have plugins with equal names.
    #[serde(rename = "type")]
    pub kind: PluginType,
    /// Own name of the plugin; only an uploaded version can be pinned.
    pub name: String,
    /// Number of the version.
    pub version: String,
    /// The version as the operator wrote the version, perhaps with a leading `v`. Empty in pins of
    /// earlier releases.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub written: String,
}

stored!(Pin, "pin", reads_stored_pins);

impl Pin {
    /// Returns the version as the operator wrote it: a client that declares `v1.2.0` would
    /// otherwise change the pin at each run.
    pub fn shown_version(&self) -> &str {
        if self.written.is_empty() { &self.version } else { &self.written }
    }

    /// Writes the pin into the unit.
    pub fn put(&self, unit: &mut Unit) -> Result<(), Failure> {
        unit.put(address(self.kind, &self.name), self.to_bytes()?, IndexColumns::default());
        Ok(())
    }

    /// Deletes the pin of a plugin in the unit.
    pub fn delete(unit: &mut Unit, kind: PluginType, name: &str) {
        unit.delete(address(kind, name));
    }

    /// Reads the pin of a plugin. The unit relies on the row.
    ///
    /// # Errors
    /// 500 for a row that cannot be read, 503 when the store cannot be read.
    pub async fn read(
        unit: &mut Unit,
        kind: PluginType,
        name: &str,
    ) -> Result<Option<Self>, Failure> {
        let found = unit.get(&address(kind, name)).await?;
        let pin = found.map(|row| Self::from_bytes(&row.body)).transpose();
        pin.map_err(|unreadable| unreadable.of(format_args!("the pin of {name}")))
    }
}

fn address(kind: PluginType, name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{}/{name}", kind.word()))
}

/// The pins in memory, by type and name of the plugin.
#[derive(Default)]
pub(super) struct PinTable(pub(super) RwLock<BTreeMap<(PluginType, String), Pin>>);

/// The version of a plugin that an operator asks for.
#[derive(Clone, Copy, Default)]
pub struct VersionChoice<'a> {
    /// Semantic version, with or without a leading `v`; empty leaves the choice to the server.
    pub version: &'a str,
    /// `true` if `version` counts before the pinned version.
    pub overrides_pin: bool,
}
