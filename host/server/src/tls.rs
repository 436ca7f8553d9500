//! TLS of the listener: which files, which versions, whose certificates, and how all of that
//! becomes what rustls serves.
//!
//! The mistakes this part stops: a key that is not the certificate's, a certificate that ended, a
//! chain that no client can follow. Each is refused before a client meets it, also when files
//! change under a running server, which then goes on with what it has (see `renewal.rs`).
//! Renegotiation, early data and compression are not there to be attacked: rustls has none of them
//! in a server like this.

mod chain;
mod der;
pub(crate) mod files;
mod renewal;
mod settings;

pub(crate) use chain::machine_time;
pub(crate) use renewal::Tls;
pub(crate) use settings::{ClientCertificates, TlsSettings, TlsVersion, known_suites, suite};

use chain::Chain;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use std::path::Path;
use std::sync::Arc;

/// HTTP/2 where the client speaks it.
pub(crate) const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// The setting that names the authorities of clients.
const CLIENT_CA: &str = "tls_client_ca_file";

/// Reads the files, and serves nothing.
///
/// # Errors
/// The first file that cannot be served, why, and what to do.
pub(crate) fn check(settings: &TlsSettings) -> Result<(), String> {
    server_config(settings).map(|_| ())
}

/// What the files say at this moment, as rustls serves it, and until when the certificate holds.
///
/// # Errors
/// The first file that cannot be served, why, and what to do.
fn server_config(settings: &TlsSettings) -> Result<(ServerConfig, String), String> {
    let chain = Chain::read(settings)?;
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
    let ends = chain.ends();
    let Chain { certificates, key } = chain;
    let mut config = builder
        .with_single_cert(certificates, key)
        .map_err(|error| chain::unfit(settings, &error))?;
    config.alpn_protocols = vec![HTTP_2.to_vec(), HTTP_1.to_vec()];
    // Resumption without memory of ours. A renewal makes a new key of tickets, so that no session
    // outlives the certificates that it was made under.
    config.ticketer = aws_lc_rs::Ticketer::new()
        .map_err(|error| format!("keys for the resumption of sessions cannot be made: {error}"))?;
    Ok((config, ends))
}

/// rustls' own choice, without the suites that were not asked for.
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
    // webpki trusts an authority for as long as it stands here.
    chain::check_time(file, CLIENT_CA, &certificates)?;
    for (index, certificate) in certificates.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| {
            format!(
                "certificate {} of {CLIENT_CA} {} is no authority's: {error}; \
                 give the certificates of those who sign your clients'",
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
