//! `listener "unix"`: a Unix socket, with the names of Vault's listener. All other request settings
//! come from `listener "tcp"`, or from its defaults.

use super::findings::ConfigError;
use super::section::{ConfigValue, LabelledBlock, SectionWords};
use super::{listener_telemetry, vault};
use bulkhead_wire::failure::quoted;
use std::path::PathBuf;

const WORDS: SectionWords = SectionWords {
    keys: &["address", "socket_mode", "socket_user", "socket_group", "trusted_proxy"],
    blocks: &[listener_telemetry::BLOCK],
    foreign: vault::LISTENER,
};

/// Maximum length of a socket path in the system, in bytes.
const PATH_MAX: usize = 107;

/// The settings of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnixSettings {
    /// Path of the socket.
    pub(crate) path: PathBuf,
    /// File mode: users with write permission can connect.
    pub(crate) mode: u32,
    /// Name or number of the owner, if other than the process's user.
    pub(crate) user: Option<String>,
    /// Name or number of the group, if other than the process's group.
    pub(crate) group: Option<String>,
    /// Clients of the socket are proxies with a trusted `X-Forwarded-For`.
    pub(crate) is_trusted_proxy: bool,
    /// Clients of the socket get `sys/metrics` without a token.
    pub(crate) opens_metrics: bool,
}

/// Reads the socket's settings. `None`: its path is missing or refused.
pub(super) fn settings(block: &LabelledBlock<'_>) -> Option<UnixSettings> {
    let section = block.section(&WORDS);
    let address = section.required("address", "\"/run/bulkhead/bulkhead.sock\"");
    let path = address.and_then(|address| section.keep(socket_path(&address)));
    let mode = section.read("socket_mode", mode).unwrap_or(0o600);
    let (user, group) = (section.read("socket_user", owner), section.read("socket_group", owner));
    let is_trusted_proxy = section.read("trusted_proxy", ConfigValue::flag).unwrap_or(false);
    let opens_metrics = listener_telemetry::opens_metrics(&section);
    Some(UnixSettings { path: path?, mode, user, group, is_trusted_proxy, opens_metrics })
}

fn socket_path(address: &ConfigValue<'_>) -> Result<PathBuf, ConfigError> {
    let path = address.path()?;
    if path.as_os_str().len() > PATH_MAX {
        return Err(
            address.error(format!("is longer than the {PATH_MAX} bytes of a socket's path"))
        );
    }
    Ok(path)
}

fn mode(value: &ConfigValue<'_>) -> Result<u32, ConfigError> {
    let text = value.text()?;
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777).ok_or_else(|| {
        value.error(format!(
            "{} is not a mode in octal digits; write for example \"0660\"",
            quoted(text)
        ))
    })
}

fn owner(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    if text.is_empty() || text.contains([':', '\n', '\0']) {
        return Err(value.error(format!("{} is neither a name nor a number", quoted(text))));
    }
    Ok(text.to_owned())
}
