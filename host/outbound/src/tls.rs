//! TLS to other servers: trusted authorities and client certificates.
//!
//! A connection trusts either the given authorities alone, or the public authorities and the
//! authorities of the server's configuration. Versions are TLS 1.2 and 1.3. The certificate store
//! of the operating system is never used.

mod configs;

use crate::addresses::ServerHost;
use crate::limits;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};
use std::sync::Arc;

pub use configs::TlsConfigs;

/// Supported versions.
const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// The trusted authorities and the client identity of a connection.
pub(crate) struct TrustSettings<'a> {
    /// PEM. `None`: the public authorities and the operator's authorities.
    pub(crate) root_certificates: Option<&'a str>,
    /// PEM; requires `client_key`.
    pub(crate) client_certificate: Option<&'a str>,
    /// PEM.
    pub(crate) client_key: Option<&'a str>,
    /// Offered versions.
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    /// Accepts any certificate for any name. The peer must still prove possession of the key.
    pub(crate) insecure: bool,
    /// Accepts a certificate of a trusted authority for any name.
    pub(crate) any_name: bool,
    /// Application protocols (ALPN) from which the server chooses. Empty: no ALPN.
    pub(crate) protocols: &'static [&'static [u8]],
}

impl Default for TrustSettings<'_> {
    fn default() -> Self {
        Self {
            root_certificates: None,
            client_certificate: None,
            client_key: None,
            versions: VERSIONS.to_vec(),
            insecure: false,
            any_name: false,
            protocols: &[],
        }
    }
}

/// Returns the name that the certificate must bear: `named`, or else the host.
///
/// # Errors
/// No certificate can bear the name.
pub(crate) fn server_name(
    host: &ServerHost,
    named: Option<&str>,
) -> Result<ServerName<'static>, String> {
    let host = match named {
        Some(name) => ServerHost::parse(name)
            .ok_or_else(|| "tls.server-name is not a name of a host".to_owned())?,
        None => host.clone(),
    };
    match host {
        ServerHost::Address(address) => Ok(ServerName::from(address)),
        ServerHost::Name(name) => {
            ServerName::try_from(name).map_err(|_| "no certificate can bear that name".to_owned())
        }
    }
}

/// Builds the TLS settings of connections. `authorities` are trusted in addition to the public
/// authorities, and are already checked.
///
/// # Errors
/// The fault of the settings, without quoting a certificate or key.
fn client_config(
    trust: &TrustSettings<'_>,
    authorities: &[CertificateDer<'static>],
) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let roots = Arc::new(roots(trust, authorities)?);
    let verifier = verifier(trust, &roots, &provider)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&trust.versions)
        .map_err(|error| format!("the host's TLS does not start: {error}"))?
        .with_root_certificates(roots);
    let mut config = match identity(trust)? {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).map_err(|_| {
            "tls.client-certificate and tls.client-key do not belong together".to_owned()
        })?,
        None => config.with_no_client_auth(),
    };
    if let Some(verifier) = verifier {
        config.dangerous().set_certificate_verifier(verifier);
    }
    // No session resumption: connections share no state.
    config.resumption = Resumption::disabled();
    config.alpn_protocols = trust.protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

/// Returns the certificate verifier that replaces the default rules, if any.
fn verifier(
    trust: &TrustSettings<'_>,
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ServerCertVerifier>>, String> {
    if trust.insecure {
        return Ok(Some(Arc::new(AnyCertificateVerifier(Arc::clone(provider)))));
    }
    if !trust.any_name {
        return Ok(None);
    }
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), provider.clone());
    let chains = chains.build().map_err(|_| "no certificate is trusted".to_owned())?;
    Ok(Some(Arc::new(AnyNameVerifier(chains))))
}

/// Returns the versions from `least` to `most`, as `tls12` or `tls13`. Empty: no bound.
///
/// # Errors
/// The fault of a version or of the range.
pub(crate) fn versions(
    least: &str,
    most: &str,
) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let (least, most) = (version(least, 2)?, version(most, 3)?);
    let offered = [(3, &TLS13), (2, &TLS12)].into_iter();
    let offered: Vec<_> = offered
        .filter(|(number, _)| (least..=most).contains(number))
        .map(|(_, version)| version)
        .collect();
    match offered.is_empty() {
        true => Err("tls.min-version is above tls.max-version".to_owned()),
        false => Ok(offered),
    }
}

fn version(word: &str, usual: u8) -> Result<u8, String> {
    match word {
        "" => Ok(usual),
        "tls12" => Ok(2),
        "tls13" => Ok(3),
        "tls10" | "tls11" => {
            Err("TLS 1.0 and 1.1 are broken and not spoken; use tls12 or tls13".to_owned())
        }
        _ => Err("a version of TLS is tls12 or tls13".to_owned()),
    }
}

/// Returns the given authorities alone, or else the public authorities and the operator's
/// authorities.
///
/// # Errors
/// The fault of the PEM text.
fn roots(
    trust: &TrustSettings<'_>,
    authorities: &[CertificateDer<'static>],
) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(pem) = trust.root_certificates else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        roots.add_parsable_certificates(authorities.iter().cloned());
        return Ok(roots);
    };
    for certificate in certificates("tls.root-certificates", pem)? {
        roots
            .add(certificate)
            .map_err(|_| "tls.root-certificates holds one that is not an authority's".to_owned())?;
    }
    Ok(roots)
}

type ClientIdentity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(trust: &TrustSettings<'_>) -> Result<Option<ClientIdentity>, String> {
    match (trust.client_certificate, trust.client_key) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => {
            let chain = certificates("tls.client-certificate", chain)?;
            let key = PrivateKeyDer::from_pem_slice(check_length("tls.client-key", key)?);
            Ok(Some((
                chain,
                key.map_err(|_| "tls.client-key is not a private key in PEM".to_owned())?,
            )))
        }
        _ => {
            Err("tls.client-certificate and tls.client-key are given together, or neither"
                .to_owned())
        }
    }
}

fn certificates(what: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(check_length(what, pem)?).collect();
    let read = read.map_err(|_| format!("{what} is not PEM"))?;
    if read.is_empty() {
        return Err(format!("{what} holds no certificate"));
    }
    Ok(read)
}

fn check_length<'a>(what: &str, pem: &'a str) -> Result<&'a [u8], String> {
    if pem.len() > limits::PEM_BYTES {
        return Err(format!("{what} is longer than 64 KiB"));
    }
    Ok(pem.as_bytes())
}

/// A verifier that accepts every certificate.
#[derive(Debug)]
struct AnyCertificateVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificateVerifier {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A verifier that accepts every certificate with a valid chain, for any name.
#[derive(Debug)]
struct AnyNameVerifier(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyNameVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The verifier checks the name last, after the chain.
        match self.0.verify_server_cert(end_entity, intermediates, name, stapled, now) {
            Err(rustls::Error::InvalidCertificate(
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
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
