//! TLS settings of a listener, with the names of the configuration.

use rustls::crypto::aws_lc_rs;
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion, version};
use std::path::PathBuf;

/// A version of TLS. Older versions are broken and not supported (decision D2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl TlsVersion {
    fn of(suite: SupportedCipherSuite) -> Self {
        if suite.tls13().is_some() { Self::Tls13 } else { Self::Tls12 }
    }

    /// Returns the name in the configuration.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Tls12 => "tls12",
            Self::Tls13 => "tls13",
        }
    }
}

/// The policy for client certificates, with the file of the authorities that sign them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    /// Not requested.
    NotAsked,
    /// Requested; a presented certificate has to be valid.
    Optional(PathBuf),
    /// Required.
    Required(PathBuf),
}

/// TLS of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    /// File with the server's certificate and its chain.
    pub(crate) cert_file: PathBuf,
    /// File with the private key.
    pub(crate) key_file: PathBuf,
    /// Minimum version.
    pub(crate) min_version: TlsVersion,
    /// Maximum version.
    pub(crate) max_version: TlsVersion,
    /// Allowed suites. A version without a suite in this list allows all its suites.
    pub(crate) cipher_suites: Vec<CipherSuite>,
    /// Policy for client certificates.
    pub(crate) clients: ClientCertificates,
}

impl TlsSettings {
    /// Settings with these files and defaults for the rest.
    pub(crate) fn of(cert_file: PathBuf, key_file: PathBuf) -> Self {
        Self {
            cert_file,
            key_file,
            min_version: TlsVersion::Tls12,
            max_version: TlsVersion::Tls13,
            cipher_suites: Vec::new(),
            clients: ClientCertificates::NotAsked,
        }
    }

    /// Returns the file of the authorities that sign client certificates.
    pub(crate) fn client_ca_file(&self) -> Option<&PathBuf> {
        match &self.clients {
            ClientCertificates::NotAsked => None,
            ClientCertificates::Optional(file) | ClientCertificates::Required(file) => Some(file),
        }
    }

    pub(super) fn protocol_versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        [(TlsVersion::Tls13, &version::TLS13), (TlsVersion::Tls12, &version::TLS12)]
            .into_iter()
            .filter(|(version, _)| (self.min_version..=self.max_version).contains(version))
            .map(|(_, version)| version)
            .collect()
    }

    pub(super) fn admits(&self, suite: SupportedCipherSuite) -> bool {
        let version = TlsVersion::of(suite);
        let is_chosen = |asked: &CipherSuite| {
            supported_suites()
                .any(|known| known.suite() == *asked && TlsVersion::of(known) == version)
        };
        self.cipher_suites.contains(&suite.suite()) || !self.cipher_suites.iter().any(is_chosen)
    }
}

fn supported_suites() -> impl Iterator<Item = SupportedCipherSuite> {
    aws_lc_rs::ALL_CIPHER_SUITES.iter().copied()
}

/// Returns the suite with that registered name, and its TLS version.
pub(crate) fn find_suite(name: &str) -> Option<(CipherSuite, TlsVersion)> {
    let found = supported_suites().find(|suite| registered(suite.suite()) == name)?;
    Some((found.suite(), TlsVersion::of(found)))
}

/// Returns the registered names of all suites, for error messages.
pub(crate) fn known_suites() -> Vec<String> {
    supported_suites().map(|suite| registered(suite.suite())).collect()
}

/// Returns the registered name. rustls writes TLS 1.3 suites with the prefix `TLS13_`.
fn registered(suite: CipherSuite) -> String {
    suite.as_str().map(|name| name.replacen("TLS13_", "TLS_", 1)).unwrap_or_default()
}
