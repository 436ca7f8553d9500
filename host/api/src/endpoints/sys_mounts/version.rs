//! The settings of a mount for the choice of the plugin's version, and for the time after a swap.

use super::subject::TuneTarget;
use crate::endpoints::row::field;
use bulkhead_core::catalog::VersionChoice;
use bulkhead_core::mounts::{MountSettings, RollbackMode, VersionSelection};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value};
use std::mem;

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
        )
        .needs_sudo(),
        field(
            "plugin_probation",
            FieldKind::Duration,
            "time after a swap for a rollback to the version before, e.g. 60s",
        )
        .needs_sudo(),
    ]
}

/// The plugin, if the mount's type leaves the plugin open. The plugin counts as the mounted type.
pub(super) fn plugin_name() -> Field {
    field("plugin_name", FieldKind::String, "the plugin, where the type is \"plugin\"")
        .counts_as("type")
}

/// The version of the plugin, which a new mount takes at once and a tuned mount is swapped to.
pub(super) fn plugin_version() -> Field {
    let about = "version of the plugin from the catalog, e.g. 1.2.0; empty clears the choice";
    field("plugin_version", FieldKind::String, about).needs_sudo()
}

/// `true` if the version counts although another version is pinned.
pub(super) fn override_pinned_version() -> Field {
    let about = "whether plugin_version counts although another version is pinned";
    field("override_pinned_version", FieldKind::Bool, about).needs_sudo()
}

/// Returns the choice that `values` leave of the choice `before`. An empty version clears the
/// choice and the override.
pub(super) fn changed_selection(
    values: &Map<String, Value>,
    before: &VersionSelection,
) -> VersionSelection {
    let version = values.get("plugin_version").and_then(Value::as_str);
    let overrides_pin = values.get("override_pinned_version").and_then(Value::as_bool);
    let is_kept = before.override_pinned_version && version != Some("");
    VersionSelection {
        plugin_version: version.unwrap_or(&before.plugin_version).to_owned(),
        override_pinned_version: overrides_pin.unwrap_or(is_kept),
    }
}

/// Returns the version that `values` choose.
pub(super) fn choice(values: &Map<String, Value>) -> VersionChoice<'_> {
    let version = values.get("plugin_version").and_then(Value::as_str).unwrap_or_default();
    let overrides_pin = values.get("override_pinned_version").and_then(Value::as_bool);
    VersionChoice { version, overrides_pin: overrides_pin.unwrap_or_default() }
}

/// Changes the settings of `values` that concern versions.
///
/// # Errors
/// 400 with the name of the field.
pub(super) fn change(
    settings: &mut MountSettings,
    values: &Map<String, Value>,
    subject: &TuneTarget<'_>,
) -> Result<(), Failure> {
    let (selection, probation) = (&mut settings.selection, &mut settings.probation);
    let before = mem::take(selection);
    *selection = changed_selection(values, &before);
    check_plugin_name(values, subject)?;
    if selection.plugin_version != before.plugin_version {
        check_version(&selection.plugin_version, subject)?;
    }
    if subject.running.is_official {
        // The version of a plugin of this binary changes with the binary.
        selection.plugin_version = String::new();
    }
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
    let probation = values.get("plugin_probation").map(duration::seconds).transpose();
    probation.map_err(|why| Failure::invalid(format!("plugin_probation: {why}")))
}

/// Refuses a plugin other than the plugin of the mount.
///
/// # Errors
/// 400 with both names.
fn check_plugin_name(values: &Map<String, Value>, subject: &TuneTarget<'_>) -> Result<(), Failure> {
    let name = values.get("plugin_name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() || name == subject.kind {
        return Ok(());
    }
    let (name, kind) = (quoted(name), subject.kind);
    Err(Failure::invalid(format!(
        "plugin_name {name} is not the type of the mount, {kind}; leave plugin_name out"
    )))
}

/// Refuses a version other than the version of `subject`.
///
/// # Errors
/// 400 with both versions.
fn check_version(version: &str, subject: &TuneTarget<'_>) -> Result<(), Failure> {
    let TuneTarget { kind, running, .. } = subject;
    if version.is_empty() || version.trim_start_matches('v') == running.version {
        return Ok(());
    }
    let (version, there_is) = (quoted(version), running.version);
    Err(Failure::invalid(format!(
        "plugin_version {version} of {kind} is not in the catalog; there is {there_is}: give an \
         existing version, or leave plugin_version out"
    )))
}
