//! Seal plugin for the transit engine of Vault and OpenBao: a key of another server wraps the seal
//! key.
//!
//! The token of the seal needs the capability `update` on `<mount>/encrypt/<key>` and
//! `<mount>/decrypt/<key>`, and no other right. The default policy of tokens lets a token renew
//! itself.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! ciphertext → settings → refusal → server → key → token
//! ```

mod ciphertext;
#[cfg(test)]
mod fixture;
mod key;
mod refusal;
mod server;
mod settings;
mod token;

use bulkhead_sdk::Failure;
use bulkhead_sdk::seal_plugin::{OpenedKey, SealHost, SealPlugin, SealSettings, WrappedKey};
use bulkhead_sdk::wire::description::SealDescription;
use server::TransitServer;
use settings::TransitSettings;

/// Seal plugin `transit`.
pub struct Transit;

impl SealPlugin for Transit {
    fn description() -> SealDescription {
        SealDescription {
            kind: "seal-plugin".to_owned(),
            name: "transit".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            about: "Wraps the seal key with a key of another server's transit engine.".to_owned(),
            address: settings::ADDRESS.to_owned(),
            further_addresses: Vec::new(),
            settings: settings::fields(),
        }
    }

    fn wrap_key(
        host: &dyn SealHost,
        settings: &SealSettings,
        key: &[u8],
    ) -> Result<WrappedKey, Failure> {
        let settings = TransitSettings::read(settings)?;
        key::wrap(&TransitServer::new(host, &settings), key)
    }

    fn unwrap_key(
        host: &dyn SealHost,
        settings: &SealSettings,
        blob: &[u8],
    ) -> Result<OpenedKey, Failure> {
        let settings = TransitSettings::read(settings)?;
        key::open(&TransitServer::new(host, &settings), blob)
    }

    fn renew_credentials(
        host: &dyn SealHost,
        settings: &SealSettings,
    ) -> Result<Option<u64>, Failure> {
        let settings = TransitSettings::read(settings)?;
        match settings.renews_token {
            true => token::renew(&TransitServer::new(host, &settings)),
            false => Ok(None),
        }
    }

    fn check_health(host: &dyn SealHost, settings: &SealSettings) -> Result<(), Failure> {
        let settings = TransitSettings::read(settings)?;
        key::newest_version(&TransitServer::new(host, &settings)).map(drop)
    }
}

bulkhead_sdk::export_seal_plugin!(Transit);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{TestHost, settings};

    #[test]
    fn description_marks_credentials_as_secret() {
        let description = Transit::description();
        let of = |is_marked: fn(&bulkhead_sdk::wire::description::Field) -> bool| {
            let marked = description.settings.iter().filter(|field| is_marked(field));
            marked.map(|field| field.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(|field| field.secret), ["token", "tls_client_key"]);
        assert_eq!(of(|field| field.required), ["address", "token", "key_name"]);
        assert!(description.settings.iter().any(|field| field.name == description.address));
    }

    #[test]
    fn disabled_renewal_sends_no_request() {
        let host = TestHost::default();
        for value in [serde_json::json!(true), serde_json::json!("true")] {
            let settings = settings(&[("disable_renewal", value)]);
            assert_eq!(Transit::renew_credentials(&host, &settings), Ok(None));
        }
        assert!(host.take_requests().is_empty());
    }
}
