//! `listener "unix"`: a Unix socket, with the names of Vault's listener. All other request settings
//! come from `listener "tcp"`, or from its defaults.

use super::section::{ConfigError, ConfigValue, LabelledBlock, SectionWords};
use bulkhead_wire::failure::quoted;
use std::path::PathBuf;

const WORDS: SectionWords = SectionWords {
    keys: &["address", "socket_mode", "socket_user", "socket_group", "trusted_proxy"],
    blocks: &[],
    unserved: &[],
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
}

pub(super) fn settings(block: &LabelledBlock<'_>) -> Result<UnixSettings, ConfigError> {
    let section = block.section(&WORDS)?;
    let address = section.required("address", "\"/run/bulkhead/bulkhead.sock\"")?;
    let path = address.path()?;
    if path.as_os_str().len() > PATH_MAX {
        return Err(
            address.error(format!("is longer than the {PATH_MAX} bytes of a socket's path"))
        );
    }
    let name = |key| section.value(key).map(|value: ConfigValue<'_>| owner(&value)).transpose();
    Ok(UnixSettings {
        path,
        mode: section.value("socket_mode").map_or(Ok(0o600), |value| mode(&value))?,
        user: name("socket_user")?,
        group: name("socket_group")?,
        is_trusted_proxy: section.value("trusted_proxy").map_or(Ok(false), |value| value.flag())?,
    })
}

fn mode(value: &ConfigValue<'_>) -> Result<u32, ConfigError> {
    let text = value.text()?;
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777).ok_or_else(|| {
        value.error(format!("{} is no mode in octal digits; write such as \"0660\"", quoted(text)))
    })
}

fn owner(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    if text.is_empty() || text.contains([':', '\n', '\0']) {
        return Err(value.error(format!("{} is no name and no number", quoted(text))));
    }
    Ok(text.to_owned())
}
