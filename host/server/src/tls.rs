//! TLS of the listener: files, versions, client certificates, and the resulting rustls
//! configuration.
//!
//! Prevents serving a key that does not belong to the certificate, an expired certificate, or a
//! chain that no client can follow. Each is refused before a client sees it. If the files of a
//! running server change to such a state, the server keeps its current certificate (see
//! `renewal.rs`). rustls servers have no renegotiation and no compression, and early data stay off.

mod chain;
mod der;
pub(crate) mod files;
mod renewal;
mod settings;

pub(crate) use chain::machine_time;
pub(crate) use renewal::ListenerTls;
pub(crate) use settings::{ClientCertificates, TlsSettings, TlsVersion, find_suite, known_suites};

use chain::CertificateChain;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use std::path::Path;
use std::sync::Arc;

/// ALPN name of HTTP/2, which is preferred.
pub(crate) const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// Setting that names the certificate authorities of clients.
const CLIENT_CA: &str = "tls_client_ca_file";

/// Checks the files without serving them.
///
/// # Errors
/// The first unusable file, the reason and the remedy.
pub(crate) fn check(settings: &TlsSettings) -> Result<(), String> {
    server_config(settings).map(|_| ())
}

/// Builds the rustls configuration from the current files, and returns the end of the certificate's
/// validity.
///
/// # Errors
/// The first unusable file, the reason and the remedy.
fn server_config(settings: &TlsSettings) -> Result<(ServerConfig, String), String> {
    let chain = CertificateChain::read(settings)?;
    let provider = Arc::new(provider(settings));
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&settings.protocol_versions())
        .map_err(|error| format!("these versions and cipher suites of TLS do not fit: {error}"))?;
    let builder = match &settings.clients {
        ClientCertificates::NotAsked => builder.with_no_client_auth(),
        ClientCertificates::Optional(file) => {
            builder.with_client_cert_verifier(verifier(file, &provider, false)?)
        }
        ClientCertificates::Required(file) => {
            builder.with_client_cert_verifier(verifier(file, &provider, true)?)
        }
    };
    let ends = chain.earliest_end();
    let CertificateChain { certificates, key } = chain;
    let mut config = builder
        .with_single_cert(certificates, key)
        .map_err(|error| chain::unusable_message(settings, &error))?;
    config.alpn_protocols = vec![HTTP_2.to_vec(), HTTP_1.to_vec()];
    // Session tickets need no memory in the server. Each renewal makes a new ticket key, so that no
    // session outlives the certificates under which it was made.
    config.ticketer = aws_lc_rs::Ticketer::new()
        .map_err(|error| format!("keys for the resumption of sessions cannot be made: {error}"))?;
    Ok((config, ends))
}

/// Returns rustls' default provider without the suites that the settings exclude.
fn provider(settings: &TlsSettings) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| settings.admits(*suite));
    provider
}

fn verifier(
    file: &Path,
    provider: &Arc<CryptoProvider>,
    is_required: bool,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    let certificates = files::certificates(file, CLIENT_CA)?;
    // webpki ignores the validity period of a trusted authority.
    chain::check_time(file, CLIENT_CA, &certificates)?;
    for (index, certificate) in certificates.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| {
            format!(
                "certificate {} of {CLIENT_CA} {} is not an authority's: {error}; give the \
                 certificates of the authorities that sign your clients' certificates",
                index + 1,
                file.display()
            )
        })?;
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = if is_required { builder } else { builder.allow_unauthenticated() };
    builder
        .build()
        .map_err(|error| format!("{CLIENT_CA} {} is not usable: {error}", file.display()))
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
