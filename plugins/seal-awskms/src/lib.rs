//! Seal plugin for the key management service of AWS: a symmetric key of KMS wraps the seal key.
//!
//! The credentials of the seal need `kms:Encrypt` and `kms:Decrypt` on the key, and no other right.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! signature → settings → refusal → service → key
//! ```

#[cfg(test)]
mod fixture;
mod key;
mod refusal;
mod service;
mod settings;
mod signature;

use bulkhead_sdk::Failure;
use bulkhead_sdk::seal_plugin::{OpenedKey, SealHost, SealPlugin, SealSettings, WrappedKey};
use bulkhead_sdk::wire::description::SealDescription;
use service::KeyService;
use settings::KmsSettings;

/// Seal plugin `awskms`.
pub struct AwsKms;

impl SealPlugin for AwsKms {
    fn description() -> SealDescription {
        SealDescription {
            kind: "seal-plugin".to_owned(),
            name: "awskms".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            about: "Wraps the seal key with a symmetric key of AWS KMS.".to_owned(),
            address: settings::ENDPOINT.to_owned(),
            further_addresses: Vec::new(),
            settings: settings::fields(),
        }
    }

    fn wrap_key(
        host: &dyn SealHost,
        settings: &SealSettings,
        key: &[u8],
    ) -> Result<WrappedKey, Failure> {
        let settings = KmsSettings::read(settings)?;
        key::wrap(&KeyService::new(host, &settings), key)
    }

    fn unwrap_key(
        host: &dyn SealHost,
        settings: &SealSettings,
        blob: &[u8],
    ) -> Result<OpenedKey, Failure> {
        let settings = KmsSettings::read(settings)?;
        key::open(&KeyService::new(host, &settings), blob)
    }

    /// Returns none: the host reads the credentials of each call from their files.
    fn renew_credentials(
        _host: &dyn SealHost,
        settings: &SealSettings,
    ) -> Result<Option<u64>, Failure> {
        KmsSettings::read(settings).map(|_| None)
    }

    fn check_health(host: &dyn SealHost, settings: &SealSettings) -> Result<(), Failure> {
        let settings = KmsSettings::read(settings)?;
        key::newest_key(&KeyService::new(host, &settings)).map(drop)
    }
}

bulkhead_sdk::export_seal_plugin!(AwsKms);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::settings;
    use bulkhead_sdk::testbed::SealTestHost;

    #[test]
    fn description_marks_credentials_as_secret() {
        let description = AwsKms::description();
        let of = |is_marked: fn(&bulkhead_sdk::wire::description::Field) -> bool| {
            let marked = description.settings.iter().filter(|field| is_marked(field));
            marked.map(|field| field.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(|field| field.secret), ["secret_key", "session_token"]);
        let required = ["endpoint", "region", "access_key", "secret_key", "kms_key_id"];
        assert_eq!(of(|field| field.required), required);
        assert_eq!(description.address, "endpoint");
    }

    #[test]
    fn credentials_need_no_renewal() {
        let host = SealTestHost::default();
        assert_eq!(AwsKms::renew_credentials(&host, &settings(&[])), Ok(None));
        assert!(host.take_requests().is_empty());
    }
}
