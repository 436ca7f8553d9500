//! An uploaded plugin as it is stored: one row for each version, written after the bytes that the
//! row names.

use bulkhead_sandbox::Ask;
use bulkhead_sandbox::structure::World;
use bulkhead_store::{Address, Index, Record, Space, StoreFault, Unit};
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
        unit.put(self.address(), self.to_bytes()?, Index::default());
        Ok(())
    }

    /// The row of this version.
    pub(super) fn address(&self) -> Address {
        address(self.kind, &self.name, &self.version)
    }

    /// The stored versions of a plugin. The unit relies on these rows: a version that is registered
    /// or removed meanwhile is a conflict. A row that cannot be read is left out, and the next
    /// registration of its version replaces the row.
    ///
    /// # Errors
    /// 503 when the store cannot be read.
    pub(super) async fn all_of(
        unit: &mut Unit,
        kind: PluginType,
        name: &str,
    ) -> Result<Vec<Self>, Failure> {
        let mut found = Vec::new();
        for key in unit.keys(Space::Core, &address(kind, name, "").key, "", u32::MAX).await? {
            match unit.get(&Address::new(Space::Core, key)).await {
                Err(StoreFault::Damaged(_)) => {}
                row => found.extend(row?.and_then(|row| Self::parse(&row).ok())),
            }
        }
        Ok(found)
    }

    pub(super) fn parse(record: &Record) -> Result<Self, String> {
        Self::from_bytes(&record.body)
            .map_err(|unreadable| format!("its row in the catalog {unreadable}"))
    }
}

/// The row of one version of an uploaded plugin.
pub(crate) fn address(kind: PluginType, name: &str, version: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{}/{name}/{version}", kind.word()))
}
