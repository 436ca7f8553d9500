//! TLS to web servers: the certificate is always checked.

use crate::bindings::secrets_engine::bulkhead::plugin::http::Tls;
use crate::grants::Origin;
use crate::tls::{self, Trust};
use rustls::client::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use std::sync::Arc;

/// How one connection is secured.
pub(crate) struct Secured {
    pub(super) config: Arc<ClientConfig>,
    /// The name that the certificate must bear.
    pub(super) name: ServerName<'static>,
}

/// How a connection to `origin` is secured; `None` for one that is not. `authorities` are trusted
/// besides the public ones where the settings name none.
///
/// # Errors
/// What is wrong with the settings; no certificate or key is quoted.
pub(crate) fn secure(
    origin: &Origin,
    settings: Option<&Tls>,
    authorities: &[CertificateDer<'static>],
) -> Result<Option<Secured>, String> {
    if !origin.tls {
        return match settings {
            Some(_) => {
                Err("tls is set for a URL that is not https://; leave one of them out".to_owned())
            }
            None => Ok(None),
        };
    }
    let named = settings.and_then(|tls| tls.server_name.as_deref());
    let name = tls::server_name(&origin.host, named)?;
    let trust = Trust {
        root_certificates: settings.and_then(|tls| tls.root_certificates.as_deref()),
        more_roots: authorities,
        client_certificate: settings.and_then(|tls| tls.client_certificate.as_deref()),
        client_key: settings.and_then(|tls| tls.client_key.as_deref()),
        ..Trust::default()
    };
    let mut config = tls::client_config(&trust)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(Secured { config: Arc::new(config), name }))
}
