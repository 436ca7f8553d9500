//! Credentials of users: the credential types of roles, the options of each type, and the
//! generation of a credential.
//!
//! This file prevents a leak of a certificate authority's key, which is among a role's options, by
//! a read of the role.

use crate::connection::Connection;
use crate::placement::{CredentialStatements, PASSWORD};
use bulkhead_sdk::database_plugin::{Credential, StoreTime};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::template::TemplateNames;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure, Host};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

mod client_certificate;

use client_certificate::ClientCertificate;

const RSA_PRIVATE_KEY: &str = "rsa_private_key";
const CLIENT_CERTIFICATE: &str = "client_certificate";

/// Default size of an RSA key, in bits.
const RSA_BITS: u32 = 2_048;
/// The only supported format of an RSA key.
const PKCS8: &str = "pkcs8";

/// Options that a read shows as numbers.
const NUMBERS: [&str; 2] = ["key_bits", "signature_bits"];
/// The option that no read shows.
const CA_PRIVATE_KEY: &str = "ca_private_key";

/// Fields of a role about its credentials.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("credential_type", "password, rsa_private_key or client_certificate")
        .or_text(PASSWORD),
    Field::map("credential_config", "options of the credential type").members(&[
        Field::text("password_policy", "of password: the policy for passwords"),
        Field::text("format", "of rsa_private_key: pkcs8"),
        Field::text("key_type", "of client_certificate: rsa, ec or ed25519"),
        Field::text("key_bits", "of both kinds of key: the length in bits"),
        Field::text("signature_bits", "of client_certificate: 256, 384 or 512"),
        Field::text(
            "common_name_template",
            "of client_certificate: a template over .DisplayName, .RoleName and .Username",
        ),
        Field::text("ca_cert", "of client_certificate: the authority, in PEM"),
        Field::text(CA_PRIVATE_KEY, "of client_certificate: the authority's key, in PEM").secret(),
    ]),
];

/// Stored options of a credential type.
pub(crate) type CredentialOptions = BTreeMap<String, String>;

/// Merges type and options of the call into the stored values. Replaces the options as a whole,
/// because options of another type have no meaning.
pub(crate) fn merge(
    call: &Call,
    credential_type: &mut String,
    options: &mut CredentialOptions,
) -> Result<(), Failure> {
    let before = credential_type.clone();
    call.merge("credential_type", credential_type)?;
    if *credential_type != before {
        options.clear();
    }
    call.merge("credential_config", options)
}

/// A parsed credential type with its options.
pub(crate) enum CredentialRecipe<'a> {
    /// A password by a policy. Empty: the policy of the connection, or the default policy.
    Password {
        /// The name of the policy.
        policy: &'a str,
    },
    /// An RSA key.
    RsaPrivateKey {
        /// Size of the key: 2048, 3072 or 4096 bits.
        bits: u32,
    },
    /// A certificate issued by the role's authority.
    ClientCertificate(ClientCertificate<'a>),
}

impl<'a> CredentialRecipe<'a> {
    /// Parses type and options.
    ///
    /// # Errors
    /// Invalid request that names type or option.
    pub(crate) fn read(
        credential_type: &str,
        options: &'a CredentialOptions,
    ) -> Result<Self, Failure> {
        let option = |name: &str| options.get(name).map_or("", String::as_str);
        match credential_type {
            PASSWORD => {
                refuse_others(credential_type, options, &["password_policy"])?;
                Ok(Self::Password { policy: option("password_policy") })
            }
            RSA_PRIVATE_KEY => {
                refuse_others(credential_type, options, &["format", "key_bits"])?;
                let format = option("format");
                if !format.is_empty() && !format.eq_ignore_ascii_case(PKCS8) {
                    return Err(invalid_option("format", format, PKCS8));
                }
                Ok(Self::RsaPrivateKey { bits: rsa_bits(option("key_bits"))? })
            }
            CLIENT_CERTIFICATE => {
                refuse_others(credential_type, options, client_certificate::OPTIONS)?;
                Ok(Self::ClientCertificate(ClientCertificate::read(options)?))
            }
            other => Err(Failure::invalid(format!(
                "invalid credential_type {}; use {PASSWORD}, {RSA_PRIVATE_KEY} or \
                 {CLIENT_CERTIFICATE}",
                quoted(other)
            ))),
        }
    }

    /// Checks with the host that the certificate authority is valid and that the key belongs to the
    /// authority.
    ///
    /// # Errors
    /// Invalid request that names the option.
    pub(crate) fn check(&self, host: &dyn Host) -> Result<(), Failure> {
        match self {
            Self::ClientCertificate(recipe) => recipe.check(host),
            Self::Password { .. } | Self::RsaPrivateKey { .. } => Ok(()),
        }
    }

    /// Returns the options to store, with defaults filled in.
    pub(crate) fn options(&self) -> CredentialOptions {
        let owned = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        match self {
            Self::Password { policy: "" } => CredentialOptions::new(),
            Self::Password { policy } => {
                CredentialOptions::from([owned("password_policy", policy)])
            }
            Self::RsaPrivateKey { bits } => CredentialOptions::from([
                owned("format", PKCS8),
                owned("key_bits", &bits.to_string()),
            ]),
            Self::ClientCertificate(recipe) => recipe.options(),
        }
    }

    /// Generates a credential for a new user.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub(crate) fn issue(
        &self,
        host: &dyn Host,
        new: &PlannedUser<'_>,
        place: &CredentialStatements<'_>,
    ) -> Result<GeneratedCredential, Failure> {
        if let Self::ClientCertificate(recipe) = self {
            return recipe.issue(host, new);
        }
        let stored_credential = self.make(host, new.names.role_name, place)?;
        Ok(GeneratedCredential {
            credential: stored_credential.credential(),
            shown: stored_credential.show(),
        })
    }

    /// Generates a credential that the store may keep, for the account of the role `role`. The
    /// credential fits into the statements of `place`.
    ///
    /// # Errors
    /// Invalid request if the policy does not exist or does not fit, and for certificates, which
    /// expire by themselves; errors of the host.
    pub(crate) fn make(
        &self,
        host: &dyn Host,
        role: &str,
        place: &CredentialStatements<'_>,
    ) -> Result<StoredCredential, Failure> {
        match self {
            Self::Password { .. } => {
                let policy = self.policy(place.connection).unwrap_or_default();
                Ok(StoredCredential::Password(place.draw(host, role, policy)?))
            }
            Self::RsaPrivateKey { bits } => {
                let key_pair = host.crypto().generate_key("rsa", *bits, PKCS8)?;
                let (private_key, public_key) = (key_pair.private_key, key_pair.public_key.pem);
                Ok(StoredCredential::RsaPrivateKey { private_key, public_key })
            }
            Self::ClientCertificate(_) => Err(not_kept()),
        }
    }

    /// Returns the policy for passwords; `None` if the type is not a password.
    pub(crate) fn policy<'b>(&self, connection: &'b Connection) -> Option<&'b str>
    where
        'a: 'b,
    {
        match self {
            Self::Password { policy: "" } => Some(&connection.password_policy),
            Self::Password { policy } => Some(policy),
            Self::RsaPrivateKey { .. } | Self::ClientCertificate(_) => None,
        }
    }

    /// Checks that a static role can have credentials of this type.
    ///
    /// # Errors
    /// Invalid request for certificates, which expire by themselves.
    pub(crate) fn check_kept(&self) -> Result<(), Failure> {
        match self {
            Self::ClientCertificate(_) => Err(not_kept()),
            Self::Password { .. } | Self::RsaPrivateKey { .. } => Ok(()),
        }
    }
}

/// A user to be created.
pub(crate) struct PlannedUser<'a> {
    /// The caller's display name and the role.
    pub(crate) names: TemplateNames<'a>,
    /// The name planned by the plugin.
    pub(crate) username: &'a str,
    /// The time at which the database itself stops accepting the credential.
    pub(crate) expires: StoreTime,
}

/// A credential for a user to be created. No `Debug`: the credential is a secret.
pub(crate) struct GeneratedCredential {
    /// The part for the database.
    pub(crate) credential: Credential,
    /// The part for the caller.
    pub(crate) shown: Map<String, Value>,
}

/// A credential that is kept between requests. No `Debug`: the credential is a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredCredential {
    /// A password.
    Password(String),
    /// An RSA key pair, in PEM.
    RsaPrivateKey {
        /// PEM block `PRIVATE KEY`.
        private_key: String,
        /// PEM block `PUBLIC KEY`.
        public_key: String,
    },
}

/// The credential of a role that is not stored yet: an empty password.
impl Default for StoredCredential {
    fn default() -> Self {
        Self::Password(String::new())
    }
}

impl StoredCredential {
    /// Returns the part for the database.
    pub(crate) fn credential(&self) -> Credential {
        match self {
            Self::Password(password) => Credential::Password(password.clone()),
            Self::RsaPrivateKey { public_key, .. } => Credential::PublicKeyPem(public_key.clone()),
        }
    }

    /// Returns the part for the caller.
    pub(crate) fn show(&self) -> Map<String, Value> {
        let (name, secret) = match self {
            Self::Password(password) => (PASSWORD, password),
            Self::RsaPrivateKey { private_key, .. } => (RSA_PRIVATE_KEY, private_key),
        };
        Map::from_iter([(name.to_owned(), json!(secret))])
    }
}

/// Returns the options for a read: without the authority's key, and with numbers as numbers.
pub(crate) fn shown(options: &CredentialOptions) -> Map<String, Value> {
    let open = options.iter().filter(|(name, _)| name.as_str() != CA_PRIVATE_KEY);
    let as_shown = |(name, text): (&String, &String)| {
        let number = NUMBERS.contains(&name.as_str()).then(|| text.parse::<u32>().ok()).flatten();
        (name.clone(), number.map_or_else(|| json!(text), |number| json!(number)))
    };
    open.map(as_shown).collect()
}

fn not_kept() -> Failure {
    Failure::invalid(format!(
        "unsupported credential_type: \"{CLIENT_CERTIFICATE}\" is for dynamic roles; a static role \
         takes {PASSWORD} or {RSA_PRIVATE_KEY}"
    ))
}

fn refuse_others(
    kind: &str,
    options: &CredentialOptions,
    known_options: &[&str],
) -> Result<(), Failure> {
    match options.keys().find(|option| !known_options.contains(&option.as_str())) {
        Some(option) => Err(Failure::invalid(format!(
            "credential_config validation failed: {} is not an option of {kind}; use {}",
            quoted(option),
            known_options.join(", ")
        ))),
        None => Ok(()),
    }
}

fn invalid_option(name: &str, value: &str, accepted: &str) -> Failure {
    let value = quoted(value);
    Failure::invalid(format!(
        "credential_config validation failed: invalid {name} {value}; use {accepted}"
    ))
}

fn rsa_bits(text: &str) -> Result<u32, Failure> {
    match text {
        "" => Ok(RSA_BITS),
        "2048" => Ok(2_048),
        "3072" => Ok(3_072),
        "4096" => Ok(4_096),
        other => Err(invalid_option("key_bits", other, "2048, 3072 or 4096")),
    }
}

#[cfg(test)]
mod tests;
