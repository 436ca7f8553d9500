//! Provisioning of dev mode: a root token, and every plugin of this binary at its default path.
//!
//! A request that enables a plugin at the path of its untouched default mount takes the mount over
//! (decision H83). This file prevents a take-over of a mount that somebody has changed or used.

use crate::catalog::PluginType;
use crate::core::Core;
use crate::mounts::{MountMarks, MountPhase, MountRecord, MountSettings, NewMount, api_version};
use bulkhead_access::log::cause;
use bulkhead_access::tokens;
use bulkhead_store::{Space, Unit};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::name::MountPath;
use bulkhead_wire::secret::Secret;
use std::collections::BTreeMap;

/// Description of a default mount that nobody has changed.
const DESCRIPTION: &str = "default mount of dev mode";

/// Stores the token `root_token`, and mounts all plugins that are not mounted yet.
///
/// # Errors
/// 400 if `root_token` was revoked before; the store's failure.
pub(crate) async fn provision_dev(core: &Core, root_token: &Secret) -> Result<(), Failure> {
    tokens::ensure_root(&core.store, root_token).await?;
    for (kind, name) in core.catalog.official_mountable() {
        let path = match kind {
            PluginType::Auth => MountPath::below_auth(&name),
            _ => MountPath::new(default_path(&name)),
        };
        mount_default(core, &name, path.map_err(Failure::internal)?).await?;
    }
    Ok(())
}

/// Returns the default path of an engine: the engine's name, unless clients expect another path.
fn default_path(name: &str) -> &str {
    match name {
        "scheduler" => "acl",
        "kv" => "secret",
        name => name,
    }
}

/// Returns the default mount that the enabling of `new` takes over: the same path, plugin and
/// settings apart from the description, without records and without a change since dev mode made
/// the mount. The unit of work remembers what was read. Only in dev mode.
///
/// # Errors
/// 500 for a record of the mount that does not parse; the store's failure.
pub async fn untouched_default(
    core: &Core,
    unit: &mut Unit,
    new: &NewMount,
) -> Result<Option<MountRecord>, Failure> {
    if !core.process.is_dev() {
        return Ok(None);
    }
    let Some(record) = MountRecord::read(unit, &new.path).await? else { return Ok(None) };
    let settings = MountSettings { description: DESCRIPTION.to_owned(), ..new.settings.clone() };
    let is_usual = |marks: MountMarks| marks == MountMarks::default();
    let is_equal = record.kind == new.kind && record.settings == settings && is_usual(new.marks);
    let is_unchanged = record.phase == MountPhase::Serving
        && record.settings == default_settings(&record.kind)
        && is_usual(record.marks)
        && record.migration.is_none();
    if !is_equal || !is_unchanged {
        return Ok(None);
    }
    let records = unit.keys(Space::Data, &format!("{}/", record.uuid), "", 1).await?;
    Ok(Some(record).filter(|_| records.is_empty()))
}

/// Returns the settings of the default mount of a plugin.
fn default_settings(kind: &str) -> MountSettings {
    MountSettings {
        description: DESCRIPTION.to_owned(),
        options: default_options(kind),
        ..MountSettings::default()
    }
}

/// Returns the options of the default mount: clients expect version 2 of `kv` at `secret/`.
fn default_options(name: &str) -> BTreeMap<String, String> {
    let version = (name == "kv").then(|| (api_version::OPTION.to_owned(), "2".to_owned()));
    version.into_iter().collect()
}

/// Mounts a plugin at its default path in the API.
async fn mount_default(core: &Core, kind: &str, path: MountPath) -> Result<(), Failure> {
    if core.mounts.route(path.as_str().trim_end_matches('/')).is_some() {
        return Ok(());
    }
    let settings = default_settings(kind);
    let mut unit = core.store.begin();
    let new = NewMount { path, kind: kind.to_owned(), marks: MountMarks::default(), settings };
    let record = match core.mounts.enable(&mut unit, &core.catalog, new).await {
        Err(taken) if taken.kind == FailureKind::InvalidRequest => {
            // The path is taken by a mount whose record cannot be opened. The other mounts are
            // still served.
            core.log.line(LogLevel::Warn, "default-mount-skipped", &[cause(&taken)]);
            return Ok(());
        }
        record => record?,
    };
    unit.commit().await?;
    core.mounts.serve(record, &core.catalog)
}
