//! The versions of one plugin that the catalog can use, in the order of semantic versions.

use super::plugin::EnginePlugin;
use bulkhead_sandbox::component::ComponentIdentity;
use bulkhead_sandbox::{DatabasePlugin, Publisher};
use semver::Version;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A component of the catalog that has several versions.
pub(super) trait VersionedComponent {
    /// Returns the identity of the version.
    fn identity(&self) -> &ComponentIdentity;
}

impl VersionedComponent for EnginePlugin {
    fn identity(&self) -> &ComponentIdentity {
        self.identity()
    }
}

impl VersionedComponent for DatabasePlugin {
    fn identity(&self) -> &ComponentIdentity {
        self.identity()
    }
}

/// The loaded versions of one plugin. A plugin without a version has no entry in the catalog.
pub(super) struct PluginVersions<P>(BTreeMap<Version, Arc<P>>);

impl<P> Default for PluginVersions<P> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<P: VersionedComponent> PluginVersions<P> {
    /// Adds a version, or replaces the version with the same number.
    pub(super) fn insert(&mut self, plugin: Arc<P>) {
        let version = parse_order(&plugin.identity().version);
        self.0.insert(version, plugin);
    }

    /// Removes a version, and reports whether no version is left.
    pub(super) fn remove(&mut self, version: &str) -> bool {
        self.0.remove(&parse_order(version));
        self.0.is_empty()
    }

    /// Returns the version with that number, or the newest version if `version` is empty.
    pub(super) fn select(&self, version: &str) -> Option<&Arc<P>> {
        if version.is_empty() { self.newest() } else { self.0.get(&parse_order(version)) }
    }

    /// Returns the version with the highest number.
    pub(super) fn newest(&self) -> Option<&Arc<P>> {
        self.0.values().next_back()
    }

    /// Returns the version with the lowest number.
    pub(super) fn oldest(&self) -> Option<&Arc<P>> {
        self.0.values().next()
    }

    /// Returns the maker of the plugin. No uploaded plugin has the name of an official plugin.
    pub(super) fn publisher(&self) -> Option<Publisher> {
        self.newest().map(|plugin| plugin.identity().maker)
    }

    /// Returns every version, the oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<P>> {
        self.0.values()
    }

    /// Returns the numbers of all versions for an error message.
    pub(super) fn list_numbers(&self) -> String {
        self.0.keys().map(Version::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the place of a version in the order of semantic versions. Registration refuses a text
/// that is not a semantic version, so that 0.0.0 stands only for components of this binary.
pub(super) fn parse_order(version: &str) -> Version {
    Version::parse(version.trim_start_matches('v')).unwrap_or(Version::new(0, 0, 0))
}
