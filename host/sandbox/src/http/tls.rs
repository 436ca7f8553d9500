//! TLS to web servers: the certificate is always checked.
//!
//! Settings are kept as they were read: reading certificates takes longer than using a connection
//! that is open. Those with a private key are not, which stays no longer than its call.

use crate::bindings::secrets_engine::bulkhead::plugin::http::Tls;
use crate::grants::Origin;
use crate::least_used::LeastUsed;
use crate::limits;
use crate::tls::{self, Trust};
use aws_lc_rs::digest::{self, SHA256, SHA256_OUTPUT_LEN};
use bulkhead_wire::sync;
use rustls::client::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use std::sync::{Arc, Mutex};

/// What a request says of TLS, and its digest.
pub(crate) struct TlsSettings<'a> {
    given: Option<&'a Tls>,
    /// Of all that is said, by which settings are told apart.
    pub(super) digest: [u8; SHA256_OUTPUT_LEN],
}

impl<'a> TlsSettings<'a> {
    pub(crate) fn of(given: Option<&'a Tls>) -> Self {
        let mut context = digest::Context::new(&SHA256);
        let texts = given.map(|tls| {
            [&tls.root_certificates, &tls.client_certificate, &tls.client_key, &tls.server_name]
        });
        for text in texts.into_iter().flatten() {
            let bytes = text.as_ref().map_or(0, String::len).to_be_bytes();
            context.update(&[u8::from(text.is_some())]);
            context.update(&bytes);
            context.update(text.as_deref().unwrap_or_default().as_bytes());
        }
        let mut digest = [0; SHA256_OUTPUT_LEN];
        digest.copy_from_slice(context.finish().as_ref());
        Self { given, digest }
    }
}

/// How one connection is secured.
pub(crate) struct Secured {
    pub(super) config: Arc<ClientConfig>,
    /// The name that the certificate must bear.
    pub(super) name: ServerName<'static>,
}

/// How connections are secured by the settings of components.
pub(crate) struct Security {
    /// Trusted besides the public ones where settings name none.
    authorities: Vec<CertificateDer<'static>>,
    /// By the digests of the settings.
    read: Mutex<LeastUsed<Arc<ClientConfig>>>,
}

impl Security {
    pub(crate) fn new(authorities: &[CertificateDer<'static>]) -> Self {
        let read = Mutex::new(LeastUsed::of(limits::READ_TLS_SETTINGS));
        Self { authorities: authorities.to_vec(), read }
    }

    /// How a connection to `origin` is secured; `None` for one that is not.
    ///
    /// # Errors
    /// What is wrong with the settings; no certificate or key is quoted.
    pub(crate) fn secure(
        &self,
        origin: &Origin,
        settings: &TlsSettings<'_>,
    ) -> Result<Option<Secured>, String> {
        if !origin.tls {
            return match settings.given {
                Some(_) => {
                    Err("tls is set for a URL that is not https://; leave one of them out"
                        .to_owned())
                }
                None => Ok(None),
            };
        }
        let named = settings.given.and_then(|tls| tls.server_name.as_deref());
        let name = tls::server_name(&origin.host, named)?;
        Ok(Some(Secured { config: self.config(settings)?, name }))
    }

    fn config(&self, settings: &TlsSettings<'_>) -> Result<Arc<ClientConfig>, String> {
        let TlsSettings { given, digest } = settings;
        if given.is_some_and(|tls| tls.client_key.is_some()) {
            return self.read(*given);
        }
        if let Some(config) = sync::lock(&self.read).get(digest) {
            return Ok(config);
        }
        // Read without the lock: of two requests at once, both do.
        let config = self.read(*given)?;
        sync::lock(&self.read).insert(*digest, Arc::clone(&config));
        Ok(config)
    }

    fn read(&self, settings: Option<&Tls>) -> Result<Arc<ClientConfig>, String> {
        let trust = Trust {
            root_certificates: settings.and_then(|tls| tls.root_certificates.as_deref()),
            more_roots: &self.authorities,
            client_certificate: settings.and_then(|tls| tls.client_certificate.as_deref()),
            client_key: settings.and_then(|tls| tls.client_key.as_deref()),
            ..Trust::default()
        };
        let mut config = tls::client_config(&trust)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
