//! A seal with a key that a service encrypts: the settings of such a block, and the access to the
//! service with the credentials of the moment.
//!
//! This file prevents the use of an expired credential, because an agent replaces its file: files
//! are read at each use. This file also prevents a key of the data that a variable of another
//! program chose.

use super::credential::{CredentialPlace, ResolvedCredential};
use super::keeper_settings::KeeperSettings;
use super::key_source::SealEnvironment;
use crate::config::section::ConfigSection;
use bulkhead_tls::NamedFile;
use serde_json::Value;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// The settings of a block, before its credentials are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeeperSeal {
    /// The word behind `seal`.
    pub(super) kind: &'static str,
    /// Settings of the component that are not credentials.
    pub(super) plain: Vec<(&'static str, Value)>,
    pub(super) credentials: Vec<CredentialPlace>,
    pub(super) files: Vec<PemFile>,
    pub(super) renews_credentials: bool,
    /// Settings that the component does not get, because other settings follow from them.
    pub(super) unsent: Vec<(&'static str, Value)>,
    /// Variables that override the block in published servers, with the name of the setting.
    pub(super) variables: &'static [(&'static str, &'static str)],
    /// The key and its place, for the report of `--check`.
    pub(super) summary: String,
}

/// A file with a certificate or a key in PEM, for the component's setting of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PemFile {
    pub(super) setting: &'static str,
    pub(super) path: PathBuf,
    /// The file must not be open to others.
    pub(super) is_key: bool,
}

impl PemFile {
    /// Returns the content as a text.
    fn read(&self) -> Result<Zeroizing<String>, String> {
        let file = NamedFile::new(self.setting, &self.path);
        let content = match self.is_key {
            true => file.secret()?,
            false => {
                file.certificates()?;
                file.content()?
            }
        };
        match std::str::from_utf8(&content) {
            Ok(text) => Ok(Zeroizing::new(text.to_owned())),
            Err(_) => Err(format!("{file} is not a text; write the certificate or key in PEM")),
        }
    }
}

impl KeeperSeal {
    /// Returns the access, and reads credentials and files once.
    ///
    /// # Errors
    /// The unusable credential, file or variable, and the remedy.
    pub(super) fn load(&self, environment: SealEnvironment<'_>) -> Result<KeeperAccess, String> {
        for (name, setting) in self.variables {
            let values = self.plain.iter().chain(&self.unsent);
            let used = values.into_iter().find(|(name, _)| name == setting);
            let used = used.and_then(|(_, value)| value.as_str()).unwrap_or_default();
            let differs = |value: &OsString| {
                value.to_str().is_none_or(|value| value.trim_matches('/') != used)
            };
            if environment(name).is_some_and(|value| differs(&value)) {
                return Err(format!(
                    "{name} of the environment is not read, and differs from {setting}; write \
                     {setting} in the block, and remove the variable"
                ));
            }
        }
        let credentials = self.credentials.iter().map(|place| place.resolve(environment));
        let credentials = credentials.collect::<Result<Vec<_>, _>>()?;
        let access = KeeperAccess { seal: self.clone(), credentials };
        access.read()?;
        Ok(access)
    }
}

impl fmt::Display for KeeperSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)
    }
}

/// Access to the service, with the settings of the moment.
pub(crate) struct KeeperAccess {
    seal: KeeperSeal,
    credentials: Vec<ResolvedCredential>,
}

impl KeeperAccess {
    /// Returns the word behind `seal`, by which the component is found.
    pub(crate) fn kind(&self) -> &'static str {
        self.seal.kind
    }

    /// Returns `false` if the settings leave the credentials without renewal.
    pub(crate) fn renews_credentials(&self) -> bool {
        self.seal.renews_credentials
    }

    /// Reads credentials and files, and returns the settings for the component.
    ///
    /// # Errors
    /// The unusable credential or file, and the remedy.
    pub(crate) fn read(&self) -> Result<KeeperSettings, String> {
        let mut settings = KeeperSettings::default();
        for (name, value) in &self.seal.plain {
            settings.add(name, value.clone());
        }
        for credential in &self.credentials {
            credential.add_to(&mut settings)?;
        }
        for file in &self.seal.files {
            settings.add_secret(file.setting, &file.read()?);
        }
        Ok(settings)
    }
}

impl fmt::Debug for KeeperAccess {
    /// Writes the settings without the values of variables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeeperAccess({:?})", self.seal)
    }
}

/// Returns whether the block is disabled. `None`: an error is kept.
pub(super) fn is_disabled(section: &ConfigSection<'_>) -> Option<bool> {
    let Some(value) = section.value("disabled") else { return Some(false) };
    let is_disabled = section.keep(value.flag())?;
    if is_disabled {
        section.notice(
            &value,
            "the block has no effect: recovery keys open the data in a migration; leave the block \
             out afterwards",
        );
    }
    Some(is_disabled)
}
