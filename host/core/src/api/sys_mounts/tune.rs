//! Tuning: reading and changing the settings of a mount.

use super::grants;
use super::mount_path::path;
use super::serving::{MountListingEntry, absent};
use super::settings;
use super::subject::TuneTarget;
use super::version;
use crate::api::after_commit::AfterCommit;
use crate::api::call::PermittedCall;
use crate::api::reply::{Reply, ReplyBody};
use crate::catalog::{EnginePlugin, VersionChoice};
use crate::core::Core;
use crate::lifecycle;
use crate::mounts::{
    self, MountChange, MountClass, MountPhase, MountRecord, RunningPlugin, VersionSelection,
    VersionSwap, api_version,
};
use bulkhead_store::Unit;
use bulkhead_wire::description::Field;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

/// The fields of tuning.
pub(crate) fn tuning_fields() -> Vec<Field> {
    [vec![path()], settings::fields(), grants::changes().into()].concat()
}

/// Returns the effective settings of a mount of a class.
pub(crate) fn read_tuning_in(
    class: MountClass,
    call: &PermittedCall<'_>,
) -> Result<Reply, Failure> {
    let serving = MountListingEntry::at(call.core, class, call.fields.text("path"))?;
    Ok(ReplyBody::Copied(serving.effective_config(call.core.lifetimes)).into())
}

/// Changes the settings of a mount of a class.
pub(crate) async fn tune_in(class: MountClass, call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, request, .. } = call;
    let serving = MountListingEntry::at(core, class, fields.text("path"))?;
    let path = &serving.record().path;
    let builtin = match &serving {
        MountListingEntry::Builtin(which, _) => Some(*which),
        MountListingEntry::Mount(_) | MountListingEntry::Unavailable(_) => None,
    };
    // Read from the store, so that the later of two concurrent changes conflicts and runs again.
    let stored = match builtin {
        Some(which) => Some(which.read(&core.store, unit).await?),
        None => MountRecord::read(unit, path).await?,
    };
    let mut record = stored
        .filter(|record| record.phase == MountPhase::Serving)
        .ok_or_else(|| absent(class, path.listed()))?;
    let values = settings::said(fields.all(), &request.fields);
    let wanted = wanted_plugin(core, class, &record, &values)?.filter(|_| builtin.is_none());
    check_has_plugin(&serving, wanted.is_some())?;
    let usual =
        wanted.as_ref().map(|plugin| mounts::default_grants(&plugin.engine)).unwrap_or_default();
    let running = match &wanted {
        Some(plugin) => RunningPlugin::of(&plugin.engine, &usual),
        None => serving.running(),
    };
    let subject = TuneTarget {
        class,
        builtin,
        kind: &serving.record().kind,
        running,
        system: core.lifetimes,
    };
    let selected_before = record.settings.selection.clone();
    let options_before = record.settings.options.clone();
    let mut warnings = settings::change(&mut record.settings, &values, &subject)?;
    check_api_version(unit, &serving, &record, &options_before).await?;
    let is_served = matches!(serving, MountListingEntry::Mount(_));
    let swap = wanted.and_then(|plugin| {
        version_swap(plugin, &mut record, selected_before, is_served, &mut warnings)
    });
    if values.contains_key("identity_token_key") {
        settings::check_identity_token_key(unit, &record.settings).await?;
    }
    let change = match builtin {
        Some(which) => {
            which.put(unit, &mut record)?;
            MountChange::TunedBuiltin(which, Box::new(record))
        }
        None => {
            record.put(unit)?;
            MountChange::Tuned { record: Box::new(record), swap }
        }
    };
    let reply = Reply::from(ReplyBody::Nothing).with_warnings(warnings);
    Ok(reply.after_commit(AfterCommit::Mounts(change)))
}

/// Returns the swap to the wanted plugin, unless its version serves the mount already. The swap
/// after the commit stores the choice, so that a failed swap changes nothing.
fn version_swap(
    plugin: Arc<EnginePlugin>,
    record: &mut MountRecord,
    selected_before: VersionSelection,
    is_served: bool,
    warnings: &mut Vec<String>,
) -> Option<VersionSwap> {
    let selection = mem::replace(&mut record.settings.selection, selected_before);
    let version = plugin.recorded_version();
    if is_served && version == record.version && selection == record.settings.selection {
        let number = &plugin.engine.identity().version;
        warnings.push(format!("version {number} serves the mount already"));
        return None;
    }
    Some(VersionSwap { version, selection, rollback: None })
}

/// Refuses options that ask for another version of the API than the records of the mount have.
async fn check_api_version(
    unit: &mut Unit,
    serving: &MountListingEntry,
    record: &MountRecord,
    before: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let MountListingEntry::Mount(mount) = serving else { return Ok(()) };
    api_version::check_change(unit, record, before, mount.plugin.engine.description()).await
}

/// Refuses other settings for an unavailable mount unless the request names a version.
///
/// # Errors
/// 503 with the reason for which the mount is unavailable, and the remedy.
fn check_has_plugin(serving: &MountListingEntry, names_version: bool) -> Result<(), Failure> {
    match serving {
        MountListingEntry::Unavailable(mount) if !names_version => {
            let failure = mount.failure();
            let remedy = "give plugin_version to let another version serve the mount";
            Err(Failure { message: format!("{}; {remedy}", failure.message), ..failure })
        }
        _ => Ok(()),
    }
}

/// Returns the version of the plugin that `values` ask for.
///
/// # Errors
/// 400 if another version is pinned, the catalog has no such version, or the version cannot read
/// the data of the mount.
fn wanted_plugin(
    core: &Core,
    class: MountClass,
    record: &MountRecord,
    values: &Map<String, Value>,
) -> Result<Option<Arc<EnginePlugin>>, Failure> {
    let choice = version::choice(values);
    if choice.asked.is_empty() {
        return Ok(None);
    }
    let overrides_pin = match values.contains_key("override_pinned_version") {
        true => choice.overrides_pin,
        false => record.settings.selection.override_pinned_version,
    };
    let choice = VersionChoice { overrides_pin, ..choice };
    let plugin = core.catalog.choose(class.plugin_type(), &record.kind, choice)?;
    lifecycle::check_schema(record, &plugin)?;
    Ok(Some(plugin))
}
