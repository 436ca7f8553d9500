//! Listings of the catalog, with the plugins that cannot be used.

use super::entry::{PluginRecord, PluginType};
use super::origin::ComponentOrigin;
use super::table::Catalog;
use super::versions::parse_order;
use bulkhead_sandbox::component::ComponentIdentity;
use bulkhead_sandbox::{GrantPattern, Publisher};

/// A plugin in a listing.
pub struct ListedPlugin {
    /// Type of the plugin, the first key of the order of a listing.
    pub kind: PluginType,
    /// Own name of the plugin, never an alias.
    pub name: String,
    /// Semantic version without a leading `v`.
    pub version: String,
    /// SHA-256 of the component, hexadecimal.
    pub digest: String,
    /// Part of this binary, or uploaded; an unusable plugin is always an uploaded plugin.
    pub maker: Publisher,
    /// Source and signature of an uploaded component; the default for an official plugin.
    pub origin: ComponentOrigin,
    /// Grants requested by the component, as lines; empty if the plugin cannot be used.
    pub asks: Vec<String>,
    /// Ceiling for the grants of the plugin's mounts.
    pub grants: Vec<String>,
    /// The reason if the plugin cannot be used.
    pub hindrance: Option<String>,
}

impl Catalog {
    /// Returns every version of a plugin, the oldest first.
    pub fn versions(&self, kind: PluginType, name: &str) -> Vec<ListedPlugin> {
        let is_same_plugin = |plugin: &ListedPlugin| plugin.kind == kind && plugin.name == name;
        self.list().into_iter().filter(is_same_plugin).collect()
    }

    /// Returns all plugins by type, name and version, with the plugins that cannot be used.
    pub fn list(&self) -> Vec<ListedPlugin> {
        let engines = self.all_mountable();
        let engines = engines.iter().map(|plugin| {
            let asks = (plugin.description().asks.as_slice(), plugin.ceiling());
            ListedPlugin::of(plugin.kind(), plugin.identity(), asks)
        });
        let plugins = self.all_database_plugins();
        let plugins = plugins.iter().map(|plugin| {
            ListedPlugin::of(
                PluginType::Database,
                plugin.identity(),
                (&plugin.description().asks, plugin.ceiling()),
            )
        });
        let table = self.read();
        let left_out =
            table.left_out.values().map(|(entry, why)| ListedPlugin::left_out(entry, why));
        let mut listed: Vec<ListedPlugin> = engines.chain(plugins).chain(left_out).collect();
        for one in &mut listed {
            let named = (one.kind, one.name.clone(), one.version.clone());
            if let Some(origin) = table.origins.get(&named) {
                one.origin = origin.clone();
            }
        }
        listed.sort_by_cached_key(|one| (one.kind, one.name.clone(), parse_order(&one.version)));
        listed
    }
}

impl ListedPlugin {
    /// Returns the listing of a usable plugin. Without a ceiling in its entry, the plugin may get
    /// all lines that it asks for.
    fn of(
        kind: PluginType,
        identity: &ComponentIdentity,
        (asks, ceiling): (&[String], Option<&[GrantPattern]>),
    ) -> Self {
        let ComponentIdentity { name, version, digest, maker } = identity.clone();
        let grants = ceiling.map_or_else(|| asks.to_vec(), lines);
        let (asks, origin) = (asks.to_vec(), ComponentOrigin::default());
        Self { kind, name, version, digest, maker, origin, asks, grants, hindrance: None }
    }

    fn left_out(entry: &PluginRecord, why: &str) -> Self {
        let PluginRecord { kind, name, version, digest, ceiling, origin, .. } = entry.clone();
        let (maker, hindrance) = (Publisher::Uploaded, Some(why.to_owned()));
        let grants = ceiling.as_deref().map(lines).unwrap_or_default();
        let asks = Vec::new();
        Self { kind, name, version, digest, maker, origin, asks, grants, hindrance }
    }
}

fn lines(asks: &[GrantPattern]) -> Vec<String> {
    asks.iter().map(GrantPattern::to_string).collect()
}
