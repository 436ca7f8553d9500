//! `audit "file" "NAME"`: the audit devices, and whether the API may add devices.
//!
//! This file prevents callers of the API from writing files anywhere as the server's user. Devices
//! are declared in this file by the operator; the API creates devices only in the single folder
//! named here (decision H19). No device creates an executable file.

use super::findings::ConfigError;
use super::section::{ConfigSection, ConfigValue, LabelledBlock, SectionWords};
use super::vault;
use bulkhead_audit::{AuditSettings, DeviceRefusal, DeviceSetting, DeviceSettings};
use bulkhead_wire::failure::quoted;
use std::path::PathBuf;

const WORDS: SectionWords = SectionWords {
    keys: &["path", "mode", "log_raw", "hmac_accessor", "elide_list_responses", "sync"],
    blocks: &[],
    foreign: vault::AUDIT,
};

const NOT_THIS_KIND: &str =
    "this version audits to files only; write audit \"file\" \"NAME\" { path = … }";

const UNSERVED: [(&str, &str); 3] =
    [("socket", NOT_THIS_KIND), ("syslog", NOT_THIS_KIND), ("http", NOT_THIS_KIND)];

/// Reads the file's devices, and the folder for devices of the API.
pub(super) fn settings(file: &ConfigSection<'_>) -> AuditSettings {
    let mut devices = Vec::new();
    for block in file.blocks("audit") {
        devices.extend(parse_device(&block, &devices, file));
    }
    AuditSettings { devices, api_directory: api_directory(file) }
}

/// Reads a device, declared after `others`. `None`: the device is refused.
fn parse_device(
    block: &LabelledBlock<'_>,
    others: &[DeviceSettings],
    file: &ConfigSection<'_>,
) -> Option<DeviceSettings> {
    let name = file.keep(device_name(block))?;
    let section = block.section(&WORDS);
    let path = section.required("path", "\"/var/log/bulkhead/audit.log\"");
    let file = path.as_ref().and_then(|path| section.keep(parse_file(path)));
    let default = DeviceSettings::new(name, file.clone().unwrap_or_default());
    let flag = |key, default| section.read(key, ConfigValue::flag).unwrap_or(default);
    let device = DeviceSettings {
        mode: section.read("mode", parse_mode).unwrap_or(default.mode),
        log_raw: flag("log_raw", default.log_raw),
        hmac_accessor: flag("hmac_accessor", default.hmac_accessor),
        elide_list_responses: flag("elide_list_responses", default.elide_list_responses),
        sync: flag("sync", default.sync),
        ..default
    };
    let path = path.filter(|_| file.is_some())?;
    section.keep(check(&device, others, (block, &section, &path)))?;
    Some(device)
}

fn device_name<'a>(block: &LabelledBlock<'a>) -> Result<&'a str, ConfigError> {
    let example = "write audit \"file\" \"main\" { path = \"/var/log/bulkhead/audit.log\" }";
    let [kind, name] = block.labels()[..] else {
        return Err(block.error(format!("audit takes two labels, a kind and a name: {example}")));
    };
    block.check_kind(kind, &["file"], &UNSERVED)?;
    Ok(name)
}

/// Reads the file of a device. Vault's words for other places would be taken for relative paths.
fn parse_file(path: &ConfigValue<'_>) -> Result<PathBuf, ConfigError> {
    match path.text()? {
        bulkhead_audit::STDOUT => Ok(bulkhead_audit::STDOUT.into()),
        word @ "discard" => Err(path.error(format!(
            "{} is not a file, and this version audits to files and stdout only; \
             write for example \"/var/log/bulkhead/audit.log\"",
            quoted(word)
        ))),
        _ => path.path(),
    }
}

/// Checks a device as the core does, and adds the line of the error.
fn check(
    device: &DeviceSettings,
    others: &[DeviceSettings],
    (block, section, path): (&LabelledBlock<'_>, &ConfigSection<'_>, &ConfigValue<'_>),
) -> Result<(), ConfigError> {
    match (device.check(others), section.value("mode")) {
        (Ok(()), _) => Ok(()),
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
            "{} is not a mode of a file; write octal digits such as \"0600\", or \"0000\" for an \
             unchanged mode",
            quoted(text)
        ))
    })
}

/// Returns the folder for devices of the API. `None` unless both settings are present.
fn api_directory(file: &ConfigSection<'_>) -> Option<PathBuf> {
    let allowed = file.value("allow_api_audit");
    let is_allowed = match &allowed {
        Some(value) => file.keep(value.flag())?,
        None => false,
    };
    match (allowed, file.value("audit_directory")) {
        (_, Some(directory)) if is_allowed => file.keep(directory.path()),
        (_, Some(directory)) => {
            file.refuse(directory.error(
                "the API makes no devices; write allow_api_audit = true, too, or leave \
                 audit_directory out",
            ));
            None
        }
        (Some(allowed), None) if is_allowed => {
            file.refuse(allowed.error(
                "the API could then write to any file; also write audit_directory = \
                 \"/var/log/bulkhead\"",
            ));
            None
        }
        (_, None) => None,
    }
}
