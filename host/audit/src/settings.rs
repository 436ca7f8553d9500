//! The operator's audit settings: the permanent devices, and the directory for devices that the API
//! makes.
//!
//! This file prevents an executable audit file, which would run text that clients send. No mode may
//! include an execute bit.

use bulkhead_wire::failure::quoted;
use bulkhead_wire::name::is_name;
use std::path::{Path, PathBuf};

/// Permission bits allowed for an audit file. Clients determine the content of the file, so an
/// executable file would be a program of theirs.
const MODES: u32 = 0o666;

/// The audit as the configuration declares it. The default has no device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditSettings {
    /// Devices that the API cannot remove.
    pub devices: Vec<DeviceSettings>,
    /// Directory of the devices that the API makes; `None` if the API may make no devices.
    pub api_directory: Option<PathBuf>,
}

/// A file that receives a line for every request and every answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSettings {
    /// Name of the device in `sys/audit`, without a slash, such as `main`. The hashes depend on the
    /// name.
    pub name: String,
    /// Path of the file, which is created if it is missing.
    pub file: PathBuf,
    /// Permissions of the file. 0 keeps the permissions of an existing file; a new file gets 0600.
    pub mode: u32,
    /// Writes values in clear. Tokens and members marked secret are still hashed.
    pub log_raw: bool,
    /// Hashes the accessors of tokens too.
    pub hmac_accessor: bool,
    /// Writes only the number of names of a listing.
    pub elide_list_responses: bool,
    /// Flushes lines to the disk before the answer leaves, many lines at a time (decision P17).
    pub sync: bool,
}

/// Word of clients for the standard output of the server, in place of a file.
pub const STDOUT: &str = "stdout";
/// The file of standard output.
const STDOUT_FILE: &str = "/dev/stdout";

/// Default permissions: readable for the owner only, because lines tell all activity.
pub(crate) const MODE: u32 = 0o600;

/// The setting of a declared device that the operator has to change, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRefusal {
    /// The setting.
    pub setting: DeviceSetting,
    /// The fault and the remedy.
    pub why: String,
}

/// A setting for which a declared device can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceSetting {
    /// [`DeviceSettings::name`].
    Name,
    /// [`DeviceSettings::file`].
    File,
    /// [`DeviceSettings::parse_mode`].
    Mode,
}

impl DeviceSettings {
    /// Returns a device that writes to `file`, with default settings. The word [`STDOUT`] stands
    /// for standard output, whose permissions stay as they are.
    #[must_use]
    pub fn new(name: &str, file: PathBuf) -> Self {
        let is_stdout = file.as_os_str() == STDOUT;
        let file = if is_stdout { PathBuf::from(STDOUT_FILE) } else { file };
        Self {
            name: name.to_owned(),
            file,
            mode: if is_stdout { 0 } else { MODE },
            log_raw: false,
            hmac_accessor: true,
            elide_list_responses: false,
            sync: false,
        }
    }

    /// Checks the name, file and permissions of a device that is declared after `others`.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self, others: &[Self]) -> Result<(), DeviceRefusal> {
        let refused = |setting, why| Err(DeviceRefusal { setting, why });
        let name = quoted(&self.name);
        if !is_name(&self.name) {
            let why = "use letters, digits and _, with - and . inside";
            return refused(
                DeviceSetting::Name,
                format!("{name} is not a name of a device; {why}"),
            );
        }
        if !may_be_mode(self.mode) {
            let why = "lets the file be executed; write for example \"0600\"";
            return refused(DeviceSetting::Mode, format!("\"{:04o}\" {why}", self.mode));
        }
        if others.iter().any(|other| other.name == self.name) {
            let why = "is given twice; the name is the place in sys/audit, give another name";
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

/// Returns whether an audit file may have these permissions.
pub(super) fn may_be_mode(mode: u32) -> bool {
    mode & !MODES == 0
}

impl AuditSettings {
    /// Returns the audit of a server in dev mode: `audit.log` in the data directory, and devices of
    /// the API in its subdirectory `audit`.
    #[must_use]
    pub fn for_dev_mode(data: &Path) -> Self {
        let device = DeviceSettings::new("file", data.join("audit.log"));
        Self { devices: vec![device], api_directory: Some(data.join("audit")) }
    }
}
