//! The stored row of an uploaded plugin. Each version has a row, written after the component's
//! bytes.

use super::origin::ComponentOrigin;
use bulkhead_sandbox::GrantPattern;
use bulkhead_sandbox::structure::World;
use bulkhead_store::{Address, IndexColumns, Record, Space, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Prefix of the keys of uploaded plugins; type and name follow.
pub(super) const PREFIX: &str = "plugin/";

/// The types of plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginType {
    /// Auth methods, mounted below `auth/`.
    Auth,
    /// Database plugins: called by secrets engines for connections, and never mounted.
    Database,
    /// Secrets engines, mounted outside `auth/`.
    Secret,
}

impl PluginType {
    /// All types.
    pub const ALL: [Self; 3] = [Self::Auth, Self::Database, Self::Secret];

    /// Returns the type of a component built for `world`.
    pub(crate) fn of_world(world: World) -> Self {
        match world {
            World::AuthMethod => Self::Auth,
            World::DatabasePlugin => Self::Database,
            World::SecretsEngine => Self::Secret,
        }
    }

    /// Returns the name of the type in paths and listings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Database => "database",
            Self::Secret => "secret",
        }
    }

    /// Returns the name of the type in messages.
    pub fn title(self) -> &'static str {
        match self {
            Self::Auth => "auth method",
            Self::Database => "database plugin",
            Self::Secret => "secrets engine",
        }
    }
}

/// A stored uploaded plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PluginRecord {
    #[serde(rename = "type")]
    pub(super) kind: PluginType,
    pub(super) name: String,
    pub(super) version: String,
    /// SHA-256 of the component, hexadecimal. The key of the stored bytes and code.
    pub(super) digest: String,
    /// Length of the component, in bytes.
    pub(super) bytes: usize,
    /// Ceiling for the grants of the plugin's mounts; `None`: the lines that the component asks
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ceiling: Option<Vec<GrantPattern>>,
    /// Source and signature of the component.
    #[serde(default, skip_serializing_if = "ComponentOrigin::is_default")]
    pub(super) origin: ComponentOrigin,
    /// The component's own description, stored so that a start runs no plugin code.
    pub(super) description: Value,
}

stored!(PluginRecord, "plugin", reads_stored_plugins);

impl PluginRecord {
    pub(crate) fn put(&self, unit: &mut Unit) -> Result<(), Failure> {
        unit.put(self.address(), self.to_bytes()?, IndexColumns::default());
        Ok(())
    }

    /// Returns the address of the version's row.
    pub(crate) fn address(&self) -> Address {
        address(self.kind, &self.name, &self.version)
    }

    /// Returns the stored versions of a plugin. The commit of `unit` conflicts with a concurrent
    /// registration or removal of a version. An unreadable row is left out; the next registration
    /// of the version replaces the row.
    ///
    /// # Errors
    /// 503 if the store cannot be read.
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
            .map_err(|unreadable| format!("the plugin's row in the catalog {unreadable}"))
    }
}

/// Returns true if the catalog has one version of the plugin. The commit of `unit` conflicts with a
/// concurrent registration or removal of a version.
///
/// # Errors
/// 503 if the store cannot be read.
pub(crate) async fn is_last_version(
    unit: &mut Unit,
    kind: PluginType,
    name: &str,
) -> Result<bool, Failure> {
    Ok(unit.keys(Space::Core, &address(kind, name, "").key, "", 2).await?.len() == 1)
}

/// Returns the address of the row of an uploaded plugin's version.
pub fn address(kind: PluginType, name: &str, version: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{}/{name}/{version}", kind.word()))
}
