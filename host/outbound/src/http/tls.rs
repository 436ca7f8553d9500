//! TLS to web servers. The certificate is always checked.

use super::request::HttpTls;
use crate::addresses::Origin;
use crate::tls::{self, TlsConfigs, TrustSettings};
use bulkhead_tls::{ServerName, TlsClient};
use std::sync::Arc;

/// TLS settings of a connection.
#[derive(Clone)]
pub struct HttpTlsSettings {
    pub(super) client: Arc<TlsClient>,
    /// The name that the certificate must bear.
    pub(super) name: ServerName<'static>,
}

/// Returns the TLS settings for a connection to `origin`. `None`: the connection is in clear.
///
/// # Errors
/// The fault of the settings, without quoting a certificate or key.
pub fn tls_settings(
    configs: &TlsConfigs,
    origin: &Origin,
    settings: Option<&HttpTls>,
) -> Result<Option<HttpTlsSettings>, String> {
    if !origin.tls {
        return match settings {
            Some(_) => {
                Err("tls is set for a URL without https://; write https://, or leave tls out"
                    .to_owned())
            }
            None => Ok(None),
        };
    }
    let name = settings.and_then(|tls| tls.server_name.as_deref());
    let name = tls::server_name(&origin.host, name)?;
    let trust = TrustSettings {
        root_certificates: settings.and_then(|tls| tls.root_certificates.as_deref()),
        client_certificate: settings.and_then(|tls| tls.client_certificate.as_deref()),
        client_key: settings.and_then(|tls| tls.client_key.as_deref()),
        protocols: &[b"http/1.1"],
        ..TrustSettings::default()
    };
    Ok(Some(HttpTlsSettings { client: configs.client(&trust)?, name }))
}
