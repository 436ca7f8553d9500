//! TLS clients that trust only the authorities of a test.

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// Returns a client that trusts `authorities`, and offers `protocols` by ALPN if there are any.
pub fn trust(
    authorities: impl IntoIterator<Item = CertificateDer<'static>>,
    protocols: &[&str],
) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).expect("an authority");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS has versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}
