//! `listener "unix"`: a socket in the file system, in the names of Vault's listener. What else
//! counts for requests is said by `listener "tcp"`, or by its defaults where there is none.

use super::section::{ConfigError, LabelledBlock, Value, Words};
use bulkhead_wire::failure::quoted;
use std::path::PathBuf;

const WORDS: Words = Words {
    keys: &["address", "socket_mode", "socket_user", "socket_group", "trusted_proxy"],
    blocks: &[],
    unserved: &[],
};

/// Longest path, in bytes, that the system takes for a socket.
const PATH_MAX: usize = 107;

/// A socket in the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnixSettings {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Who may connect: who may write it.
    pub(crate) mode: u32,
    /// Its owner's name or number, where that is not the process's user.
    pub(crate) user: Option<String>,
    /// Its group's name or number, where that is not the process's.
    pub(crate) group: Option<String>,
    /// Clients of the socket are proxies whose `X-Forwarded-For` counts.
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
    let name = |key| section.value(key).map(|value: Value<'_>| owner(&value)).transpose();
    Ok(UnixSettings {
        path,
        mode: section.value("socket_mode").map_or(Ok(0o600), |value| mode(&value))?,
        user: name("socket_user")?,
        group: name("socket_group")?,
        is_trusted_proxy: section.value("trusted_proxy").map_or(Ok(false), |value| value.flag())?,
    })
}

fn mode(value: &Value<'_>) -> Result<u32, ConfigError> {
    let text = value.text()?;
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777).ok_or_else(|| {
        value.error(format!("{} is no mode in octal digits; write such as \"0660\"", quoted(text)))
    })
}

fn owner(value: &Value<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    if text.is_empty() || text.contains([':', '\n', '\0']) {
        return Err(value.error(format!("{} is no name and no number", quoted(text))));
    }
    Ok(text.to_owned())
}
