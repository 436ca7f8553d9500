//! The version of a database plugin that serves a connection of a mount.
//!
//! This file prevents a new version from reaching a connection because the version was registered:
//! a connection keeps its version until an operator writes a version to the connection, or reloads
//! the connection.

use super::entry::PluginType;
use super::pin::VersionChoice;
use super::table::{Catalog, assert_registered};
use bulkhead_sandbox::{ConnectionChoice, DatabasePlugin, Publisher};
use bulkhead_store::{Address, IndexColumns, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Prefix of the keys of connections; the uuid of the mount and the name follow.
const PREFIX: &str = "connection/";
/// Row that every change of a connection's version writes.
const WRITTEN: &str = "connections-written";
/// Maximum number of connections of a mount with a recorded version. No limit of the mount counts
/// their rows.
const MOST_CONNECTIONS: u32 = 10_000;
/// Number of rows deleted per commit.
const ROWS_PER_COMMIT: u32 = 500;

/// The version of a database plugin that serves a connection. A connection of a plugin of this
/// binary has no record, because that version changes with the binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectionVersion {
    /// Own name of the plugin.
    pub(crate) plugin: String,
    pub(crate) version: String,
    /// The version that the operator asked for; empty if the operator left the choice to the
    /// server.
    asked: String,
    overrides_pin: bool,
}

impl ConnectionVersion {
    /// Returns whether `choice` asks for a version of `plugin`, or for an override, that the
    /// recorded choice did not ask for.
    fn is_new_choice(&self, plugin: &str, choice: VersionChoice<'_>) -> bool {
        let is_other = choice.version.trim_start_matches('v') != self.asked.trim_start_matches('v');
        plugin != self.plugin || is_other || (choice.overrides_pin && !self.overrides_pin)
    }
}

stored!(ConnectionVersion, "connection-version", reads_stored_connection_versions);

/// A connection of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountConnection {
    /// uuid of the mount.
    pub(crate) mount: String,
    pub(crate) name: String,
}

impl MountConnection {
    fn address(&self) -> Address {
        Address::new(Space::Core, format!("{PREFIX}{}/{}", self.mount, self.name))
    }

    fn of_address(address: &Address) -> Option<Self> {
        let (mount, name) = address.key.strip_prefix(PREFIX)?.split_once('/')?;
        Some(Self { mount: mount.to_owned(), name: name.to_owned() })
    }

    /// Reads the recorded version of the connection. The unit relies on the row.
    ///
    /// # Errors
    /// 500 for a row that cannot be read, 503 if the store cannot be read.
    pub(crate) async fn read(&self, unit: &mut Unit) -> Result<Option<ConnectionVersion>, Failure> {
        let found = unit.get(&self.address()).await?;
        let found = found.map(|row| ConnectionVersion::from_bytes(&row.body)).transpose();
        found.map_err(|unreadable| {
            unreadable.of(format_args!("the version of connection {}", self.name))
        })
    }

    /// Deletes the recorded version, because the connection is removed.
    pub(crate) fn release(&self, unit: &mut Unit) {
        unit.delete(self.address());
    }

    /// Refuses a new record if the mount has too many.
    async fn check_room(&self, unit: &mut Unit) -> Result<(), Failure> {
        let prefix = format!("{PREFIX}{}/", self.mount);
        let keys = unit.keys(Space::Core, &prefix, "", MOST_CONNECTIONS).await?;
        if u32::try_from(keys.len()).is_ok_and(|found| found < MOST_CONNECTIONS) {
            return Ok(());
        }
        Err(Failure::invalid(format!(
            "the mount has {MOST_CONNECTIONS} connections of registered database plugins, and may \
             not have more: delete connections, or use another mount"
        )))
    }

    fn put(&self, unit: &mut Unit, version: &ConnectionVersion) -> Result<(), Failure> {
        unit.put(self.address(), version.to_bytes()?, IndexColumns::default());
        unit.put(Address::new(Space::Core, WRITTEN), Vec::new(), IndexColumns::default());
        Ok(())
    }
}

impl Catalog {
    /// Chooses the version that serves a connection, and records the version in the unit. A choice
    /// other than the recorded choice is what the caller asks for, and is refused if it would not
    /// count.
    ///
    /// # Errors
    /// As [`Catalog::choose_database`] and [`Catalog::check_choice`]; 400 if the version is being
    /// removed.
    pub(crate) async fn choose_for_connection(
        &self,
        unit: &mut Unit,
        connection: &MountConnection,
        choice: ConnectionChoice<'_>,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        let ConnectionChoice { plugin: name, version, overrides_pin, keeps } = choice;
        let recorded = connection.read(unit).await?;
        let plugin = if keeps {
            self.serving_database((name, version), recorded.as_ref())?
        } else {
            let choice = VersionChoice { version, overrides_pin };
            let own = self.own_name(name);
            if recorded.as_ref().is_none_or(|recorded| recorded.is_new_choice(&own, choice)) {
                self.check_choice(PluginType::Database, &own, choice)?;
            }
            self.choose_database(name, choice)?
        };
        let identity = plugin.identity();
        if identity.maker == Publisher::Official {
            // Without a record, the unit stores nothing and conflicts with nothing.
            if recorded.is_some() {
                connection.release(unit);
            }
            return Ok(plugin);
        }
        assert_registered(unit, PluginType::Database, identity).await?;
        if recorded.is_none() {
            connection.check_room(unit).await?;
        }
        let record = ConnectionVersion {
            plugin: identity.name.clone(),
            version: identity.version.clone(),
            asked: version.to_owned(),
            overrides_pin,
        };
        connection.put(unit, &record)?;
        Ok(plugin)
    }

    /// Chooses the version of a connection again, by the last choice of an operator, in a commit of
    /// its own.
    ///
    /// # Errors
    /// As [`Catalog::choose_for_connection`]; the store's failure.
    pub(crate) async fn choose_again(
        &self,
        store: &Arc<Store>,
        connection: &MountConnection,
    ) -> Result<(), Failure> {
        loop {
            let mut unit = store.begin();
            let Some(recorded) = connection.read(&mut unit).await? else { return Ok(()) };
            let choice = ConnectionChoice {
                plugin: &recorded.plugin,
                version: &recorded.asked,
                overrides_pin: recorded.overrides_pin,
                keeps: false,
            };
            self.choose_for_connection(&mut unit, connection, choice).await?;
            match unit.commit().await {
                Err(StoreFault::Conflict) => {}
                done => return Ok(done.map(drop)?),
            }
        }
    }
}

/// Returns every connection of the database plugin, with its version. A version that is chosen
/// meanwhile is a conflict of the unit. A row that cannot be read does not count, because its
/// plugin is unknown.
///
/// # Errors
/// The store's failure.
pub(crate) async fn connections_of(
    store: &Arc<Store>,
    unit: &mut Unit,
    plugin: &str,
) -> Result<Vec<(MountConnection, ConnectionVersion)>, Failure> {
    // Read before the first connection: a connection that is written from here on is a conflict.
    unit.get(&Address::new(Space::Core, WRITTEN)).await?;
    let mut found = Vec::new();
    let mut scan = store.scan(Space::Core, PREFIX);
    while let Some(page) = scan.page().await? {
        for address in page {
            let row = match store.begin().get(&address).await {
                Err(StoreFault::Damaged(_)) => continue,
                row => row?,
            };
            let version = row.and_then(|row| ConnectionVersion::from_bytes(&row.body).ok());
            let version = version.filter(|version| version.plugin == plugin);
            found.extend(MountConnection::of_address(&address).zip(version));
        }
    }
    Ok(found)
}

/// Deletes the recorded versions of all connections of a mount that is gone.
///
/// # Errors
/// The store's failure.
pub(crate) async fn forget_connections(store: &Arc<Store>, mount: &str) -> Result<(), Failure> {
    let prefix = format!("{PREFIX}{mount}/");
    loop {
        let keys = store.begin().keys(Space::Core, &prefix, "", ROWS_PER_COMMIT).await?;
        if keys.is_empty() {
            return Ok(());
        }
        let mut unit = store.begin();
        keys.into_iter().for_each(|key| unit.delete(Address::new(Space::Core, key)));
        unit.commit().await?;
    }
}

#[cfg(test)]
mod tests;
