//! TLS to other servers: whom a connection trusts, and who it is.
//!
//! The public roots with those of the server's configuration, or those that were given alone;
//! versions 1.2 and 1.3. Nothing is taken from the host's own certificates.

mod configs;

use crate::grants::Host;
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

pub(crate) use configs::TlsConfigs;

/// Every version that is spoken.
const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// Whom a connection trusts, and who it is.
pub(crate) struct Trust<'a> {
    /// PEM; `None`: the public roots, and those besides.
    pub(crate) root_certificates: Option<&'a str>,
    /// PEM, with its key.
    pub(crate) client_certificate: Option<&'a str>,
    /// PEM.
    pub(crate) client_key: Option<&'a str>,
    /// What is offered.
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    /// Any certificate is taken, for any name. That its key is the peer's is checked all the same.
    pub(crate) insecure: bool,
    /// A certificate of an authority that is trusted is taken for any name.
    pub(crate) any_name: bool,
    /// What is to be spoken, of which the server chooses; empty: that is not talked about.
    pub(crate) protocols: &'static [&'static [u8]],
}

impl Default for Trust<'_> {
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

/// The name that a certificate must bear: the host's own, or another that is asked for.
///
/// # Errors
/// Why there is none.
pub(crate) fn server_name(host: &Host, named: Option<&str>) -> Result<ServerName<'static>, String> {
    let host = match named {
        Some(name) => {
            Host::parse(name).ok_or_else(|| "tls.server-name is no name of a host".to_owned())?
        }
        None => host.clone(),
    };
    match host {
        Host::Address(address) => Ok(ServerName::from(address)),
        Host::Name(name) => {
            ServerName::try_from(name).map_err(|_| "no certificate can bear that name".to_owned())
        }
    }
}

/// How connections of that trust are secured. `authorities` are trusted besides the public ones,
/// each of them read before as an authority's.
///
/// # Errors
/// What is wrong with the settings; no certificate or key is quoted.
fn client_config(
    trust: &Trust<'_>,
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
    // No connection remembers another.
    config.resumption = Resumption::disabled();
    config.alpn_protocols = trust.protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

/// What looks at certificates in place of the usual rules.
fn verifier(
    trust: &Trust<'_>,
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ServerCertVerifier>>, String> {
    if trust.insecure {
        return Ok(Some(Arc::new(Anybody(Arc::clone(provider)))));
    }
    if !trust.any_name {
        return Ok(None);
    }
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), provider.clone());
    let chains = chains.build().map_err(|_| "no certificate is trusted".to_owned())?;
    Ok(Some(Arc::new(AnyName(chains))))
}

/// What is offered between two versions, by their words `tls12` and `tls13`; empty: no bound.
///
/// # Errors
/// Which word is none, and why.
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

/// The authorities that were given alone; without them, the public ones, and those besides.
///
/// # Errors
/// What is wrong with the text.
fn roots(
    trust: &Trust<'_>,
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
            .map_err(|_| "tls.root-certificates holds one that is no authority's".to_owned())?;
    }
    Ok(roots)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(trust: &Trust<'_>) -> Result<Option<Identity>, String> {
    match (trust.client_certificate, trust.client_key) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => {
            let chain = certificates("tls.client-certificate", chain)?;
            let key = PrivateKeyDer::from_pem_slice(check_length("tls.client-key", key)?);
            Ok(Some((
                chain,
                key.map_err(|_| "tls.client-key is no private key in PEM".to_owned())?,
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

/// Takes every certificate.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
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

/// Takes every certificate whose chain holds.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The name is what it looks at last.
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
