//! Bringing the records of a mount to a later version of its plugin's API (decision K6).
//!
//! Requests and due work wait at the gates of the mount while the component's `migrate` converts
//! the records, in one commit or in steps. The commit of the first step stores the new version
//! together with the cursor, so that an interrupted change goes on after a restart.
//!
//! This file prevents a request that reads the records of one version by the rows of another.

use super::put_version::{PutVersion, store_version};
use super::swap::{claim, gone_failure, is_serving, pause_mount};
use crate::core::Core;
use crate::mounts::{MountRecord, Mounts, VersionSwap};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use tokio::time::Instant;

/// Brings the records of the mount `uuid` to `version` of its plugin's API.
///
/// # Errors
/// The failure of the component, 400 for a mount that was disabled or moved, 503 for another change
/// under way or for requests in flight that do not end. The mount is served as before, unless a
/// step that is not the last was stored: the mount is then unavailable until the change goes on.
pub(super) async fn upgrade_api(core: &Arc<Core>, uuid: &str, version: u64) -> Result<(), Failure> {
    let find_mount = || core.mounts.by_uuid(uuid).ok_or_else(gone_failure);
    let claim = claim(core, &find_mount()?.record).await?;
    let before = find_mount()?;
    let after = Mounts::with_api_version(&before, version, &core.catalog)?;
    core.load_plugin(&after).await?;
    let began = Instant::now();
    let paused = pause_mount(&before).await?;
    let MountRecord { version: served_by, settings, path, .. } = &before.record;
    let selection = settings.selection.clone();
    let swap = VersionSwap { version: served_by.clone(), selection, rollback: None };
    let put = PutVersion { swap: &swap, way_back: None, may_be: is_serving, may_checkpoint: false };
    let stored = store_version(core, &claim, &after, &put).await;
    core.mounts.update(stored.map_err(|stopped| stopped.leave(core))?, &core.catalog)?;
    drop(paused);
    let pairs = [
        ("mount", path.to_string()),
        ("to", version.to_string()),
        ("held_back", format!("{}ms", began.elapsed().as_millis())),
    ];
    core.log.line(LogLevel::Info, "api-version-changed", &pairs);
    Ok(())
}
