//! The grants of a mount as clients send them: `grants` replaces the list, `add_grants` and
//! `remove_grants` change the list.
//!
//! This file prevents a grant that is accepted but not stored, and a revoked grant that remains. An
//! error names each line that is not a valid grant, and each line to remove that the mount does not
//! have.

use crate::endpoints::row::field;
use bulkhead_core::mounts::RunningPlugin;
use bulkhead_sandbox::grants::ceiling;
use bulkhead_sandbox::{Grant, MountLimits};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::duration;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};

/// Word for taking back the own list of a mount: the default grants of the plugin then count.
const DEFAULT: &str = "default";

/// Maximum number of grants of a mount, and of lines of a ceiling.
pub(crate) const MAX_GRANTS: usize = 256;

/// The field that replaces the list.
pub(super) fn whole() -> Field {
    field(
        "grants",
        FieldKind::TextList,
        "grants of the plugin, one line each, such as limit:memory=64MiB; \"default\" alone \
         removes the mount's own list",
    )
    .needs_sudo()
}

/// The fields that change the list.
pub(super) fn changes() -> [Field; 2] {
    [
        field("add_grants", FieldKind::TextList, "grants to add; a limit replaces the old limit")
            .counts_as("grants")
            .needs_sudo(),
        field("remove_grants", FieldKind::TextList, "grants to remove")
            .counts_as("grants")
            .needs_sudo(),
    ]
}

/// Applies `values` to the grants of a mount of `kind`.
///
/// # Errors
/// 400 that names the field and the line, also if the ceiling of the plugin in the catalog does not
/// allow the line.
pub(super) fn change(
    grants: &mut Option<Vec<Grant>>,
    values: &Map<String, Value>,
    kind: &str,
    running: RunningPlugin<'_>,
) -> Result<(), Failure> {
    if values.get("grants").is_some_and(|value| *value == json!([DEFAULT])) {
        check_only_whole(values)?;
        *grants = None;
        return Ok(());
    }
    let (replacement, added, removed) =
        (lines(values, "grants")?, lines(values, "add_grants")?, lines(values, "remove_grants")?);
    if replacement.is_some() {
        check_only_whole(values)?;
    }
    let new: Vec<Grant> = [&replacement, &added].into_iter().flatten().flatten().cloned().collect();
    let is_change = !new.is_empty() || removed.as_ref().is_some_and(|removed| !removed.is_empty());
    if replacement.is_none() && !is_change {
        return Ok(());
    }
    if grants.is_none() && replacement.as_deref() == Some(running.usual) {
        // The list as shown. The mount goes on without an own list.
        return Ok(());
    }
    let before = grants.take().unwrap_or_else(|| running.usual.to_vec());
    // Existing grants are not checked: if the ceiling was lowered since, the ceiling already limits
    // their effect.
    new.iter()
        .filter(|line| !before.contains(line))
        .try_for_each(|line| check_ceiling(line, kind, running))?;
    let mut list = if replacement.is_some() { Vec::new() } else { before };
    for line in removed.into_iter().flatten() {
        let place =
            list.iter().position(|grant| *grant == line).ok_or_else(|| not_there(&line, &list))?;
        list.remove(place);
    }
    for line in &new {
        list.retain(|grant| grant != line && !grant.is_of_same_limit(line));
        list.push(line.clone());
    }
    if list.len() > MAX_GRANTS {
        return Err(Failure::invalid(format!(
            "grants: {} lines; a mount has at most {MAX_GRANTS}",
            list.len()
        )));
    }
    check_deadline(list.iter(), list.iter().any(Grant::reaches_outside))?;
    *grants = Some(list);
    Ok(())
}

/// Refuses a replacement of the list together with changes of the list.
///
/// # Errors
/// 400 that names the fields.
fn check_only_whole(values: &Map<String, Value>) -> Result<(), Failure> {
    match ["add_grants", "remove_grants"].into_iter().any(|name| values.contains_key(name)) {
        true => Err(Failure::invalid(
            "grants replaces the list, add_grants and remove_grants change the list: give grants, \
             or the others",
        )),
        false => Ok(()),
    }
}

/// Refuses a deadline that is too short for a change outside, if the other lines reach outside.
///
/// # Errors
/// 400 with the line.
pub(crate) fn check_deadline<'a>(
    mut lines: impl Iterator<Item = &'a Grant>,
    reaches_outside: bool,
) -> Result<(), Failure> {
    match lines.find(|line| line.prevents_effects()).filter(|_| reaches_outside) {
        Some(line) => {
            let least = duration::show(MountLimits::LEAST_EFFECTFUL.as_secs());
            Err(Failure::invalid(format!(
                "grants: {line} is shorter than {least}, the minimum for a mount whose other lines \
                 allow outside changes; give limit:deadline={least} or more, or leave {line} out"
            )))
        }
        None => Ok(()),
    }
}

fn lines(values: &Map<String, Value>, name: &str) -> Result<Option<Vec<Grant>>, Failure> {
    let Some(texts) = values.get(name).and_then(Value::as_array) else { return Ok(None) };
    let mut lines: Vec<Grant> = Vec::new();
    for text in texts.iter().filter_map(Value::as_str) {
        let line: Grant = text.parse().map_err(|why| Failure::invalid(format!("{name}: {why}")))?;
        if let Some(other) =
            lines.iter().find(|other| other.is_of_same_limit(&line) && **other != line)
        {
            return Err(Failure::invalid(format!(
                "{name}: {other} and {line} are one limit; give only one line"
            )));
        }
        lines.push(line);
    }
    Ok(Some(lines))
}

fn check_ceiling(line: &Grant, kind: &str, running: RunningPlugin<'_>) -> Result<(), Failure> {
    let Some(ceiling) = running.ceiling else { return Ok(()) };
    ceiling::check(ceiling, line).map_err(|allowed| {
        Failure::invalid(format!(
            "grant {line} is above the ceiling of plugin {kind} in the catalog, which allows \
             {allowed}; grant no more, or register the plugin with --grant '{line}' besides the \
             present grants"
        ))
    })
}

fn not_there(line: &Grant, list: &[Grant]) -> Failure {
    let there: Vec<String> = list.iter().map(Grant::to_string).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Failure::invalid(format!(
        "remove_grants: {line} is not among the grants of the mount; there are: {there}"
    ))
}

#[cfg(test)]
mod tests;
