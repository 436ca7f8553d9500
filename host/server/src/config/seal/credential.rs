//! The credentials of a seal: a file that is read at each use, or a variable that is read once.
//!
//! This file prevents a credential in the configuration, and a credential in an error: the
//! configuration has the place of the credential, and an error names the place.

use super::keeper_settings::KeeperSettings;
use super::key_source::{KeySource, SealEnvironment, source_of};
use super::service_account::ServiceAccount;
use crate::config::findings::ConfigError;
use crate::config::section::ConfigValue;
use bulkhead_tls::NamedFile;
use std::fmt;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Maximum length of a credential, in bytes.
const CREDENTIAL_MAX: usize = 8 << 10;

/// The form of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CredentialForm {
    /// One line of visible characters.
    Line,
    /// The key file of a service account of Google Cloud.
    ServiceAccount,
}

impl CredentialForm {
    /// Returns the advice for a content of another form.
    fn remedy(self) -> &'static str {
        match self {
            Self::Line => "write one line of visible characters",
            Self::ServiceAccount => "write the key file of a service account",
        }
    }
}

/// The place of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CredentialPlace {
    /// Name of the component's setting.
    pub(super) name: &'static str,
    /// Name of the setting in the file.
    setting: &'static str,
    /// The credential in a sentence: `token`.
    noun: &'static str,
    form: CredentialForm,
    source: KeySource,
}

impl CredentialPlace {
    /// Reads `file:///…` or `env://NAME`. A text that is not a place is not repeated in the error:
    /// the text may be the credential. `example` is a setting to write.
    pub(super) fn read(
        value: &ConfigValue<'_>,
        (name, noun): (&'static str, &'static str),
        example: &str,
    ) -> Result<Self, ConfigError> {
        let source = source_of(value.text()?).ok_or_else(|| {
            value.error(format!(
                "the value is not the place of a {noun}, and this file may not hold the {noun}; \
                 write {example}"
            ))
        })?;
        Ok(Self { name, setting: name, noun, form: CredentialForm::Line, source })
    }

    /// The place of a credential in a file, by a setting of its own.
    pub(super) fn file(
        (name, noun): (&'static str, &'static str),
        setting: &'static str,
        path: PathBuf,
    ) -> Self {
        Self { name, setting, noun, form: CredentialForm::Line, source: KeySource::File(path) }
    }

    /// The place of a credential of another form than a line.
    pub(super) fn of_form(form: CredentialForm, setting: &'static str, source: KeySource) -> Self {
        Self { name: setting, setting, noun: "key file", form, source }
    }

    /// Returns the credential, with the value of the variable.
    ///
    /// # Errors
    /// The unset variable, or the content that is not a credential.
    pub(super) fn resolve(
        &self,
        environment: SealEnvironment<'_>,
    ) -> Result<ResolvedCredential, String> {
        let variable = match &self.source {
            KeySource::File(_) => None,
            KeySource::Variable(name) => {
                let value = environment(name).ok_or_else(|| {
                    format!("{self} is not set; set the variable, or write the place of a file")
                })?;
                Some(self.check(&Zeroizing::new(value.into_encoded_bytes()))?)
            }
        };
        Ok(ResolvedCredential { place: self.clone(), variable })
    }

    /// Returns the credential without surrounding white space.
    fn check(&self, content: &[u8]) -> Result<Zeroizing<String>, String> {
        let text = content.trim_ascii();
        let has_form = match self.form {
            CredentialForm::Line => text.iter().all(u8::is_ascii_graphic),
            CredentialForm::ServiceAccount => {
                ServiceAccount::parse(text).map_err(|why| format!("{self} {why}"))?;
                true
            }
        };
        let is_credential = (1..=CREDENTIAL_MAX).contains(&text.len()) && has_form;
        match std::str::from_utf8(text) {
            Ok(text) if is_credential => Ok(Zeroizing::new(text.to_owned())),
            _ => Err(format!(
                "{self} holds {} bytes that are not a {}; {}",
                content.len(),
                self.noun,
                self.form.remedy()
            )),
        }
    }
}

impl fmt::Display for CredentialPlace {
    /// Writes the setting and the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.describe(self.setting, f)
    }
}

/// A credential that can be read at each use. No `Debug`: the type may hold the value.
pub(super) struct ResolvedCredential {
    place: CredentialPlace,
    /// Value of the variable, if the settings name a variable.
    variable: Option<Zeroizing<String>>,
}

impl ResolvedCredential {
    /// Adds the component's settings with the credential of the moment.
    ///
    /// # Errors
    /// The unusable file, and the remedy.
    pub(super) fn add_to(&self, settings: &mut KeeperSettings) -> Result<(), String> {
        let text = self.read()?;
        match self.place.form {
            CredentialForm::Line => settings.add_secret(self.place.name, &text),
            CredentialForm::ServiceAccount => {
                ServiceAccount::parse(text.as_bytes())?.add_to(settings);
            }
        }
        Ok(())
    }

    fn read(&self) -> Result<Zeroizing<String>, String> {
        let place = &self.place;
        match (&self.variable, &place.source) {
            (Some(value), _) => Ok(value.clone()),
            (None, KeySource::File(path)) => {
                place.check(&NamedFile::new(place.setting, path).secret()?)
            }
            (None, KeySource::Variable(_)) => Err(format!("{place} was not read")),
        }
    }
}
