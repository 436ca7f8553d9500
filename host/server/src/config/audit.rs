//! `audit "file" "NAME"`: which devices record every request, and whether the API may add some.
//!
//! The attack this file stops: a file that a device makes is written by the server's user, wherever
//! it is. So devices are declared here, by whoever may write this file, and the API makes them only
//! below the one folder that is named here for it (decision H19); no device makes a file
//! that can be executed.

use super::section::{Labelled, Section, Value, Words, Wrong};
use bulkhead_core::audit::{AuditSettings, DeviceSettings};
use bulkhead_wire::failure::quoted;
use bulkhead_wire::name;

/// Mode of a device's file unless told: its owner's alone.
const MODE: u32 = 0o600;

const WORDS: Words = Words {
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

/// The devices of the file, and what it says of the API.
pub(super) fn settings(file: &Section<'_>) -> Result<AuditSettings, Wrong> {
    let mut devices: Vec<DeviceSettings> = Vec::new();
    for block in file.blocks("audit") {
        let device = device(&block)?;
        if devices.iter().any(|other| other.name == device.name) {
            return Err(block.wrong(format!(
                "audit \"file\" {} is given twice; its name is its place in sys/audit, give it another one",
                quoted(&device.name)
            )));
        }
        if let Some(other) = devices.iter().find(|other| other.file == device.file) {
            return Err(block.wrong(format!(
                "path: {} is the file of audit \"file\" {} already; give each device its own",
                quoted(&device.file.to_string_lossy()),
                quoted(&other.name)
            )));
        }
        devices.push(device);
    }
    Ok(AuditSettings { devices, api_directory: api_directory(file)? })
}

fn device(block: &Labelled<'_>) -> Result<DeviceSettings, Wrong> {
    let example = "write audit \"file\" \"main\" { path = \"/var/log/bulkhead/audit.log\" }";
    let [kind, device] = block.labels()[..] else {
        return Err(
            block.wrong(format!("audit takes two labels, its kind and its name: {example}"))
        );
    };
    block.check_kind(kind, "file", &UNSERVED)?;
    if !name::is_name(device) {
        return Err(block.wrong(format!(
            "{} is no name of a device; use letters, digits and _, with - and . inside",
            quoted(device)
        )));
    }
    let section = block.section(&WORDS)?;
    let flag = |key, default| section.value(key).map_or(Ok(default), |value| value.flag());
    Ok(DeviceSettings {
        name: device.to_owned(),
        file: section.required("path", "\"/var/log/bulkhead/audit.log\"")?.path()?,
        mode: section.value("mode").map_or(Ok(MODE), |value| mode(&value))?,
        log_raw: flag("log_raw", false)?,
        hmac_accessor: flag("hmac_accessor", true)?,
        elide_list_responses: flag("elide_list_responses", false)?,
        sync: flag("sync", false)?,
    })
}

/// Octal digits in quotes: without them HCL reads a decimal number.
fn mode(value: &Value<'_>) -> Result<u32, Wrong> {
    let text = value.text()?;
    let octal =
        (3..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = octal.then(|| u32::from_str_radix(text, 8).ok()).flatten();
    match mode {
        Some(mode) if mode & !0o666 == 0 => Ok(mode),
        Some(_) => Err(value.wrong(format!("{} lets the file be executed; write such as \"0600\"", quoted(text)))),
        None => Err(value.wrong(format!(
            "{} is no mode of a file; write octal digits such as \"0600\", or \"0000\" to leave it as it is",
            quoted(text)
        ))),
    }
}

/// Where the API may make devices; nowhere unless both settings are there.
fn api_directory(file: &Section<'_>) -> Result<Option<std::path::PathBuf>, Wrong> {
    let allowed = file.value("allow_api_audit");
    let is_allowed = allowed.as_ref().map_or(Ok(false), Value::flag)?;
    match (allowed, file.value("audit_directory")) {
        (_, Some(directory)) if is_allowed => directory.path().map(Some),
        (_, Some(directory)) => {
            Err(directory.wrong("the API makes no devices; write allow_api_audit = true beside it, or leave it out"))
        }
        (Some(allowed), None) if is_allowed => Err(allowed
            .wrong("the API would write wherever it is told; write audit_directory = \"/var/log/bulkhead\" beside it")),
        (_, None) => Ok(None),
    }
}
