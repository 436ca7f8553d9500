//! The catalog as it is shown: every plugin, also those that cannot be used.

use super::Catalog;
use super::entry::{Entry, PluginType};
use bulkhead_sandbox::Maker;
use bulkhead_sandbox::component::Identity;

/// A plugin as listings show it.
pub(crate) struct Listed {
    pub(crate) kind: PluginType,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) digest: String,
    pub(crate) maker: Maker,
    pub(crate) asks: Vec<String>,
    /// Why it cannot be used; `None` when it can.
    pub(crate) hindrance: Option<String>,
}

impl Catalog {
    /// Every plugin, those that cannot be used among them, by type and name.
    pub(crate) fn listed(&self) -> Vec<Listed> {
        let engines = self.all_engines();
        let engines = engines
            .iter()
            .map(|plugin| Listed::of(PluginType::Secret, plugin.engine.identity(), &plugin.engine.description().asks));
        let plugins = self.all_database_plugins();
        let plugins = plugins
            .iter()
            .map(|plugin| Listed::of(PluginType::Database, plugin.identity(), &plugin.description().asks));
        let known = self.read();
        let left_out = known.left_out.values().map(|(entry, why)| Listed::left_out(entry, why));
        let mut listed: Vec<Listed> = engines.chain(plugins).chain(left_out).collect();
        listed.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
        listed
    }
}

impl Listed {
    fn of(kind: PluginType, identity: &Identity, asks: &[String]) -> Self {
        let Identity { name, version, digest, maker } = identity.clone();
        Self { kind, name, version, digest, maker, asks: asks.to_vec(), hindrance: None }
    }

    fn left_out(entry: &Entry, why: &str) -> Self {
        let Entry { kind, name, version, digest, .. } = entry.clone();
        let (maker, hindrance) = (Maker::Uploaded, Some(why.to_owned()));
        Self { kind, name, version, digest, maker, asks: Vec::new(), hindrance }
    }
}
