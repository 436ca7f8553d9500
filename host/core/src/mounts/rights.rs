//! Grants and limits of a mount: from its component, the component's maker and the mount's own
//! grants.

use super::record::MountRecord;
use crate::catalog::EnginePlugin;
use bulkhead_sandbox::{Ask, Engine, Grant, Grants, Limits, Maker, Rights};
use std::sync::Arc;

/// Returns the grants and limits of the calls of a mount.
pub(crate) fn rights(record: &MountRecord, plugin: &EnginePlugin) -> (Arc<Grants>, Limits) {
    let asked = parse_asks(&plugin.engine);
    let rights = Rights {
        mount: record.path.as_str(),
        maker: plugin.engine.identity().maker,
        asked: &asked,
        ceiling: plugin.engine.ceiling(),
        granted: record.settings.grants.as_deref(),
    };
    (Arc::new(Grants::of(&rights)), Limits::of(&rights))
}

/// Returns the grants of a mount with this engine if the operator sets none: all asks of an
/// official engine, and nothing for an uploaded engine.
pub(crate) fn usual(engine: &Engine) -> Vec<Grant> {
    match engine.identity().maker {
        Maker::Official => parse_asks(engine).iter().filter_map(Ask::as_grant).collect(),
        Maker::Uploaded => Vec::new(),
    }
}

/// Parses the asks of an engine. Leaves out asks that do not parse, so they grant nothing.
fn parse_asks(engine: &Engine) -> Vec<Ask> {
    engine.description().asks.iter().filter_map(|line| line.parse().ok()).collect()
}
