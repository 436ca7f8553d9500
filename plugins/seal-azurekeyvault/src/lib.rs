//! Seal plugin for Key Vault of Azure: an RSA key of a vault wraps the seal key.
//!
//! The application of the seal needs the rights to get the key, to wrap and to unwrap (the role
//! `Key Vault Crypto Service Encryption User`), and no other right.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! key_version → settings → refusal → access_token → service → key
//! ```

mod access_token;
#[cfg(test)]
mod fixture;
mod key;
mod key_version;
mod refusal;
mod service;
mod settings;

use bulkhead_sdk::Failure;
use bulkhead_sdk::seal_plugin::{OpenedKey, SealHost, SealPlugin, SealSettings, WrappedKey};
use bulkhead_sdk::wire::description::SealDescription;
use service::KeyService;
use settings::VaultSettings;

/// Seal plugin `azurekeyvault`.
pub struct KeyVault;

impl SealPlugin for KeyVault {
    fn description() -> SealDescription {
        SealDescription {
            kind: "seal-plugin".to_owned(),
            name: "azurekeyvault".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            about: "Wraps the seal key with an RSA key of Azure Key Vault.".to_owned(),
            address: settings::VAULT_URL.to_owned(),
            further_addresses: vec![settings::AUTHORITY_HOST.to_owned()],
            settings: settings::fields(),
        }
    }

    fn wrap_key(
        host: &dyn SealHost,
        settings: &SealSettings,
        key: &[u8],
    ) -> Result<WrappedKey, Failure> {
        let settings = VaultSettings::read(settings)?;
        key::wrap(&KeyService::open(host, &settings)?, key)
    }

    fn unwrap_key(
        host: &dyn SealHost,
        settings: &SealSettings,
        blob: &[u8],
    ) -> Result<OpenedKey, Failure> {
        let settings = VaultSettings::read(settings)?;
        key::open(&KeyService::open(host, &settings)?, blob)
    }

    /// Returns none: each call asks for an access token of its own.
    fn renew_credentials(
        _host: &dyn SealHost,
        settings: &SealSettings,
    ) -> Result<Option<u64>, Failure> {
        VaultSettings::read(settings).map(|_| None)
    }

    fn check_health(host: &dyn SealHost, settings: &SealSettings) -> Result<(), Failure> {
        let settings = VaultSettings::read(settings)?;
        key::check(&KeyService::open(host, &settings)?)
    }
}

bulkhead_sdk::export_seal_plugin!(KeyVault);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::settings;
    use bulkhead_sdk::testbed::SealTestHost;

    #[test]
    fn description_marks_credentials_and_addresses() {
        let description = KeyVault::description();
        let of = |is_marked: fn(&bulkhead_sdk::wire::description::Field) -> bool| {
            let marked = description.settings.iter().filter(|field| is_marked(field));
            marked.map(|field| field.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(|field| field.secret), ["client_secret"]);
        assert_eq!(of(|field| !field.required), ["tls_ca_cert"]);
        assert_eq!(description.address, "vault_url");
        assert_eq!(description.further_addresses, ["authority_host"]);
    }

    #[test]
    fn credentials_need_no_renewal() {
        let host = SealTestHost::default();
        assert_eq!(KeyVault::renew_credentials(&host, &settings(&[])), Ok(None));
        assert!(host.take_requests().is_empty());
    }
}
