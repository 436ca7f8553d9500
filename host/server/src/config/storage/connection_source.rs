//! The source of a connection URL: the file itself, or a file or variable that the start reads.
//!
//! This file prevents a start on another database than the author meant: a variable of published
//! servers that contradicts the file refuses the start.

use crate::config::seal::{KeySource, SealEnvironment, source_of};
use bulkhead_tls::NamedFile;
use bulkhead_wire::secret::Secret;
use std::fmt;
use std::path::PathBuf;

/// Variables with a connection URL, in the order of their rank: of this server and of published
/// servers.
pub(super) const URL_VARIABLES: [&str; 3] =
    ["BULKHEAD_PG_CONNECTION_URL", "VAULT_PG_CONNECTION_URL", "BAO_PG_CONNECTION_URL"];

/// Variables with the path of a password file of PostgreSQL's clients. A start takes the second
/// variable out of the environment of the driver, and passes its value on as the first.
const PASS_FILE_VARIABLES: [&str; 2] = [crate::hardening::PASS_FILE_VARIABLE, "PGPASSFILE"];

const SETTING: &str = "connection_url";

/// The source of a connection URL.
#[derive(Clone, Debug)]
pub(super) enum ConnectionSource {
    /// The configuration file.
    Written(Secret),
    /// Another file, or a variable that the configuration file names.
    Place(KeySource),
    /// The first of [`URL_VARIABLES`] that is set.
    Variables,
}

/// Reads the text of `connection_url`; `None` for an empty text.
pub(super) fn written_source(text: &str) -> Option<ConnectionSource> {
    match source_of(text) {
        Some(place) => Some(ConnectionSource::Place(place)),
        None if text.is_empty() => None,
        None => Some(ConnectionSource::Written(Secret::new(text))),
    }
}

impl ConnectionSource {
    /// Returns the URL.
    ///
    /// # Errors
    /// The unset variable, the unusable file, or the variable that contradicts the configuration.
    pub(super) fn load(&self, environment: SealEnvironment<'_>) -> Result<Secret, String> {
        let url = match self {
            Self::Written(url) => url.clone(),
            Self::Place(KeySource::Variable(name)) => read_variable(environment, name)?
                .ok_or_else(|| {
                    format!("{SETTING} env://{name} is not set; set the variable to the URL")
                })?,
            Self::Place(KeySource::File(path)) => {
                let content = NamedFile::new(SETTING, path).secret()?;
                let text = std::str::from_utf8(content.trim_ascii()).map_err(|_| {
                    format!("{SETTING} {} is not UTF-8; write one URL", path.display())
                })?;
                Secret::new(text)
            }
            Self::Variables => return first_variable(environment),
        };
        for name in URL_VARIABLES {
            if read_variable(environment, name)?.is_some_and(|other| other != url) {
                return Err(format!(
                    "{SETTING} is in the configuration, and the variable {name} has another URL; \
                     remove one of the two, so that the setting has one place"
                ));
            }
        }
        Ok(url)
    }
}

impl fmt::Display for ConnectionSource {
    /// Writes the place of the URL, and never the URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written(_) => f.write_str(SETTING),
            Self::Place(place) => place.describe(SETTING, f),
            Self::Variables => f.write_str("the environment"),
        }
    }
}

fn first_variable(environment: SealEnvironment<'_>) -> Result<Secret, String> {
    for name in URL_VARIABLES {
        if let Some(url) = read_variable(environment, name)? {
            return Ok(url);
        }
    }
    Err(format!(
        "storage \"postgresql\" needs a URL: write {SETTING} = \
         \"postgresql://bulkhead@db.example.com/bulkhead\", or set the variable {}",
        URL_VARIABLES[0]
    ))
}

/// Returns the value of a variable that is set and not empty.
fn read_variable(environment: SealEnvironment<'_>, name: &str) -> Result<Option<Secret>, String> {
    let Some(value) = environment(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let text = value.into_string().map_err(|_| format!("the value of {name} is not UTF-8"))?;
    Ok(Some(Secret::new(text)))
}

/// Returns the password file of the environment, if set.
pub(super) fn pass_file(environment: SealEnvironment<'_>) -> Option<PathBuf> {
    let set = |name: &str| environment(name).filter(|value| !value.is_empty());
    PASS_FILE_VARIABLES.iter().find_map(|name| set(name)).map(PathBuf::from)
}
