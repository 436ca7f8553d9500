//! What an operator says about TLS, in the names of the configuration.

use rustls::crypto::aws_lc_rs;
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion, version};
use std::path::PathBuf;

/// A version of TLS. Older ones are broken, and are not there (decision D2).
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

    /// As the configuration writes it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Tls12 => "tls12",
            Self::Tls13 => "tls13",
        }
    }
}

/// Whether clients show certificates, and the file of the authorities that sign those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    /// They are not asked.
    NotAsked,
    /// They are asked; one that is shown has to hold.
    Optional(PathBuf),
    /// Without one there is no connection.
    Required(PathBuf),
}

/// TLS of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    /// The server's certificate and those above it.
    pub(crate) cert_file: PathBuf,
    /// Its private key.
    pub(crate) key_file: PathBuf,
    /// The least version.
    pub(crate) min_version: TlsVersion,
    /// The greatest version.
    pub(crate) max_version: TlsVersion,
    /// The only suites of the versions that they belong to; a version of which there is none here
    /// has all of its own.
    pub(crate) cipher_suites: Vec<CipherSuite>,
    /// Whether clients show certificates.
    pub(crate) clients: ClientCertificates,
}

impl TlsSettings {
    /// TLS with these files and nothing else said.
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

    /// The file of those who sign clients' certificates.
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
            known().any(|known| known.suite() == *asked && TlsVersion::of(known) == version)
        };
        self.cipher_suites.contains(&suite.suite()) || !self.cipher_suites.iter().any(is_chosen)
    }
}

fn known() -> impl Iterator<Item = SupportedCipherSuite> {
    aws_lc_rs::ALL_CIPHER_SUITES.iter().copied()
}

/// The suite of that registered name, with its version of TLS.
pub(crate) fn suite(name: &str) -> Option<(CipherSuite, TlsVersion)> {
    let found = known().find(|suite| registered(suite.suite()) == name)?;
    Some((found.suite(), TlsVersion::of(found)))
}

/// The registered names of all suites, for advice.
pub(crate) fn known_suites() -> Vec<String> {
    known().map(|suite| registered(suite.suite())).collect()
}

/// rustls marks the suites of TLS 1.3 in their names.
fn registered(suite: CipherSuite) -> String {
    suite.as_str().map(|name| name.replacen("TLS13_", "TLS_", 1)).unwrap_or_default()
}
