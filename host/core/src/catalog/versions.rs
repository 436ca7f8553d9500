//! The versions of one plugin that the catalog can use, in the order of semantic versions.

use super::plugin::EnginePlugin;
use bulkhead_sandbox::Maker;
use semver::Version;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The loaded versions of one plugin. A plugin without a version has no entry in the catalog.
#[derive(Default)]
pub(super) struct PluginVersions(BTreeMap<Version, Arc<EnginePlugin>>);

impl PluginVersions {
    /// Adds a version, or replaces the version with the same number.
    pub(super) fn insert(&mut self, plugin: Arc<EnginePlugin>) {
        let version = order(&plugin.engine.identity().version);
        self.0.insert(version, plugin);
    }

    /// Removes a version, and reports whether no version is left.
    pub(super) fn remove(&mut self, version: &str) -> bool {
        self.0.remove(&order(version));
        self.0.is_empty()
    }

    /// Returns the version with that number, or the newest version if `version` is empty.
    pub(super) fn select(&self, version: &str) -> Option<&Arc<EnginePlugin>> {
        if version.is_empty() { self.newest() } else { self.0.get(&order(version)) }
    }

    /// Returns the version with the highest number.
    pub(super) fn newest(&self) -> Option<&Arc<EnginePlugin>> {
        self.0.values().next_back()
    }

    /// Returns the maker of the plugin. No uploaded plugin has the name of an official plugin.
    pub(super) fn maker(&self) -> Option<Maker> {
        self.newest().map(|plugin| plugin.engine.identity().maker)
    }

    /// Returns every version, the oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<EnginePlugin>> {
        self.0.values()
    }

    /// Returns the numbers of all versions for an error message.
    pub(super) fn numbers(&self) -> String {
        self.0.keys().map(Version::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the place of a version in the order of semantic versions. Registration refuses a text
/// that is no semantic version, so that 0.0.0 stands only for components of this binary.
pub(super) fn order(version: &str) -> Version {
    Version::parse(version.trim_start_matches('v')).unwrap_or(Version::new(0, 0, 0))
}
