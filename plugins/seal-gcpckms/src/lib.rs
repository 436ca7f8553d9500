//! Seal plugin for Cloud KMS of Google Cloud: a symmetric key of the service wraps the seal key.
//!
//! The service account of the seal needs the rights to encrypt and to decrypt with the key
//! (`roles/cloudkms.cryptoKeyEncrypterDecrypter`), and no other right.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! crc32c → wrapped_key → settings → refusal → access_token → service → key
//! ```

mod access_token;
mod crc32c;
#[cfg(test)]
mod fixture;
mod key;
mod refusal;
mod service;
mod settings;
mod wrapped_key;

use bulkhead_sdk::Failure;
use bulkhead_sdk::seal_plugin::{OpenedKey, SealHost, SealPlugin, SealSettings, WrappedKey};
use bulkhead_sdk::wire::description::SealDescription;
use service::KeyService;
use settings::KmsSettings;

/// Seal plugin `gcpckms`.
pub struct CloudKms;

impl SealPlugin for CloudKms {
    fn description() -> SealDescription {
        SealDescription {
            kind: "seal-plugin".to_owned(),
            name: "gcpckms".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            about: "Wraps the seal key with a symmetric key of Google Cloud KMS.".to_owned(),
            address: settings::ENDPOINT.to_owned(),
            further_addresses: vec![settings::TOKEN_URI.to_owned()],
            settings: settings::fields(),
        }
    }

    fn wrap_key(
        host: &dyn SealHost,
        settings: &SealSettings,
        key: &[u8],
    ) -> Result<WrappedKey, Failure> {
        let settings = KmsSettings::read(settings)?;
        key::wrap(&KeyService::open(host, &settings)?, key)
    }

    fn unwrap_key(
        host: &dyn SealHost,
        settings: &SealSettings,
        blob: &[u8],
    ) -> Result<OpenedKey, Failure> {
        let settings = KmsSettings::read(settings)?;
        key::open(&KeyService::open(host, &settings)?, blob)
    }

    /// Returns none: each call asks for an access token of its own.
    fn renew_credentials(
        _host: &dyn SealHost,
        settings: &SealSettings,
    ) -> Result<Option<u64>, Failure> {
        KmsSettings::read(settings).map(|_| None)
    }

    fn check_health(host: &dyn SealHost, settings: &SealSettings) -> Result<(), Failure> {
        let settings = KmsSettings::read(settings)?;
        key::newest_version(&KeyService::open(host, &settings)?).map(drop)
    }
}

bulkhead_sdk::export_seal_plugin!(CloudKms);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::settings;
    use bulkhead_sdk::testbed::SealTestHost;

    #[test]
    fn description_marks_credentials_and_addresses() {
        let description = CloudKms::description();
        let of = |is_marked: fn(&bulkhead_sdk::wire::description::Field) -> bool| {
            let marked = description.settings.iter().filter(|field| is_marked(field));
            marked.map(|field| field.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(|field| field.secret), ["private_key"]);
        assert_eq!(of(|field| !field.required), ["private_key_id", "tls_ca_cert"]);
        assert_eq!(description.address, "endpoint");
        assert_eq!(description.further_addresses, ["token_uri"]);
    }

    #[test]
    fn credentials_need_no_renewal() {
        let host = SealTestHost::default();
        assert_eq!(CloudKms::renew_credentials(&host, &settings(&[])), Ok(None));
        assert!(host.take_requests().is_empty());
    }
}
