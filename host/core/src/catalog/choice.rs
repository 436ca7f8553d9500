//! The version of a plugin that a mount or connection gets: by override, by pin, by the operator's
//! choice, or the newest.
//!
//! This file prevents two settings that choose a version without an order: [`decide`] is the only
//! order, for a new instance, a change and a reload (decision H75).

use super::entry::PluginType;
use super::pin::{PREFIX, Pin, VersionChoice};
use super::plugin::EnginePlugin;
use super::table::Catalog;
use bulkhead_store::{Space, Store, StoreFault};
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::stored::Stored;
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Catalog {
    /// Reads the stored pins. A row that cannot be read makes the service fail to open: without
    /// the pin, a mount could get a version that the operator excluded.
    ///
    /// # Errors
    /// 500 for a row that cannot be read, 503 when the store cannot be read.
    pub(super) async fn load_pins(&self, store: &Arc<Store>) -> Result<(), Failure> {
        let mut pins = BTreeMap::new();
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
                pins.insert((pin.kind, pin.name.clone()), pin);
            }
        }
        *sync::write(&self.pins.0) = pins;
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
    pub fn pins(&self) -> Vec<Pin> {
        sync::read(&self.pins.0).values().cloned().collect()
    }

    /// Returns the number of the pinned version of a plugin.
    pub(crate) fn pinned_version(&self, kind: PluginType, name: &str) -> Option<String> {
        let pins = sync::read(&self.pins.0);
        pins.get(&(kind, name.to_owned())).map(|pin| pin.version.clone())
    }

    /// Returns the version of a secrets engine or auth method that a mount gets, in the order of
    /// [`decide`].
    ///
    /// # Errors
    /// 400 for a plugin or version that is not in the catalog; 503 for a version that could not be
    /// loaded.
    pub fn choose(
        &self,
        kind: PluginType,
        name: &str,
        choice: VersionChoice<'_>,
    ) -> Result<Arc<EnginePlugin>, Failure> {
        self.select(kind, name, &self.decide_version(kind, name, choice))
    }

    /// Returns the number of the version that a mount or connection gets; empty for the newest
    /// version.
    pub(super) fn decide_version(
        &self,
        kind: PluginType,
        name: &str,
        choice: VersionChoice<'_>,
    ) -> String {
        decide(self.pinned_version(kind, name).as_deref(), choice).to_owned()
    }

    /// Refuses a choice that a caller asks for and that would not count: a version other than the
    /// pinned version without an override, and an override without a version.
    ///
    /// # Errors
    /// 400 with the pinned version and the remedy.
    pub fn check_choice(
        &self,
        kind: PluginType,
        name: &str,
        choice: VersionChoice<'_>,
    ) -> Result<(), Failure> {
        let VersionChoice { version, overrides_pin } = choice;
        if overrides_pin && version.is_empty() {
            return Err(Failure::invalid(
                "override_pinned_version needs a version: give plugin_version as well",
            ));
        }
        let number = version.trim_start_matches('v');
        let pinned = self.pinned_version(kind, name).filter(|_| !overrides_pin);
        let Some(pinned) = pinned.filter(|pinned| !number.is_empty() && number != pinned) else {
            return Ok(());
        };
        Err(Failure::invalid(format!(
            "plugin_version {} is refused because version {pinned} of {name} is pinned: leave \
             plugin_version out, or send override_pinned_version=true",
            quoted(version)
        )))
    }
}

/// Returns the version that a mount or connection gets, by the only order of choices: the own
/// version with an override of the pin, the pinned version, the own version, and an empty text for
/// the newest version. An own version under a pin stays stored, and counts again once the pin is
/// removed.
fn decide<'a>(pinned: Option<&'a str>, choice: VersionChoice<'a>) -> &'a str {
    let VersionChoice { version, overrides_pin } = choice;
    match pinned {
        Some(pinned) if version.is_empty() || !overrides_pin => pinned,
        _ => version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_chosen_in_one_order() {
        for (version, overrides_pin, pinned, chosen) in [
            ("2.0.0", true, Some("1.0.0"), "2.0.0"),
            ("2.0.0", false, Some("1.0.0"), "1.0.0"),
            ("", true, Some("1.0.0"), "1.0.0"),
            ("", false, Some("1.0.0"), "1.0.0"),
            ("2.0.0", true, None, "2.0.0"),
            ("2.0.0", false, None, "2.0.0"),
            ("", false, None, ""),
        ] {
            let choice = VersionChoice { version, overrides_pin };
            assert_eq!(decide(pinned, choice), chosen, "{version} {overrides_pin} {pinned:?}");
        }
    }
}
