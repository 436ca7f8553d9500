//! `seal`: the way to open the data after a start. A seal with a key that a service encrypts is
//! read in the file of its kind.
//!
//! This file prevents a key in the configuration, and a start under another seal than the author
//! meant: a key is in a file of the server's user or in a variable, and an unsupported seal is
//! refused with the block to write.

mod awskms;
mod azurekeyvault;
mod credential;
mod gcpckms;
mod keeper;
mod keeper_settings;
mod key_source;
mod service_account;
mod service_address;
mod transit;

pub(crate) use keeper::{KeeperAccess, KeeperSeal};
pub(super) use key_source::{KeySource, SealEnvironment, source_of};

use super::findings::ConfigError;
use super::section::{BlockKinds, ConfigSection, ConfigValue, LabelledBlock, SectionWords};
use awskms::AWS_KMS;
use azurekeyvault::AZURE_KEY_VAULT;
use bulkhead_core::key_wrapper::{ExternalSeal, KeyWrapper};
use bulkhead_core::seal_setting::{SealSetting, StaticKey, StaticSeal};
use bulkhead_tls::NamedFile;
use bulkhead_wire::failure::quoted;
use gcpckms::GCP_KMS;
use std::fmt;
use std::sync::Arc;
use transit::TRANSIT;
use zeroize::Zeroizing;

const SHAMIR_WORDS: SectionWords = SectionWords { keys: &[], blocks: &[], foreign: &[] };
const STATIC_WORDS: SectionWords =
    SectionWords { keys: &[CURRENT.id, CURRENT.key, PREVIOUS.id, PREVIOUS.key], ..SHAMIR_WORDS };

/// The settings of a key.
struct KeyWords {
    id: &'static str,
    key: &'static str,
}

const CURRENT: KeyWords = KeyWords { id: "current_key_id", key: "current_key" };
const PREVIOUS: KeyWords = KeyWords { id: "previous_key_id", key: "previous_key" };

const KEY_EXAMPLE: &str = "\"file:///run/credentials/bulkhead.service/seal.key\"";
const KEY_BYTES: usize = 32;
/// Maximum length of a key's name, in bytes.
const ID_MAX: usize = 128;

const OTHER_SEAL: &str = "this version opens the data with Shamir's shares, entered after each \
    start, with a key of the machine, with the transit engine of another server, or with a key of \
    AWS, Azure or Google Cloud; write seal \"shamir\" {}, or seal \"static\", \"transit\", \
    \"awskms\", \"azurekeyvault\" or \"gcpckms\" { … }";

/// Seals of Vault and OpenBao, and of later versions.
const SEALS: [(&str, &str); 5] = [
    ("alicloudkms", OTHER_SEAL),
    ("kmip", OTHER_SEAL),
    ("ocikms", OTHER_SEAL),
    ("pkcs11", OTHER_SEAL),
    ("yandexcloudkms", OTHER_SEAL),
];

/// The maker of the keeper of a key that another server encrypts.
type KeeperMaker<'a> = &'a dyn Fn(KeeperAccess) -> Result<Arc<dyn KeyWrapper>, String>;

/// The seal of the file, before its keys are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SealSettings {
    /// People give shares after each start.
    #[default]
    Shamir,
    /// The server opens the data with a key of its machine.
    Static { current: KeySetting, previous: Option<KeySetting> },
    /// The server opens the data with a key that a service decrypts.
    Keeper(KeeperSeal),
}

/// The name of a key, and the place of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeySetting {
    setting: &'static str,
    id: String,
    source: KeySource,
}

/// The reader of a block; `None`: the block is disabled, or an error is kept.
type KeeperReader = fn(&LabelledBlock<'_>) -> Option<KeeperSeal>;

/// Reads the seal.
pub(super) fn settings(file: &ConfigSection<'_>) -> SealSettings {
    let wanted = BlockKinds {
        name: "seal",
        kinds: ["shamir", "static", TRANSIT, AWS_KMS, GCP_KMS, AZURE_KEY_VAULT],
        unserved: &SEALS,
        twice: "leave one of the two out",
    };
    let [shamir, fixed, transit, awskms, gcpckms, azurekeyvault] = file.blocks_of_kinds(&wanted);
    if let Some(block) = &shamir {
        block.section(&SHAMIR_WORDS);
    }
    let refuse_second = |block: &LabelledBlock<'_>, first: &str| {
        file.refuse(block.error(format!(
            "the file has a seal {}, too; leave one of the two out (the data are migrated between \
             seals by: bulkhead operator unseal -migrate)",
            quoted(first)
        )));
    };
    let mut first = match (&shamir, &fixed) {
        (Some(_), _) => Some("shamir"),
        (None, Some(_)) => Some("static"),
        (None, None) => None,
    };
    let mut found = SealSettings::Shamir;
    let readers: [(_, KeeperReader); 4] = [
        (transit, transit::settings),
        (awskms, awskms::settings),
        (gcpckms, gcpckms::settings),
        (azurekeyvault, azurekeyvault::settings),
    ];
    for (block, read) in readers {
        let Some(block) = block else { continue };
        let Some(seal) = read(&block) else { continue };
        match first {
            Some(first) => refuse_second(&block, first),
            None => {
                first = Some(seal.kind);
                found = SealSettings::Keeper(seal);
            }
        }
    }
    let Some(block) = fixed else { return found };
    if shamir.is_some() {
        refuse_second(&block, "shamir");
    }
    static_seal(&block)
}

/// Reads the block of a seal with a key of the machine. An error is kept.
fn static_seal(block: &LabelledBlock<'_>) -> SealSettings {
    let section = block.section(&STATIC_WORDS);
    let current = key(&section, &CURRENT);
    let has_previous =
        section.value(PREVIOUS.id).is_some() || section.value(PREVIOUS.key).is_some();
    let previous = if has_previous { key(&section, &PREVIOUS) } else { None };
    let Some(current) = current else { return SealSettings::Shamir };
    if let (Some(previous), Some(value)) = (&previous, section.value(PREVIOUS.id))
        && previous.id == current.id
    {
        section.refuse(value.error(format!(
            "{} is current_key_id, too; give each key a different name",
            quoted(&previous.id)
        )));
    }
    SealSettings::Static { current, previous }
}

/// Reads a key's name and place. `None`: an error is kept.
fn key(section: &ConfigSection<'_>, words: &KeyWords) -> Option<KeySetting> {
    let (id, source) =
        (section.required(words.id, "\"1\""), section.required(words.key, KEY_EXAMPLE));
    let id = id.and_then(|value| section.keep(key_id(&value)));
    let source = source.and_then(|value| section.keep(key_source(&value)));
    Some(KeySetting { setting: words.key, id: id?, source: source? })
}

fn key_id(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    let is_name = (1..=ID_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    if is_name {
        return Ok(text.to_owned());
    }
    Err(value.error(format!(
        "{} is not a name of a key; write 1 to {ID_MAX} printable characters, such as \"2026-11\"",
        quoted(text)
    )))
}

/// Reads the place of a key. The text is not repeated in an error: it may be the key itself.
fn key_source(value: &ConfigValue<'_>) -> Result<KeySource, ConfigError> {
    source_of(value.text()?).ok_or_else(|| {
        value.error(format!(
            "the value is not the place of a key, and this file may not hold the key; write \
             {KEY_EXAMPLE} or \"env://BULKHEAD_SEAL_KEY\""
        ))
    })
}

impl SealSettings {
    /// Returns the kind of the seal.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Shamir => "shamir",
            Self::Static { .. } => "static",
            Self::Keeper(seal) => seal.kind,
        }
    }

    /// Reads the keys, or the token for the server that keeps the key.
    ///
    /// # Errors
    /// The unusable key, token or file, and the remedy.
    pub(crate) fn load(
        &self,
        environment: SealEnvironment<'_>,
        keeper: KeeperMaker<'_>,
    ) -> Result<SealSetting, String> {
        let (current, previous) = match self {
            Self::Shamir => return Ok(SealSetting::Shamir),
            Self::Static { current, previous } => (current, previous),
            Self::Keeper(seal) => {
                let keeper = keeper(seal.load(environment)?)?;
                return Ok(SealSetting::External(ExternalSeal::new(seal.kind, keeper)));
            }
        };
        let current = current.load(environment)?;
        let previous = previous.as_ref().map(|key| key.load(environment)).transpose()?;
        if previous.as_ref().is_some_and(|previous| previous.is_same_key(&current)) {
            return Err(format!(
                "{} and {} are the same key; give the key that was in use before, or leave {} and \
                 {} out",
                CURRENT.key, PREVIOUS.key, PREVIOUS.key, PREVIOUS.id
            ));
        }
        Ok(SealSetting::Static(StaticSeal { current, previous }))
    }
}

impl KeySetting {
    fn load(&self, environment: SealEnvironment<'_>) -> Result<StaticKey, String> {
        let content = match &self.source {
            KeySource::File(path) => {
                return self.parse(&NamedFile::new(self.setting, path).secret()?);
            }
            KeySource::Variable(name) => environment(name),
        };
        let content = content.ok_or_else(|| {
            format!("{self} is not set; set the variable, or write the key to a file")
        })?;
        self.parse(&Zeroizing::new(content.into_encoded_bytes()))
    }

    fn parse(&self, content: &[u8]) -> Result<StaticKey, String> {
        StaticKey::parse(&self.id, content).ok_or_else(|| {
            format!(
                "{self} holds {} bytes that are not a key; give {KEY_BYTES} random bytes, raw or \
                 in base64 or hexadecimal, such as the output of: openssl rand -hex {KEY_BYTES}",
                content.len()
            )
        })
    }
}

impl fmt::Display for KeySetting {
    /// Writes the setting and the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.describe(self.setting, f)
    }
}

impl fmt::Display for SealSettings {
    /// Writes how the data are opened, for the report of `--check`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (current, previous) = match self {
            Self::Shamir => return f.write_str("opened by Shamir's shares"),
            Self::Keeper(seal) => return seal.fmt(f),
            Self::Static { current, previous } => (current, previous),
        };
        write!(f, "opened by the key {} of {current}", quoted(&current.id))?;
        match previous {
            Some(previous) => write!(f, ", or once by {} of {previous}", quoted(&previous.id)),
            None => Ok(()),
        }
    }
}
