//! Verifiers of a server's certificate that check more or less than the default rules. The
//! signature of the handshake is always verified, so the server must hold the certificate's key.

use crate::authorities::Authorities;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use std::error;
use std::fmt;
use std::sync::Arc;

/// The default rules for authorities that have not ended.
#[derive(Debug)]
pub(crate) struct DatedVerifier {
    authorities: Authorities,
    provider: Arc<CryptoProvider>,
    /// The default rules for all authorities, including ended authorities.
    all: Arc<WebPkiServerVerifier>,
}

/// The error for a certificate of an authority that has ended.
#[derive(Debug)]
pub(crate) struct EndedAuthority;

impl DatedVerifier {
    /// Creates the verifier. `None` if there are no authorities.
    pub(crate) fn new(authorities: Authorities, provider: &Arc<CryptoProvider>) -> Option<Self> {
        let (roots, provider) = (authorities.roots(), Arc::clone(provider));
        let all = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
        Some(Self { authorities, all: all.build().ok()?, provider })
    }

    /// Returns the rules for the authorities that are valid at `now`; `None` if there are none.
    fn rules_at(&self, now: UnixTime) -> Option<Arc<WebPkiServerVerifier>> {
        if self.authorities.are_all_valid(now) {
            return Some(Arc::clone(&self.all));
        }
        let (roots, provider) = (self.authorities.valid_roots(now), Arc::clone(&self.provider));
        WebPkiServerVerifier::builder_with_provider(roots, provider).build().ok()
    }
}

impl ServerCertVerifier for DatedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verify = |rules: &WebPkiServerVerifier| {
            rules.verify_server_cert(end_entity, intermediates, name, stapled, now)
        };
        let verified = match self.rules_at(now) {
            Some(rules) => verify(&rules),
            None => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
        };
        if !is_unknown(&verified) || is_unknown(&verify(&self.all)) {
            return verified;
        }
        let ended = OtherError(Arc::new(EndedAuthority));
        Err(Error::InvalidCertificate(CertificateError::Other(ended)))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.all.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.all.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.all.supported_verify_schemes()
    }
}

fn is_unknown(verified: &Result<ServerCertVerified, Error>) -> bool {
    matches!(verified, Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)))
}

impl fmt::Display for EndedAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the authority of the certificate has ended")
    }
}

impl error::Error for EndedAuthority {}

/// A verifier that accepts every certificate.
#[derive(Debug)]
pub(crate) struct AnyCertificateVerifier(pub(crate) Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificateVerifier {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A verifier that accepts every certificate with a valid chain, for any name.
#[derive(Debug)]
pub(crate) struct AnyNameVerifier(pub(crate) DatedVerifier);

impl ServerCertVerifier for AnyNameVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The verifier checks the name last, after the chain.
        match self.0.verify_server_cert(end_entity, intermediates, name, stapled, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
