//! The settings of a mount that choose the version of its plugin, and what follows a swap.

use super::subject::TuneTarget;
use crate::api::row::field;
use crate::catalog::VersionChoice;
use crate::mounts::{MountSettings, RollbackMode};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value};

/// Returns the fields of tuning that concern versions.
pub(super) fn fields() -> [Field; 5] {
    [
        plugin_name(),
        plugin_version(),
        override_pinned_version(),
        field(
            "plugin_rollback",
            FieldKind::String,
            "auto, or off: whether the version before comes back if a new version crashes",
        ),
        field(
            "plugin_probation",
            FieldKind::Any,
            "time after a swap in which the version before may come back, e.g. 60s",
        ),
    ]
}

/// The plugin that a mount's type may leave open. It counts as the type that is mounted.
pub(super) fn plugin_name() -> Field {
    field("plugin_name", FieldKind::String, "the plugin, where the type is \"plugin\"")
        .counts_as("type")
}

/// The version of the plugin, which a new mount takes at once and a tuned mount is swapped to.
pub(super) fn plugin_version() -> Field {
    let about = "version of the plugin from the catalog, e.g. 1.2.0; empty leaves the choice open";
    field("plugin_version", FieldKind::String, about)
}

/// `true` if the version counts although another version is pinned.
pub(super) fn override_pinned_version() -> Field {
    let about = "whether plugin_version counts although another version is pinned";
    field("override_pinned_version", FieldKind::Bool, about)
}

/// Returns the version that `values` choose.
pub(super) fn choice(values: &Map<String, Value>) -> VersionChoice<'_> {
    let asked = values.get("plugin_version").and_then(Value::as_str).unwrap_or_default();
    let overrides_pin = values.get("override_pinned_version").and_then(Value::as_bool);
    VersionChoice { asked, overrides_pin: overrides_pin.unwrap_or_default() }
}

/// Changes the settings of `values` that concern versions.
///
/// # Errors
/// 400 that names the field.
pub(super) fn change(
    settings: &mut MountSettings,
    values: &Map<String, Value>,
    subject: &TuneTarget<'_>,
) -> Result<(), Failure> {
    let (selection, probation) = (&mut settings.selection, &mut settings.probation);
    if let Some(version) = plugin_version_of(values, subject)? {
        selection.plugin_version = version;
    }
    let is_override = values.get("override_pinned_version").and_then(Value::as_bool);
    selection.override_pinned_version = is_override.unwrap_or(selection.override_pinned_version);
    if selection.override_pinned_version && selection.plugin_version.is_empty() {
        // A plugin of this binary has one version, and no pin to override.
        selection.override_pinned_version = false;
        if !subject.running.is_official {
            return Err(Failure::invalid(
                "override_pinned_version needs a version: give plugin_version as well",
            ));
        }
    }
    if let Some(word) = values.get("plugin_rollback").and_then(Value::as_str) {
        probation.plugin_rollback = RollbackMode::of_word(word)?;
    }
    probation.plugin_probation = probation_of(values)?.unwrap_or(probation.plugin_probation);
    probation.check()
}

/// Returns the length of the probation in seconds, if `values` name a length.
fn probation_of(values: &Map<String, Value>) -> Result<Option<u64>, Failure> {
    let given = values.get("plugin_probation").map(duration::seconds).transpose();
    given.map_err(|why| Failure::invalid(format!("plugin_probation: {why}")))
}

/// Returns the version that `values` ask for, as written, if they ask for a version. The version of
/// a plugin of this binary is stored as none, because that version changes with the binary.
///
/// # Errors
/// 400 for a plugin other than the plugin of the mount, and for a version other than the version of
/// `subject`.
fn plugin_version_of(
    values: &Map<String, Value>,
    subject: &TuneTarget<'_>,
) -> Result<Option<String>, Failure> {
    let text = |name: &str| values.get(name).and_then(Value::as_str).unwrap_or_default();
    let (name, version, TuneTarget { kind, running, .. }) =
        (text("plugin_name"), text("plugin_version"), subject);
    if !name.is_empty() && name != *kind {
        let name = quoted(name);
        return Err(Failure::invalid(format!(
            "plugin_name {name} is not the type of the mount, {kind}; leave it out"
        )));
    }
    let number = version.trim_start_matches('v');
    if version.is_empty() {
        return Ok(None);
    }
    if number != running.version {
        let (version, there_is) = (quoted(version), running.version);
        return Err(Failure::invalid(format!(
            "plugin_version {version} of {kind} is not in the catalog; there is {there_is}: give \
             that, or leave it out"
        )));
    }
    Ok(Some(if running.is_official { String::new() } else { version.to_owned() }))
}
