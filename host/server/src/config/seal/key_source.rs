//! The place of a key, of a credential or of a connection URL: a file or a variable.
//!
//! This file prevents a key in the configuration: a text that is not a place is not read.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// A lookup of an environment variable.
pub(crate) type SealEnvironment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The place of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    File(PathBuf),
    Variable(String),
}

/// Reads the place of a key or a token; `None` for any other text.
pub(crate) fn source_of(text: &str) -> Option<KeySource> {
    if let Some(path) = text.strip_prefix("file://").filter(|path| path.starts_with('/')) {
        return Some(KeySource::File(path.into()));
    }
    let is_name = |name: &&str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let name = text.strip_prefix("env://").filter(is_name)?;
    Some(KeySource::Variable(name.to_owned()))
}

impl KeySource {
    /// Writes the setting and the place.
    pub(crate) fn describe(&self, setting: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{setting} {}", path.display()),
            Self::Variable(name) => write!(f, "{setting} env://{name}"),
        }
    }
}
