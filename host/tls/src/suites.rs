//! Cipher suites by their registered names.

use crate::versions::TlsVersion;
use rustls::crypto::aws_lc_rs;
use rustls::{CipherSuite, SupportedCipherSuite};

/// A supported cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsSuite {
    id: CipherSuite,
    /// The version to which the suite belongs.
    pub version: TlsVersion,
}

/// Allowed suites. A version without a suite in the list allows all its suites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedSuites(Vec<TlsSuite>);

impl TlsSuite {
    fn of(suite: SupportedCipherSuite) -> Self {
        let version = match suite.tls13() {
            Some(_) => TlsVersion::Tls13,
            None => TlsVersion::Tls12,
        };
        Self { id: suite.suite(), version }
    }

    /// Returns the suite with that registered name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::supported().find(|suite| suite.registered_name() == name)
    }

    /// Returns the registered names of all suites, for error messages.
    #[must_use]
    pub fn names() -> Vec<String> {
        Self::supported().map(Self::registered_name).collect()
    }

    fn supported() -> impl Iterator<Item = Self> {
        aws_lc_rs::ALL_CIPHER_SUITES.iter().copied().map(Self::of)
    }

    /// Returns the registered name. rustls writes TLS 1.3 suites with the prefix `TLS13_`.
    fn registered_name(self) -> String {
        self.id.as_str().map(|name| name.replacen("TLS13_", "TLS_", 1)).unwrap_or_default()
    }
}

impl AllowedSuites {
    /// Allows `suites`, and all suites of a version without a suite in `suites`.
    #[must_use]
    pub fn new(suites: Vec<TlsSuite>) -> Self {
        Self(suites)
    }

    pub(crate) fn includes(&self, suite: SupportedCipherSuite) -> bool {
        let suite = TlsSuite::of(suite);
        self.0.contains(&suite) || self.0.iter().all(|named| named.version != suite.version)
    }
}
