//! `audit "file" "NAME"`: the audit devices, and whether the API may add devices.
//!
//! Prevents callers of the API from writing files anywhere as the server's user. Devices are
//! declared in this file by the operator; the API creates devices only in the single folder named
//! here (decision H19). No device creates an executable file.

use super::section::{ConfigError, ConfigSection, ConfigValue, LabelledBlock, SectionWords};
use bulkhead_core::audit::{AuditSettings, DeviceRefusal, DeviceSetting, DeviceSettings};
use bulkhead_wire::failure::quoted;
use std::path::PathBuf;

const WORDS: SectionWords = SectionWords {
    keys: &["path", "mode", "log_raw", "hmac_accessor", "elide_list_responses", "sync"],
    blocks: &[],
    unserved: &[
        ("prefix", "a device writes lines of JSON and nothing else (decision P12); leave it out"),
        ("format", "a device writes JSON, the only format of this version; leave it out"),
    ],
};

const NOT_THIS_KIND: &str =
    "this version audits to files only; write audit \"file\" \"NAME\" { path = … }";

const UNSERVED: [(&str, &str); 3] =
    [("socket", NOT_THIS_KIND), ("syslog", NOT_THIS_KIND), ("http", NOT_THIS_KIND)];

/// Reads the file's devices, and the folder for devices of the API.
pub(super) fn settings(file: &ConfigSection<'_>) -> Result<AuditSettings, ConfigError> {
    let mut devices = Vec::new();
    for block in file.blocks("audit") {
        let device = parse_device(&block, &devices)?;
        devices.push(device);
    }
    Ok(AuditSettings { devices, api_directory: api_directory(file)? })
}

/// Reads a device, declared after `others`. The core checks the device ([`DeviceSettings::check`]);
/// this function adds the line of the error.
fn parse_device(
    block: &LabelledBlock<'_>,
    others: &[DeviceSettings],
) -> Result<DeviceSettings, ConfigError> {
    let example = "write audit \"file\" \"main\" { path = \"/var/log/bulkhead/audit.log\" }";
    let [kind, name] = block.labels()[..] else {
        return Err(
            block.error(format!("audit takes two labels, its kind and its name: {example}"))
        );
    };
    block.check_kind(kind, &["file"], &UNSERVED)?;
    let section = block.section(&WORDS)?;
    let path = section.required("path", "\"/var/log/bulkhead/audit.log\"")?;
    let mode = section.value("mode");
    let flag = |key, default| section.value(key).map_or(Ok(default), |value| value.flag());
    let default = DeviceSettings::new(name, path.path()?);
    let device = DeviceSettings {
        mode: mode.as_ref().map_or(Ok(default.mode), parse_mode)?,
        log_raw: flag("log_raw", default.log_raw)?,
        hmac_accessor: flag("hmac_accessor", default.hmac_accessor)?,
        elide_list_responses: flag("elide_list_responses", default.elide_list_responses)?,
        sync: flag("sync", default.sync)?,
        ..default
    };
    match (device.check(others), mode) {
        (Ok(()), _) => Ok(device),
        (Err(DeviceRefusal { setting: DeviceSetting::Mode, why }), Some(mode)) => {
            Err(mode.error(why))
        }
        (Err(DeviceRefusal { setting: DeviceSetting::File, why }), _) => Err(path.error(why)),
        (Err(DeviceRefusal { why, .. }), _) => Err(block.error(why)),
    }
}

/// Reads a mode: octal digits in quotes, because HCL reads an unquoted number as decimal.
fn parse_mode(value: &ConfigValue<'_>) -> Result<u32, ConfigError> {
    let text = value.text()?;
    let octal =
        (3..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = octal.then(|| u32::from_str_radix(text, 8).ok()).flatten();
    mode.ok_or_else(|| {
        value.error(format!(
            "{} is no mode of a file; write octal digits such as \"0600\", \
             or \"0000\" to leave it as it is",
            quoted(text)
        ))
    })
}

/// Returns the folder for devices of the API. `None` unless both settings are present.
fn api_directory(file: &ConfigSection<'_>) -> Result<Option<PathBuf>, ConfigError> {
    let allowed = file.value("allow_api_audit");
    let is_allowed = allowed.as_ref().map_or(Ok(false), ConfigValue::flag)?;
    match (allowed, file.value("audit_directory")) {
        (_, Some(directory)) if is_allowed => directory.path().map(Some),
        (_, Some(directory)) => Err(directory.error(
            "the API makes no devices; write allow_api_audit = true beside it, or leave it out",
        )),
        (Some(allowed), None) if is_allowed => Err(allowed.error(
            "the API could then write to any file; also write audit_directory = \
             \"/var/log/bulkhead\"",
        )),
        (_, None) => Ok(None),
    }
}
