//! Versions of a component's API, between which a mount chooses by an option.

use crate::description::ComponentDescription;
use std::collections::BTreeSet;

/// Name of the mount option that chooses the version.
pub const OPTION: &str = "version";

impl ComponentDescription {
    /// Returns the versions of the API between which a mount chooses; none if the API has one
    /// version only.
    #[must_use]
    pub fn api_versions(&self) -> BTreeSet<u64> {
        let versions = self.routes.iter().map(|route| route.api_version);
        versions.filter(|version| *version > 0).collect()
    }

    /// Returns the version that the option `option` of a mount chooses, or the lowest without the
    /// option; `None` if there is no such version.
    #[must_use]
    pub fn api_version(&self, option: Option<&str>) -> Option<u64> {
        let versions = self.api_versions();
        match option {
            None => versions.first().copied(),
            Some(text) => text.parse().ok().filter(|version| versions.contains(version)),
        }
    }
}
