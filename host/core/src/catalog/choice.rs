//! The version of a plugin that a mount gets: by pin, by the operator's choice, or the newest.

use super::entry::PluginType;
use super::pin::{PREFIX, Pin, VersionChoice};
use super::plugin::EnginePlugin;
use super::table::Catalog;
use bulkhead_store::{Space, Store, StoreFault};
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::stored::Stored;
use bulkhead_wire::sync;
use std::sync::Arc;

impl Catalog {
    /// Reads the stored pins. A row that cannot be read makes the service fail to open: without
    /// the pin, a mount could get a version that the operator excluded.
    ///
    /// # Errors
    /// 500 for a row that cannot be read, 503 when the store cannot be read.
    pub(super) async fn load_pins(&self, store: &Arc<Store>) -> Result<(), Failure> {
        let mut scan = store.scan(Space::Core, PREFIX);
        while let Some(page) = scan.page().await? {
            for address in page {
                let unreadable = |fault: StoreFault| Failure {
                    message: format!("the pin {}: {fault}", address.key),
                    ..fault.into()
                };
                let Some(row) = store.begin().get(&address).await.map_err(unreadable)? else {
                    continue;
                };
                let pin = Pin::from_bytes(&row.body)
                    .map_err(|unreadable| unreadable.of(format_args!("the pin {}", address.key)))?;
                self.set_pin(&pin);
            }
        }
        Ok(())
    }

    /// Lets a committed pin hold for later choices.
    pub(crate) fn set_pin(&self, pin: &Pin) {
        sync::write(&self.pins.0).insert((pin.kind, pin.name.clone()), pin.clone());
    }

    /// Forgets a pin after the deletion of its row was committed.
    pub(crate) fn remove_pin(&self, kind: PluginType, name: &str) {
        sync::write(&self.pins.0).remove(&(kind, name.to_owned()));
    }

    /// Returns every pin, in the order of types and names.
    pub(crate) fn pins(&self) -> Vec<Pin> {
        sync::read(&self.pins.0).values().cloned().collect()
    }

    /// Returns the number of the pinned version of a plugin.
    pub(crate) fn pinned_version(&self, kind: PluginType, name: &str) -> Option<String> {
        let pins = sync::read(&self.pins.0);
        pins.get(&(kind, name.to_owned())).map(|pin| pin.version.clone())
    }

    /// Returns the version of a secrets engine or auth method that a mount gets: the pinned
    /// version, the version that the operator asks for, or the newest version, in this order. An
    /// operator who overrides the pin gets the version that the operator asks for.
    ///
    /// # Errors
    /// 400 for a version other than the pinned version, for an override without a version, and for
    /// a plugin or version that is not in the catalog; 503 for a version that could not be loaded.
    pub(crate) fn choose(
        &self,
        kind: PluginType,
        name: &str,
        choice: VersionChoice<'_>,
    ) -> Result<Arc<EnginePlugin>, Failure> {
        self.select(kind, name, &self.wanted_version(kind, name, choice)?)
    }

    /// Returns the number of the version that pin and operator want; empty for the newest version.
    ///
    /// # Errors
    /// 400 for a version other than the pinned version, and for an override without a version.
    pub(super) fn wanted_version(
        &self,
        kind: PluginType,
        name: &str,
        choice: VersionChoice<'_>,
    ) -> Result<String, Failure> {
        let VersionChoice { asked, overrides_pin } = choice;
        let pinned = self.pinned_version(kind, name);
        let Some(pinned) = pinned.filter(|_| !overrides_pin) else {
            if overrides_pin && asked.is_empty() {
                return Err(Failure::invalid(
                    "override_pinned_version needs a version: give plugin_version as well",
                ));
            }
            return Ok(asked.to_owned());
        };
        let number = asked.trim_start_matches('v');
        if number.is_empty() || number == pinned {
            return Ok(pinned);
        }
        Err(Failure::invalid(format!(
            "plugin_version {} is refused because version {pinned} of {name} is pinned: leave \
             plugin_version out, or send override_pinned_version=true",
            quoted(asked)
        )))
    }
}
