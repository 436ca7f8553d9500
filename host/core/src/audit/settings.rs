//! What the operator asks of the audit: the devices that are always there, and where the API may
//! make others.
//!
//! The attack this file stops: a device that makes a program of what clients send. No mode may let
//! a file be executed.

use bulkhead_wire::failure::quoted;
use bulkhead_wire::name::is_name;
use std::path::{Path, PathBuf};

/// Permissions that an audit file may have: one that could be executed would be a program that the
/// senders of requests write.
const MODES: u32 = 0o666;

/// The audit as the configuration declares it. The default is none at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditSettings {
    /// Devices that the API cannot remove.
    pub devices: Vec<DeviceSettings>,
    /// The directory in which devices made by the API write; `None` where the API may make none.
    pub api_directory: Option<PathBuf>,
}

/// A file to which every request and every answer is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSettings {
    /// Names the device in `sys/audit`, without a slash: `main`. Its hashes depend on it.
    pub name: String,
    /// The file, made when it is missing.
    pub file: PathBuf,
    /// Permissions that the file gets; 0 leaves them as they are, or as the process makes files.
    pub mode: u32,
    /// Write values in clear. Tokens, and what a route table marks secret, are hashed all the
    /// same.
    pub log_raw: bool,
    /// Hash accessors of tokens, too.
    pub hmac_accessor: bool,
    /// Of a listing write only how many names it has.
    pub elide_list_responses: bool,
    /// Flush lines to the disk before their answer leaves, many at a time (decision P17).
    pub sync: bool,
}

/// For the owner alone: lines tell who does what, where and when.
pub(crate) const MODE: u32 = 0o600;

/// What of a declared device its operator has to change, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRefusal {
    /// Which setting.
    pub setting: DeviceSetting,
    /// What is wrong with it, and what to do.
    pub why: String,
}

/// A setting that a declared device can be refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceSetting {
    /// [`DeviceSettings::name`].
    Name,
    /// [`DeviceSettings::file`].
    File,
    /// [`DeviceSettings::mode`].
    Mode,
}

impl DeviceSettings {
    /// A device that writes to `file`, with nothing else said of it.
    #[must_use]
    pub fn new(name: &str, file: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            file,
            mode: MODE,
            log_raw: false,
            hmac_accessor: true,
            elide_list_responses: false,
            sync: false,
        }
    }

    /// Checks a device that is declared after `others`: its name, its file and its permissions.
    ///
    /// # Errors
    /// The first setting that no audit could follow.
    pub fn check(&self, others: &[Self]) -> Result<(), DeviceRefusal> {
        let refused = |setting, why| Err(DeviceRefusal { setting, why });
        let name = quoted(&self.name);
        if !is_name(&self.name) {
            let why = "use letters, digits and _, with - and . inside";
            return refused(DeviceSetting::Name, format!("{name} is no name of a device; {why}"));
        }
        if !may_be_mode(self.mode) {
            let why = "lets the file be executed; write such as \"0600\"";
            return refused(DeviceSetting::Mode, format!("\"{:04o}\" {why}", self.mode));
        }
        if others.iter().any(|other| other.name == self.name) {
            let why = "is given twice; its name is its place in sys/audit, give it another one";
            return refused(DeviceSetting::Name, format!("audit \"file\" {name} {why}"));
        }
        if let Some(other) = others.iter().find(|other| other.file == self.file) {
            let (file, other) = (quoted(&self.file.to_string_lossy()), quoted(&other.name));
            let why = "already; give each device its own";
            return refused(
                DeviceSetting::File,
                format!("{file} is the file of audit \"file\" {other} {why}"),
            );
        }
        Ok(())
    }
}

/// Whether an audit file may have these permissions.
pub(super) fn may_be_mode(mode: u32) -> bool {
    mode & !MODES == 0
}

impl AuditSettings {
    /// What a server in dev mode audits to: `audit.log` in its data directory, and beside it
    /// what the API asks for.
    #[must_use]
    pub fn within(data: &Path) -> Self {
        let device = DeviceSettings::new("file", data.join("audit.log"));
        Self { devices: vec![device], api_directory: Some(data.join("audit")) }
    }
}
