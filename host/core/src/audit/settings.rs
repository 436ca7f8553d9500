//! What the operator asks of the audit: the devices that are always there, and where the API may
//! make others.
//!
//! The attack this file stops: a device that makes a program of what clients send. No mode may let
//! a file be executed.

use std::path::PathBuf;

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

impl AuditSettings {
    /// What a server in dev mode audits to: `audit.log` in its data directory, and beside it
    /// what the API asks for.
    #[must_use]
    pub fn within(data: &std::path::Path) -> Self {
        let device = DeviceSettings {
            name: "file".to_owned(),
            file: data.join("audit.log"),
            mode: MODE,
            log_raw: false,
            hmac_accessor: true,
            elide_list_responses: false,
            sync: false,
        };
        Self { devices: vec![device], api_directory: Some(data.join("audit")) }
    }
}
