//! The settings of a seal for its component, with the credentials of the moment.
//!
//! This file prevents tokens and keys from staying in freed memory: the settings are built for each
//! exchange with the keeper, for months.

use serde_json::{Map, Value};
use std::ops::Deref;
use zeroize::{Zeroize, Zeroizing};

/// The settings for the component. The texts, of which some are credentials, are wiped when
/// dropped. No `Debug`.
#[derive(Default)]
pub(crate) struct KeeperSettings(Map<String, Value>);

impl KeeperSettings {
    /// Reads a JSON object. `None`: the text is not JSON, or another value.
    pub(super) fn of_json(content: &[u8]) -> Option<Self> {
        serde_json::from_slice(content).ok().map(Self)
    }

    /// Adds a setting that is not a credential.
    pub(super) fn add(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Adds a text that is wiped by its owner, too.
    pub(super) fn add_secret(&mut self, name: &str, value: &Zeroizing<String>) {
        self.add(name, value.as_str());
    }

    fn wipe(&mut self) {
        for value in self.0.values_mut() {
            if let Value::String(text) = value {
                text.zeroize();
            }
        }
    }
}

impl Deref for KeeperSettings {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for KeeperSettings {
    fn drop(&mut self) {
        self.wipe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_keeper_settings_are_wiped() {
        let mut settings = KeeperSettings::default();
        settings.add_secret("token", &Zeroizing::new("hvs.secret".to_owned()));
        settings.add("disable_renewal", true);
        assert_eq!(settings["token"], "hvs.secret");
        settings.wipe();
        assert_eq!((&settings["token"], &settings["disable_renewal"]), (&"".into(), &true.into()));
    }
}
