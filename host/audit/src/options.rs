//! The options of a device that the API makes. The options arrive as texts and are stored
//! unchanged.
//!
//! This file prevents a file outside the directory reserved for the API, an executable file, and an
//! option that is silently ignored.

use super::file::AuditTarget;
use super::settings::{self, DeviceSettings};
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::fields;
use bulkhead_wire::name::is_name;
use serde_json::{Map, Value};
use std::path::{Component, Path};

/// Returns the options of a file device (decision H19). The last two exist to give a clear refusal.
pub fn option_fields() -> Vec<Field> {
    let flag = |name, default: bool| Field {
        default: Some(default.into()),
        ..Field::new(name, FieldKind::Bool, "")
    };
    let path = Field::new(
        "file_path",
        FieldKind::String,
        "the file, directly in the directory for devices of the API; or stdout",
    );
    vec![
        Field { aliases: vec!["path".to_owned()], ..path.required() },
        Field::new(
            "mode",
            FieldKind::String,
            "permissions of the file in octal; 0000 changes nothing",
        ),
        flag("log_raw", false),
        flag("hmac_accessor", true),
        flag("elide_list_responses", false),
        flag("sync", false),
        Field::new("format", FieldKind::String, "json"),
        Field::new("prefix", FieldKind::String, "not supported"),
    ]
}

/// Returns the settings and the destination that `options` request for device `name` in
/// `directory`.
///
/// # Errors
/// 400 for an option that is unknown or not supported.
pub(super) fn read(
    name: &str,
    options: &Map<String, Value>,
    directory: &Path,
) -> Result<(DeviceSettings, AuditTarget), Failure> {
    let route = Route { fields: option_fields(), ..Route::new(Verb::Write, "", "") };
    let mut folded = fields::fold_names(&route, options, &[])?;
    if let Some(unknown) = folded.unknown.first() {
        let names: Vec<&str> = route.fields.iter().map(|field| field.name.as_str()).collect();
        let message =
            format!("options: {} is not known; known are {}", quoted(unknown), names.join(", "));
        return Err(Failure::invalid(message));
    }
    fields::apply_defaults(&route, &mut folded.values, true)?;
    let text = |name: &str| folded.values.get(name).and_then(Value::as_str).unwrap_or_default();
    let flag = |name: &str| folded.values.get(name).and_then(Value::as_bool).unwrap_or_default();
    if !text("prefix").is_empty() {
        return Err(Failure::invalid(
            "prefix is not supported: a line begins with JSON; leave the option out",
        ));
    }
    if !["", "json"].contains(&text("format")) {
        let message = format!("format {} is not supported; use json", quoted(text("format")));
        return Err(Failure::invalid(message));
    }
    let (usual, place) = destination_of(name, text("file_path"), directory)?;
    let settings = DeviceSettings {
        mode: parse_mode(text("mode"))?.unwrap_or(usual.mode),
        log_raw: flag("log_raw"),
        hmac_accessor: flag("hmac_accessor"),
        elide_list_responses: flag("elide_list_responses"),
        sync: flag("sync"),
        ..usual
    };
    check_mode(settings.mode)?;
    Ok((settings, place))
}

/// Returns a device with default settings that writes to `file`, and its destination.
fn destination_of(
    name: &str,
    file: &str,
    directory: &Path,
) -> Result<(DeviceSettings, AuditTarget), Failure> {
    if file == settings::STDOUT {
        let device = DeviceSettings::new(name, file.into());
        let place = AuditTarget::File(device.file.clone());
        return Ok((device, place));
    }
    let file = file_name_in(directory, file)?;
    let device = DeviceSettings::new(name, directory.join(&file));
    Ok((device, AuditTarget::Within { directory: directory.to_path_buf(), name: file }))
}

/// Returns the name of a file that lies directly in `directory`. The check that the file is not a
/// link happens when the file is opened.
fn file_name_in(directory: &Path, file: &str) -> Result<String, Failure> {
    // Other servers discard the lines of a device by this word.
    let is_file = file != "discard" && !file.ends_with('/');
    let path = Path::new(file);
    let inside = if path.is_absolute() { path.strip_prefix(directory).ok() } else { Some(path) };
    let mut components = inside.into_iter().flat_map(Path::components);
    let name = match (components.next(), components.next()) {
        (Some(Component::Normal(name)), None) if is_file => {
            name.to_str().filter(|name| is_name(name))
        }
        _ => None,
    };
    name.map(str::to_owned).ok_or_else(|| {
        Failure::invalid(format!(
            "file_path {} is not possible: devices made by the API write to stdout, or to files \
             directly in {}, with only letters, digits, \".\", \"-\" and \"_\" in the name",
            quoted(file),
            directory.display()
        ))
    })
}

fn parse_mode(octal: &str) -> Result<Option<u32>, Failure> {
    if octal.is_empty() {
        return Ok(None);
    }
    let digits = octal.bytes().all(|byte| byte.is_ascii_digit());
    let mode = u32::from_str_radix(octal, 8).ok().filter(|_| digits);
    mode.map(Some).ok_or_else(|| {
        Failure::invalid(format!("mode {} is not octal; give e.g. 0600", quoted(octal)))
    })
}

/// Refuses permissions that no audit file may have.
fn check_mode(mode: u32) -> Result<(), Failure> {
    if settings::may_be_mode(mode) {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "mode {mode:04o} is not possible: an audit file is never executed; give e.g. 0600"
    )))
}

#[cfg(test)]
mod tests;
