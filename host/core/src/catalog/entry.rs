//! An uploaded plugin as it is stored: one row a name, which is written last.

use bulkhead_sandbox::Ask;
use bulkhead_sandbox::structure::World;
use bulkhead_store::{Address, Index, Record, Space, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Of the keys of uploaded plugins; type and name follow.
pub(super) const PREFIX: &str = "plugin/";

/// The types of plugin that this version has a world for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PluginType {
    Auth,
    Database,
    Secret,
}

impl PluginType {
    /// Every type.
    pub(crate) const ALL: [Self; 3] = [Self::Auth, Self::Database, Self::Secret];

    /// What components of that world are.
    pub(crate) fn of_world(world: World) -> Self {
        match world {
            World::AuthMethod => Self::Auth,
            World::DatabasePlugin => Self::Database,
            World::SecretsEngine => Self::Secret,
        }
    }

    /// As paths and listings name it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Database => "database",
            Self::Secret => "secret",
        }
    }

    /// What such a plugin is called.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Auth => "auth method",
            Self::Database => "database plugin",
            Self::Secret => "secrets engine",
        }
    }
}

/// An uploaded plugin as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    #[serde(rename = "type")]
    pub(super) kind: PluginType,
    pub(super) name: String,
    pub(super) version: String,
    /// SHA-256 of the component, hexadecimal: its bytes and its code are found by it.
    pub(super) digest: String,
    /// Length of the component.
    pub(super) bytes: usize,
    /// What mounts of it may be granted at most; `None`: what it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ceiling: Option<Vec<Ask>>,
    /// What it said of itself, so that a start asks no component.
    pub(super) description: Value,
}

stored!(Entry, "plugin", reads_stored_plugins);

impl Entry {
    pub(super) fn put(&self, unit: &mut Unit) -> Result<(), Failure> {
        unit.put(address(self.kind, &self.name), self.to_bytes()?, Index::default());
        Ok(())
    }

    pub(super) fn parse(record: &Record) -> Result<Self, String> {
        Self::from_bytes(&record.body)
            .map_err(|unreadable| format!("its row in the catalog {unreadable}"))
    }
}

/// The row of an uploaded plugin.
pub(crate) fn address(kind: PluginType, name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{}/{name}", kind.word()))
}
