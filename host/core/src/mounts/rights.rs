//! Grants and limits of a mount: from its component, the component's maker and the mount's own
//! grants.

use super::record::MountRecord;
use crate::catalog::EnginePlugin;
use bulkhead_sandbox::{Grant, GrantLayers, GrantPattern, Grants, MountLimits, Publisher};
use std::sync::Arc;

/// Returns the grants and limits of the calls of a mount.
pub(crate) fn call_rights(
    record: &MountRecord,
    plugin: &EnginePlugin,
) -> (Arc<Grants>, MountLimits) {
    let asks = parse_asks(plugin);
    let rights = GrantLayers {
        mount: record.path.as_str(),
        maker: plugin.identity().maker,
        asked: &asks,
        ceiling: plugin.ceiling(),
        granted: record.settings.grants.as_deref(),
    };
    (Arc::new(Grants::of(&rights)), MountLimits::of(&rights))
}

/// Returns the grants of a mount with this plugin if the operator sets none: all asks of an
/// official plugin, and nothing for an uploaded plugin.
pub fn default_grants(plugin: &EnginePlugin) -> Vec<Grant> {
    match plugin.identity().maker {
        Publisher::Official => {
            parse_asks(plugin).iter().filter_map(GrantPattern::as_grant).collect()
        }
        Publisher::Uploaded => Vec::new(),
    }
}

/// Parses the asks of a plugin. Leaves out asks that do not parse, so they grant nothing.
fn parse_asks(plugin: &EnginePlugin) -> Vec<GrantPattern> {
    plugin.description().asks.iter().filter_map(|line| line.parse().ok()).collect()
}
