//! `sys/plugins/reload`: mounts and connections get the version of their plugin that pins and
//! settings choose now.
//!
//! If the new version of a mount fails, the version before serves the mount (decision H44).
//! Published servers may leave the mount broken.

use super::call::{PermittedCall, RequestFields};
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use super::sys_plugins_catalog::plugin_type;
use bulkhead_access::timestamp::timestamp;
use bulkhead_core::Core;
use bulkhead_core::catalog::{PluginType, ReloadRecord};
use bulkhead_core::lifecycle::{self, ReloadTargets};
use bulkhead_core::mounts::Mount;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::name::MountPath;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let scope =
        || field("scope", FieldKind::String, "empty or global: the service has a single server");
    let of_backend = [
        field(
            "plugin",
            FieldKind::String,
            "name of an uploaded plugin, to reload all mounts of the plugin",
        ),
        field("mounts", FieldKind::CommaList, "paths of mounts; auth methods with their auth/"),
        scope(),
    ];
    let of_plugin = [
        field("type", FieldKind::String, "secret, auth or database"),
        field("name", FieldKind::String, "name of the plugin"),
        scope(),
    ];
    let id = field("reload_id", FieldKind::String, "the id in the reload's answer");
    vec![
        row::write("sys/plugins/reload/backend", "reload mounts, or all mounts of a plugin")
            .needs_sudo()
            .with_effect()
            .fields(of_backend)
            .handled_by(reload_backend),
        row::read("sys/plugins/reload/backend/status", "outcome of a reload")
            .needs_sudo()
            .fields([id])
            .handled_by(status),
        row::write("sys/plugins/reload/{type}/{name}", "reload all mounts of a plugin")
            .needs_sudo()
            .with_effect()
            .fields(of_plugin)
            .handled_by(reload_plugin),
    ]
}

/// `POST sys/plugins/reload/backend`.
async fn reload_backend(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    check_scope(fields)?;
    let (plugin, paths) = (fields.text("plugin"), fields.list("mounts"));
    let reloading = match (plugin.is_empty(), paths.is_empty()) {
        (true, false) => {
            ReloadTargets { mounts: mounts_at(core, &paths)?, ..ReloadTargets::default() }
        }
        (false, true) => plugins_named(core, plugin)?,
        (true, true) => {
            return Err(Failure::invalid("give plugin or mounts: there is nothing to reload"));
        }
        (false, false) => {
            return Err(Failure::invalid("give plugin or mounts, and not both"));
        }
    };
    answer(lifecycle::reload(core, reloading).await?)
}

/// `POST sys/plugins/reload/:type/:name`.
async fn reload_plugin(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    check_scope(fields)?;
    let (kind, name) = (plugin_type(fields)?, fields.text("name"));
    if core.catalog.versions(kind, name).is_empty() {
        let warning =
            format!("there is no {} {}, so nothing was reloaded", kind.title(), quoted(name));
        let nothing = lifecycle::reload(core, ReloadTargets::default()).await?;
        return Ok(answer(nothing)?.with_warnings([warning]));
    }
    answer(lifecycle::reload(core, reloading(core, kind, name)).await?)
}

/// Returns the mounts of the plugin. For a database plugin, returns the connections of the plugin,
/// and the mounts with a component that may call database plugins.
fn reloading(core: &Core, kind: PluginType, name: &str) -> ReloadTargets {
    match kind {
        PluginType::Database => {
            ReloadTargets { mounts: mounts_of_databases(core), database: name.to_owned() }
        }
        PluginType::Auth | PluginType::Secret => {
            ReloadTargets { mounts: core.mounts.of_plugin(kind, name), ..ReloadTargets::default() }
        }
    }
}

/// Refuses a scope that no published server knows.
fn check_scope(fields: RequestFields<'_>) -> Result<(), Failure> {
    match fields.text("scope") {
        "" | "global" => Ok(()),
        scope => Err(Failure::invalid(format!(
            "scope {} is unknown: leave scope out, or give global",
            quoted(scope)
        ))),
    }
}

/// Returns the mounts at the paths, which may be written as `x`, `auth/x` and `sys/auth/x`.
fn mounts_at(core: &Core, paths: &[String]) -> Result<Vec<Arc<Mount>>, Failure> {
    let mount_at = |path: &String| {
        let written = path.trim_matches('/');
        let written = written.strip_prefix("sys/").unwrap_or(written);
        let mount = MountPath::parse_full(written).ok().and_then(|path| core.mounts.at(&path));
        mount.ok_or_else(|| {
            Failure::invalid(format!("no mount at {}: see sys/mounts and sys/auth", quoted(path)))
        })
    };
    paths.iter().map(mount_at).collect()
}

/// Returns the mounts of the uploaded engines and auth methods with the given name, and the
/// connections of the database plugin with the given name.
fn plugins_named(core: &Core, name: &str) -> Result<ReloadTargets, Failure> {
    let kinds = [PluginType::Secret, PluginType::Auth];
    if kinds.into_iter().any(|kind| core.catalog.is_official(kind, name)) {
        return Err(Failure::invalid(format!(
            "{name} is built in and has a single version: give the paths of mounts in mounts"
        )));
    }
    let has = |kind: PluginType| !core.catalog.versions(kind, name).is_empty();
    if !PluginType::ALL.into_iter().any(has) {
        return Err(Failure::invalid(format!("no plugin {} in the catalog", quoted(name))));
    }
    let mut found = match has(PluginType::Database) {
        true => reloading(core, PluginType::Database, name),
        false => ReloadTargets::default(),
    };
    found.mounts.extend(kinds.into_iter().flat_map(|kind| core.mounts.of_plugin(kind, name)));
    Ok(found)
}

/// Returns the mounts with a component that may call database plugins.
fn mounts_of_databases(core: &Core) -> Vec<Arc<Mount>> {
    let calls = |mount: &Arc<Mount>| {
        let asks = &mount.plugin.description().asks;
        asks.iter().any(|line| line == "database" || line.starts_with("database:"))
    };
    core.mounts.all().into_iter().filter(calls).collect()
}

/// The answer to a reload: 200 with the id of the reload, or the failures.
///
/// # Errors
/// The first failure, in a message with the name and the reason of each mount and connection.
fn answer(reload: ReloadRecord) -> Result<Reply, Failure> {
    let reasons = reload.failure_text();
    match reload.failed.into_iter().next() {
        None => {
            let data = Map::from_iter([("reload_id".to_owned(), json!(reload.id))]);
            Ok(ReplyBody::Data(data).into())
        }
        Some((_, failure)) => Err(Failure {
            message: format!("served as before: {reasons}; everything else was reloaded"),
            ..failure
        }),
    }
}

/// `GET sys/plugins/reload/backend/status`.
async fn status(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    let id = fields.text("reload_id");
    if id.is_empty() {
        return Err(Failure::invalid("reload_id is required: give the id in the reload's answer"));
    }
    let reload = core.reloads.find(id).ok_or_else(|| {
        let message =
            format!("no reload has the id {}; the last 64 since the start are known", quoted(id));
        Failure::new(FailureKind::NotFound, message)
    })?;
    let result =
        json!({ "timestamp": timestamp(reload.time / 1_000), "error": reload.failure_text() });
    let node: Value = Map::from_iter([("local".to_owned(), result)]).into();
    let data = [("reload_id", json!(reload.id)), ("results", node)];
    Ok(ReplyBody::Data(data.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
        .into())
}
