//! Verification of a certificate chain up to a given root.
//!
//! The attack this file prevents: a chain constructed to make the search for a path endless. The
//! library limits the search, and this file limits the number of certificates.

use crate::limits;
use crate::x509::parse_ders;
use bulkhead_wire::failure::{Failure, quoted};
use rustls_pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage};

/// A certificate chain, and the conditions for its verification.
pub struct ChainVerification<'a> {
    /// The certificate in PEM, followed by any intermediate certificates.
    pub certificates: &'a str,
    /// Trusted roots in PEM. The chain must end in any of these roots; no system roots are used.
    pub roots: &'a str,
    /// Required usage of the certificate.
    pub usage: CertificateUsage,
    /// Required name or address in the certificate; empty for any.
    pub name: &'a str,
    /// Time of the verification, in milliseconds since 1970.
    pub now: u64,
}

/// The purpose of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateUsage {
    /// Client authentication.
    ClientAuth,
    /// Server authentication.
    ServerAuth,
}

impl std::str::FromStr for CertificateUsage {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        match text {
            "client-auth" => Ok(Self::ClientAuth),
            "server-auth" => Ok(Self::ServerAuth),
            other => {
                let usage = quoted(other);
                Err(Failure::invalid(format!("{usage} is neither client-auth nor server-auth")))
            }
        }
    }
}

impl ChainVerification<'_> {
    /// Verifies the certificate. Revocation lists are not checked.
    ///
    /// # Errors
    /// Invalid request for unreadable input; permission denied for a chain that does not verify.
    pub fn verify(&self) -> Result<(), Failure> {
        let certificates = owned("the certificates", self.certificates, limits::CHAIN + 1)?;
        let roots = owned("the roots", self.roots, limits::ROOTS)?;
        let anchors: Result<Vec<TrustAnchor<'_>>, _> =
            roots.iter().map(webpki::anchor_from_trusted_cert).collect();
        let anchors =
            anchors.map_err(|_| Failure::invalid("a root is not an X.509 certificate"))?;
        let Some((first, between)) = certificates.split_first() else {
            return Err(Failure::invalid("there is no certificate"));
        };
        let leaf = EndEntityCert::try_from(first).map_err(|error| {
            Failure::invalid(format!("the certificate cannot be used: {error}"))
        })?;
        let usage = match self.usage {
            CertificateUsage::ClientAuth => KeyUsage::client_auth(),
            CertificateUsage::ServerAuth => KeyUsage::server_auth(),
        };
        let now = UnixTime::since_unix_epoch(Duration::from_millis(self.now));
        let algorithms = webpki::ALL_VERIFICATION_ALGS;
        leaf.verify_for_usage(algorithms, &anchors, between, now, usage, None, None)
            .map_err(|error| trust_failure(&error))?;
        if self.name.is_empty() {
            return Ok(());
        }
        let name = ServerName::try_from(self.name).map_err(|_| {
            let name = quoted(self.name);
            Failure::invalid(format!("{name} is not a possible name in a certificate"))
        })?;
        leaf.verify_is_valid_for_subject_name(&name).map_err(|error| trust_failure(&error))
    }
}

fn owned(what: &str, text: &str, most: usize) -> Result<Vec<CertificateDer<'static>>, Failure> {
    Ok(parse_ders(what, text, most)?.into_iter().map(CertificateDer::from).collect())
}

fn trust_failure(error: &webpki::Error) -> Failure {
    Failure::denied(format!("the certificate is not believed: {error}"))
}
