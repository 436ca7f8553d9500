//! TLS to web servers: the certificate is always checked.

use crate::bindings::secrets_engine::bulkhead::plugin::http::Tls;
use crate::grants::Origin;
use crate::tls::{self, TlsConfigs, Trust};
use rustls::client::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;

/// How one connection is secured.
pub(crate) struct Secured {
    pub(super) config: Arc<ClientConfig>,
    /// The name that the certificate must bear.
    pub(super) name: ServerName<'static>,
}

/// How a connection to `origin` is secured; `None` for one that is not.
///
/// # Errors
/// What is wrong with the settings; no certificate or key is quoted.
pub(crate) fn secure(
    configs: &TlsConfigs,
    origin: &Origin,
    settings: Option<&Tls>,
) -> Result<Option<Secured>, String> {
    if !origin.tls {
        return match settings {
            Some(_) => {
                Err("tls is set for a URL that is not https://; leave one of them out".to_owned())
            }
            None => Ok(None),
        };
    }
    let name = settings.and_then(|tls| tls.server_name.as_deref());
    let name = tls::server_name(&origin.host, name)?;
    let trust = Trust {
        root_certificates: settings.and_then(|tls| tls.root_certificates.as_deref()),
        client_certificate: settings.and_then(|tls| tls.client_certificate.as_deref()),
        client_key: settings.and_then(|tls| tls.client_key.as_deref()),
        protocols: &[b"http/1.1"],
        ..Trust::default()
    };
    Ok(Some(Secured { config: configs.config(&trust)?, name }))
}
