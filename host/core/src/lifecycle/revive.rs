//! Reviving mounts whose missing plugin is available again.

use super::migrate::migrate;
use crate::catalog::PluginType;
use crate::core::Core;
use crate::log::cause;
use std::sync::Arc;

/// Serves the mounts that waited for the plugin, each after the migration of its data. A mount that
/// fails continues to wait.
pub(crate) async fn revive(core: &Arc<Core>, kind: PluginType, name: &str) {
    for record in core.mounts.take_unavailable(kind, name) {
        let path = record.path.to_string();
        let served = core.mounts.serve(record.clone(), &core.catalog);
        let migrated = match served.map(|()| core.mounts.by_uuid(&record.uuid)) {
            Ok(Some(mount)) => migrate(core, &mount).await,
            Ok(None) => Ok(()),
            Err(failure) => Err(failure),
        };
        match migrated {
            Ok(()) => core.log.line("info", "mount-has-its-plugin", &[("mount", path)]),
            Err(failure) => {
                core.log.line("error", "mount-without-plugin", &[("mount", path), cause(&failure)]);
                core.mounts.set_unavailable(record, failure.message);
            }
        }
    }
}
