//! TLS of a listener: files, versions, client certificates, and the resulting rustls
//! configuration.
//!
//! This file prevents serving a key that does not belong to the certificate, an expired
//! certificate, or a chain that no client can follow. Each such file is refused before a client
//! sees the file. If the files of a running server change to such a state, the server keeps the
//! current certificate (see `renewal.rs`). rustls servers have no renegotiation and no compression,
//! and early data stay off.

use crate::authorities::Authorities;
use crate::chain::{self, CertificateChain};
use crate::files::NamedFile;
use crate::suites::AllowedSuites;
use crate::versions::VersionRange;
use rustls::Error;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use std::sync::Arc;

/// The policy for client certificates, with the file of the authorities that sign them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Not requested.
    NotAsked,
    /// Requested; a presented certificate has to be valid.
    Optional(NamedFile),
    /// Required.
    Required(NamedFile),
}

/// TLS of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTlsSettings {
    /// File with the server's certificate and its chain.
    pub certificates: NamedFile,
    /// File with the private key.
    pub key: NamedFile,
    /// Accepted versions.
    pub versions: VersionRange,
    /// Allowed cipher suites.
    pub suites: AllowedSuites,
    /// Policy for client certificates.
    pub clients: ClientCertificates,
}

impl ServerTlsSettings {
    /// Settings with these files and defaults for the rest.
    #[must_use]
    pub fn new(certificates: NamedFile, key: NamedFile) -> Self {
        Self {
            certificates,
            key,
            versions: VersionRange::ALL,
            suites: AllowedSuites::default(),
            clients: ClientCertificates::NotAsked,
        }
    }

    /// Checks the files without serving them.
    ///
    /// # Errors
    /// The first unusable file, the reason and the remedy.
    pub fn check(&self) -> Result<(), String> {
        server_config(self, &[]).map(|_| ())
    }

    /// Returns the files that the settings name.
    pub(crate) fn files(&self) -> impl Iterator<Item = &NamedFile> {
        let authorities = match &self.clients {
            ClientCertificates::NotAsked => None,
            ClientCertificates::Optional(file) | ClientCertificates::Required(file) => Some(file),
        };
        [&self.certificates, &self.key].into_iter().chain(authorities)
    }
}

/// Builds the rustls configuration from the current files, and returns the end of the certificate's
/// validity. `protocols` are the application protocols (ALPN), the preferred one first.
///
/// # Errors
/// The first unusable file, the reason and the remedy.
pub(crate) fn server_config(
    settings: &ServerTlsSettings,
    protocols: &[&[u8]],
) -> Result<(ServerConfig, String), String> {
    let chain = CertificateChain::read(&settings.certificates, &settings.key)?;
    let provider = Arc::new(provider(&settings.suites));
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&settings.versions.protocols())
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
        .map_err(|error| unusable_message(settings, &error))?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    // Session tickets need no memory in the server. Each renewal makes a new ticket key, so that no
    // session outlives the certificates of the session's handshake.
    config.ticketer = aws_lc_rs::Ticketer::new()
        .map_err(|error| format!("keys for the resumption of sessions cannot be made: {error}"))?;
    Ok((config, ends))
}

/// Returns rustls' default provider with the allowed suites.
pub(crate) fn provider(suites: &AllowedSuites) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| suites.includes(*suite));
    provider
}

fn verifier(
    file: &NamedFile,
    provider: &Arc<CryptoProvider>,
    is_required: bool,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let certificates = file.certificates()?;
    // webpki ignores the validity period of a trusted authority.
    chain::check_time(file, &certificates)?;
    let authorities = Authorities::only(&certificates).map_err(|fault| {
        format!("{file}: {fault}; give the certificates of your clients' authorities")
    })?;
    let builder =
        WebPkiClientVerifier::builder_with_provider(authorities.roots(), Arc::clone(provider));
    let builder = if is_required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| format!("{file} is not usable: {error}"))
}

/// Message for a key or certificate that rustls refuses.
fn unusable_message(settings: &ServerTlsSettings, error: &Error) -> String {
    let (certificates, key) = (&settings.certificates, &settings.key);
    match error {
        Error::InconsistentKeys(_) => format!(
            "{key} is not the key of the first certificate in {certificates}; give a matching \
             pair, with the server's own certificate first"
        ),
        other => format!(
            "{certificates} and {key} cannot be served: {other}; give an RSA, ECDSA or Ed25519 key \
             and a matching certificate"
        ),
    }
}
