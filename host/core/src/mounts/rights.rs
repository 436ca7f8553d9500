//! What a mount may do and how much of everything it gets: from its component, its maker and the
//! mount's grants.

use super::record::MountRecord;
use crate::catalog::EnginePlugin;
use bulkhead_sandbox::{Ask, Engine, Grant, Grants, Limits, Maker, Rights};
use std::sync::Arc;

/// The grants and limits of the calls of a mount.
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

/// What a mount of that engine is granted while the operator says nothing: what an official one
/// asks for, and of another's nothing.
pub(crate) fn usual(engine: &Engine) -> Vec<Grant> {
    match engine.identity().maker {
        Maker::Official => parse_asks(engine).iter().filter_map(Ask::as_grant).collect(),
        Maker::Uploaded => Vec::new(),
    }
}

/// What is not understood gives nothing.
fn parse_asks(engine: &Engine) -> Vec<Ask> {
    engine.description().asks.iter().filter_map(|line| line.parse().ok()).collect()
}
