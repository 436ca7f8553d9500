//! Tuning: reading and changing the settings of a mount.

use super::grants;
use super::info;
use super::mount_path::path;
use super::serving::{MountListingEntry, absent};
use super::settings;
use super::subject::TuneTarget;
use super::version;
use crate::endpoints::after_commit::AfterCommit;
use crate::endpoints::call::{PermittedCall, PresentQuestion};
use crate::endpoints::reply::{Reply, ReplyBody};
use bulkhead_core::Core;
use bulkhead_core::catalog::EnginePlugin;
use bulkhead_core::lifecycle;
use bulkhead_core::mounts::{
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
    let builtin = serving.builtin();
    let mut record = read_record(core, unit, &serving)
        .await?
        .filter(|record| record.phase == MountPhase::Serving)
        .ok_or_else(|| absent(class, path.listed()))?;
    let values = settings::said(fields.all(), &request.fields);
    let is_served = matches!(serving, MountListingEntry::Mount(_));
    let question = VersionQuestion { core, class, record: &record, is_served };
    let wanted = question.wanted_plugin(&values)?.filter(|_| builtin.is_none());
    let unmoved = if wanted.is_none() { question.unmoved_warning(&values) } else { None };
    check_has_plugin(&serving, wanted.is_some())?;
    let usual = wanted.as_ref().map(|plugin| mounts::default_grants(plugin)).unwrap_or_default();
    let running = match &wanted {
        Some(plugin) => RunningPlugin::of(plugin, &usual),
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
    warnings.extend(unmoved);
    let upgrade = check_api_version(unit, &serving, &record, &options_before).await?;
    let swap = wanted.and_then(|plugin| {
        version_swap(plugin, &mut record, selected_before, is_served, &mut warnings)
    });
    if values.contains_key("identity_token_key") {
        settings::check_identity_token_key(unit, &record.settings).await?;
    }
    if upgrade.is_some() {
        // Stored with the first converted records, so that no request meets the others.
        keep_api_version(&mut record, &options_before);
    }
    let change = match builtin {
        Some(which) => {
            which.put(unit, &mut record)?;
            MountChange::TunedBuiltin(which, Box::new(record))
        }
        None => {
            record.put(unit)?;
            change_of(Box::new(record), swap, upgrade)?
        }
    };
    let reply = Reply::from(ReplyBody::Nothing).with_warnings(warnings);
    Ok(reply.after_commit(AfterCommit::Mounts(change)))
}

/// Returns the present settings of a mount of a class, for the rights of fields.
pub(super) async fn present_tuning_in(
    class: MountClass,
    question: PresentQuestion<'_>,
) -> Result<Map<String, Value>, Failure> {
    let PresentQuestion { core, unit, fields } = question;
    // The handler refuses a path without a mount.
    let Ok(serving) = MountListingEntry::at(core, class, fields.text("path")) else {
        return Ok(Map::new());
    };
    let stored = read_record(core, unit, &serving).await?;
    let shown =
        stored.map(|record| info::effective_config(&record, serving.running(), core.lifetimes));
    Ok(shown.unwrap_or_default())
}

/// Reads the record of an entry from the store, so that the later of two concurrent changes
/// conflicts and runs again.
async fn read_record(
    core: &Core,
    unit: &mut Unit,
    serving: &MountListingEntry,
) -> Result<Option<MountRecord>, Failure> {
    match serving.builtin() {
        Some(which) => which.read(&core.store, unit).await.map(Some),
        None => MountRecord::read(unit, &serving.record().path).await,
    }
}

/// Returns the swap to the wanted plugin, unless the version of the plugin serves the mount
/// already. The swap after the commit stores the choice, so that a failed swap changes nothing.
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
        let number = &plugin.identity().version;
        warnings.push(format!("version {number} serves the mount already"));
        return None;
    }
    Some(VersionSwap { version, selection, rollback: None })
}

/// Returns the change to apply after the commit.
///
/// # Errors
/// 400 if both the version of the plugin and the version of its API change.
fn change_of(
    record: Box<MountRecord>,
    swap: Option<VersionSwap>,
    upgrade: Option<u64>,
) -> Result<MountChange, Failure> {
    match (swap, upgrade) {
        (swap, None) => Ok(MountChange::Tuned { record, swap }),
        (None, Some(api_version)) => Ok(MountChange::Upgraded { record, api_version }),
        (Some(_), Some(_)) => Err(Failure::invalid(
            "plugin_version and options.version both change the format of the mount's records; \
             change one, and then the other",
        )),
    }
}

/// Returns the version of the API that the records of the mount must be migrated to, if the options
/// ask for a later version than the records have.
///
/// # Errors
/// 400 for an earlier version. 400 for another version if the plugin of the mount is unavailable,
/// or the records are between two versions.
async fn check_api_version(
    unit: &mut Unit,
    serving: &MountListingEntry,
    record: &MountRecord,
    before: &BTreeMap<String, String>,
) -> Result<Option<u64>, Failure> {
    if record.settings.options.get(api_version::OPTION) == before.get(api_version::OPTION) {
        return Ok(None);
    }
    match serving {
        MountListingEntry::Mount(mount) if !record.has_unfinished_migration() => {
            let plugin = mount.plugin.description();
            api_version::check_change(unit, record, before, plugin).await
        }
        _ => Err(api_version::not_served_failure(&record.path)),
    }
}

/// Takes the option for the version of the API back to its value before the change.
fn keep_api_version(record: &mut MountRecord, before: &BTreeMap<String, String>) {
    let options = &mut record.settings.options;
    match before.get(api_version::OPTION) {
        Some(version) => options.insert(api_version::OPTION.to_owned(), version.clone()),
        None => options.remove(api_version::OPTION),
    };
}

/// Refuses other settings for an unavailable mount unless the request names a version.
///
/// # Errors
/// 503 with the reason why the mount is unavailable, and the remedy.
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

/// The question for the version of a mount's plugin.
struct VersionQuestion<'a> {
    core: &'a Core,
    class: MountClass,
    record: &'a MountRecord,
    is_served: bool,
}

impl VersionQuestion<'_> {
    /// Returns the new plugin of the mount if `values` change the choice of the version. `None` if
    /// the choice stays: a client may send the present choice with each change, and a pin waits for
    /// a reload. For an unserved mount, the choice is made again.
    ///
    /// # Errors
    /// 400 if another version is pinned, the catalog has no such version, or the version cannot
    /// read the data of the mount.
    fn wanted_plugin(
        &self,
        values: &Map<String, Value>,
    ) -> Result<Option<Arc<EnginePlugin>>, Failure> {
        let Self { core, class, record, is_served } = *self;
        let before = &record.settings.selection;
        let selection = version::changed_selection(values, before);
        let names_version = !version::choice(values).version.is_empty();
        let is_again = !is_served && names_version;
        if selection == *before && !is_again {
            return Ok(None);
        }
        if selection.plugin_version != before.plugin_version {
            let choice = selection.choice();
            core.catalog.check_choice(class.plugin_type(), &record.kind, choice)?;
        }
        let plugin = self.chosen(&selection)?;
        lifecycle::check_schema(record, &plugin)?;
        Ok(Some(plugin))
    }

    /// Returns a warning if `values` repeat the choice of the version: the choice takes effect at
    /// the next reload at the latest, or has effect already.
    fn unmoved_warning(&self, values: &Map<String, Value>) -> Option<String> {
        let version = values.get("plugin_version")?.as_str()?;
        let chosen = self.chosen(&self.record.settings.selection).ok()?;
        let chosen_number = &chosen.identity().version;
        let running = &self.record.version;
        match chosen.recorded_version() == *running {
            true if version.is_empty() => None,
            true => Some(format!("version {chosen_number} serves the mount already")),
            false => Some(format!(
                "plugin_version is as before: version {running} serves until the next reload, \
                 which chooses version {chosen_number}"
            )),
        }
    }

    fn chosen(&self, selection: &VersionSelection) -> Result<Arc<EnginePlugin>, Failure> {
        let kind = self.class.plugin_type();
        self.core.catalog.choose(kind, &self.record.kind, selection.choice())
    }
}
