//! Cache of parsed TLS settings, with the operator's authorities.
//!
//! Parsing certificates takes longer than a request on an open connection. Settings with a private
//! key are never cached: a private key stays in memory only during its call.

use super::{TrustSettings, client};
use crate::fingerprint::Fingerprint;
use crate::least_used::LeastUsed;
use crate::limits;
use bulkhead_tls::{CertificateDer, TlsClient, TlsVersion};
use bulkhead_wire::sync;
use std::sync::{Arc, Mutex};

/// TLS settings of connections to servers of every kind.
pub struct TlsConfigs {
    /// Trusted in addition to the public authorities if the settings name no authority.
    authorities: Vec<CertificateDer<'static>>,
    /// Parsed settings by the fingerprint of the settings.
    read: Mutex<LeastUsed<Arc<TlsClient>>>,
}

impl TlsConfigs {
    /// Creates a cache. `authorities` are the authorities of the server's configuration.
    pub fn new(authorities: &[CertificateDer<'static>]) -> Arc<Self> {
        let read = Mutex::new(LeastUsed::of(limits::PARSED_TLS_SETTINGS));
        Arc::new(Self { authorities: authorities.to_vec(), read })
    }

    /// Returns a client with the settings `trust`.
    ///
    /// # Errors
    /// The fault of the settings, without quoting a certificate or key.
    pub(crate) fn client(&self, trust: &TrustSettings<'_>) -> Result<Arc<TlsClient>, String> {
        let read = || Ok(Arc::new(client(trust, &self.authorities)?));
        if trust.client_key.is_some() {
            return read();
        }
        let of = fingerprint(trust);
        if let Some(client) = sync::lock(&self.read).get(&of) {
            return Ok(client);
        }
        // Parse without the lock: of 2 concurrent calls, both parse.
        let client = read()?;
        sync::lock(&self.read).insert(of, Arc::clone(&client));
        Ok(client)
    }
}

/// Returns the fingerprint of all settings.
fn fingerprint(trust: &TrustSettings<'_>) -> Fingerprint {
    let versions = [trust.versions.least(), trust.versions.most()].map(TlsVersion::word);
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
    use super::super::authorities;
    use super::*;
    use bulkhead_tls::{VersionRange, pem};

    const AUTHORITY: &str = include_str!("../http/fixtures/authority.pem");
    const OTHER_AUTHORITY: &str = include_str!("../http/fixtures/other-authority.pem");
    const CLIENT: &str = include_str!("../http/fixtures/client.pem");
    const CLIENT_KEY: &str = include_str!("../http/fixtures/client.key");

    fn der(pem: &str) -> CertificateDer<'static> {
        pem::certificates(pem.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn operator_authorities_extend_public_and_given_replace_both() {
        let public = authorities(&TrustSettings::default(), &[]).unwrap().count();
        assert!(public > 100);
        let operators = [der(OTHER_AUTHORITY)];
        let both = authorities(&TrustSettings::default(), &operators).unwrap();
        assert_eq!(both.count(), public + 1);
        let settings =
            TrustSettings { root_certificates: Some(AUTHORITY), ..TrustSettings::default() };
        assert_eq!(authorities(&settings, &operators).unwrap().count(), 1);
    }

    #[test]
    fn tls_configs_without_key_are_cached_by_settings() {
        let configs = TlsConfigs::new(&[]);
        let usual = TrustSettings::default;
        let only = |version| VersionRange::new(version, version).unwrap();
        let said = [
            usual(),
            TrustSettings { root_certificates: Some(AUTHORITY), ..usual() },
            TrustSettings { root_certificates: Some(OTHER_AUTHORITY), ..usual() },
            TrustSettings { versions: only(TlsVersion::Tls13), ..usual() },
            TrustSettings { versions: only(TlsVersion::Tls12), ..usual() },
            TrustSettings { insecure: true, ..usual() },
            TrustSettings { any_name: true, ..usual() },
            TrustSettings { protocols: &[b"http/1.1"], ..usual() },
        ];
        let read: Vec<_> = said.iter().map(|trust| configs.client(trust).unwrap()).collect();
        for (index, trust) in said.iter().enumerate() {
            let again = configs.client(trust).unwrap();
            let same: Vec<_> =
                (0..said.len()).filter(|other| Arc::ptr_eq(&read[*other], &again)).collect();
            assert_eq!(same, [index], "each is kept, and is not another's");
        }
        let with_key = TrustSettings {
            client_certificate: Some(CLIENT),
            client_key: Some(CLIENT_KEY),
            ..usual()
        };
        let (one, again) = (configs.client(&with_key).unwrap(), configs.client(&with_key).unwrap());
        assert!(!Arc::ptr_eq(&one, &again), "a key stays no longer than its call");
    }
}
