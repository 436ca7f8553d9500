//! Cache of parsed TLS settings, with the operator's authorities.
//!
//! Parsing certificates takes longer than a request on an open connection. Settings with a private
//! key are never cached: a private key stays in memory only during its call.

use super::{TrustSettings, client_config};
use crate::fingerprint::Fingerprint;
use crate::least_used::LeastUsed;
use crate::limits;
use bulkhead_wire::sync;
use rustls::client::ClientConfig;
use rustls::pki_types::CertificateDer;
use std::sync::{Arc, Mutex};

/// TLS settings of connections to servers of every kind.
pub struct TlsConfigs {
    /// Trusted in addition to the public authorities if the settings name no authority.
    authorities: Vec<CertificateDer<'static>>,
    /// Parsed settings by the fingerprint of the settings.
    read: Mutex<LeastUsed<Arc<ClientConfig>>>,
}

impl TlsConfigs {
    /// Creates a cache. `authorities` are the authorities of the server's configuration.
    pub fn new(authorities: &[CertificateDer<'static>]) -> Arc<Self> {
        let read = Mutex::new(LeastUsed::of(limits::PARSED_TLS_SETTINGS));
        Arc::new(Self { authorities: authorities.to_vec(), read })
    }

    /// Returns the parsed settings for `trust`.
    ///
    /// # Errors
    /// The fault of the settings, without quoting a certificate or key.
    pub(crate) fn config(&self, trust: &TrustSettings<'_>) -> Result<Arc<ClientConfig>, String> {
        let read = || Ok(Arc::new(client_config(trust, &self.authorities)?));
        if trust.client_key.is_some() {
            return read();
        }
        let of = fingerprint(trust);
        if let Some(config) = sync::lock(&self.read).get(&of) {
            return Ok(config);
        }
        // Parse without the lock: of 2 concurrent calls, both parse.
        let config = read()?;
        sync::lock(&self.read).insert(of, Arc::clone(&config));
        Ok(config)
    }
}

/// Returns the fingerprint of all settings.
fn fingerprint(trust: &TrustSettings<'_>) -> Fingerprint {
    let versions = trust.versions.iter().map(|version| u16::from(version.version).to_be_bytes());
    Fingerprint::begin()
        .optional(trust.root_certificates)
        .optional(trust.client_certificate)
        .optional(trust.client_key)
        .all(versions)
        .number(trust.insecure)
        .number(trust.any_name)
        .all(trust.protocols)
        .end()
}

#[cfg(test)]
mod tests {
    use super::super::roots;
    use super::*;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::version::{TLS12, TLS13};

    const AUTHORITY: &str = include_str!("../http/fixtures/authority.pem");
    const OTHER_AUTHORITY: &str = include_str!("../http/fixtures/other-authority.pem");
    const CLIENT: &str = include_str!("../http/fixtures/client.pem");
    const CLIENT_KEY: &str = include_str!("../http/fixtures/client.key");

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    #[test]
    fn the_operators_authorities_are_trusted_besides_the_public_ones_and_given_ones_alone() {
        let public = roots(&TrustSettings::default(), &[]).unwrap().len();
        assert!(public > 100);
        let operators = [der(OTHER_AUTHORITY)];
        assert_eq!(roots(&TrustSettings::default(), &operators).unwrap().len(), public + 1);
        let given =
            TrustSettings { root_certificates: Some(AUTHORITY), ..TrustSettings::default() };
        assert_eq!(roots(&given, &operators).unwrap().len(), 1);
    }

    #[test]
    fn settings_are_read_once_unless_they_hold_a_key_and_differ_in_all_that_they_say() {
        let configs = TlsConfigs::new(&[]);
        let usual = TrustSettings::default;
        let said = [
            usual(),
            TrustSettings { root_certificates: Some(AUTHORITY), ..usual() },
            TrustSettings { root_certificates: Some(OTHER_AUTHORITY), ..usual() },
            TrustSettings { versions: vec![&TLS13], ..usual() },
            TrustSettings { versions: vec![&TLS12], ..usual() },
            TrustSettings { insecure: true, ..usual() },
            TrustSettings { any_name: true, ..usual() },
            TrustSettings { protocols: &[b"http/1.1"], ..usual() },
        ];
        let read: Vec<_> = said.iter().map(|trust| configs.config(trust).unwrap()).collect();
        for (index, trust) in said.iter().enumerate() {
            let again = configs.config(trust).unwrap();
            let same: Vec<_> =
                (0..said.len()).filter(|other| Arc::ptr_eq(&read[*other], &again)).collect();
            assert_eq!(same, [index], "each is kept, and is not another's");
        }
        let with_key = TrustSettings {
            client_certificate: Some(CLIENT),
            client_key: Some(CLIENT_KEY),
            ..usual()
        };
        let (one, again) = (configs.config(&with_key).unwrap(), configs.config(&with_key).unwrap());
        assert!(!Arc::ptr_eq(&one, &again), "a key stays no longer than its call");
    }
}
