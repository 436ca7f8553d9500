//! Configuration of a client's connections: the verification of the server, and the client's
//! certificate.

use crate::authorities::Authorities;
use crate::files::NamedFile;
use crate::pem::{self, PemFault};
use crate::verifiers::{AnyCertificateVerifier, AnyNameVerifier, DatedVerifier};
use crate::versions::VersionRange;
use rustls::Error;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::fmt;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The checks of a server's certificate.
#[derive(Clone, Debug)]
pub enum PeerVerification {
    /// The certificate has a chain to an authority, is valid now as the authority is, and bears the
    /// server's name.
    Full(Authorities),
    /// The same without the name.
    AnyName(Authorities),
    /// None. The server must still hold the certificate's key.
    AnyCertificate,
}

/// A client's certificate with its chain, and its key. `Debug` does not show the key.
#[derive(Debug)]
pub struct ClientIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Settings of a client's connections.
#[derive(Debug)]
pub struct ClientSettings {
    /// The checks of the server's certificate.
    pub verification: PeerVerification,
    /// Shown to servers that request a certificate.
    pub identity: Option<ClientIdentity>,
    /// Offered versions.
    pub versions: VersionRange,
    /// Application protocols (ALPN) from which the server chooses. Empty: no ALPN.
    pub protocols: Vec<&'static [u8]>,
}

/// The reason why settings of a client are not usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientConfigFault {
    /// The certificate and the key do not belong together.
    OtherKey,
    /// The certificate or the key is of a kind that TLS does not use.
    Identity(String),
    /// The authorities are not usable, for example because there are none.
    Authorities,
    /// TLS does not start.
    Library(String),
}

/// Opens TLS connections to servers. Cheap to clone.
#[derive(Clone)]
pub struct TlsClient(TlsConnector);

impl ClientIdentity {
    /// Reads the files of a certificate and its key.
    ///
    /// # Errors
    /// The file that is not usable, the reason and the remedy.
    pub fn read(certificates: &NamedFile, key: &NamedFile) -> Result<Self, String> {
        Ok(Self { chain: certificates.certificates()?, key: key.private_key()? })
    }

    /// Reads the PEM texts of a certificate and its key. `names` are the names of both texts for
    /// messages, which never quote the texts.
    ///
    /// # Errors
    /// The text that is not usable, the reason and the remedy.
    pub fn parse(certificates: &[u8], key: &[u8], names: [&str; 2]) -> Result<Self, String> {
        let named = |name: &str| {
            let name = name.to_owned();
            move |fault: PemFault| format!("{name} {fault}")
        };
        let [of_chain, of_key] = names.map(named);
        let chain = pem::certificates(certificates).map_err(of_chain)?;
        Ok(Self { chain, key: pem::private_key(key).map_err(of_key)? })
    }
}

impl ClientSettings {
    /// Settings with this verification, all versions, no certificate and no application protocol.
    #[must_use]
    pub fn new(verification: PeerVerification) -> Self {
        let versions = VersionRange::ALL;
        Self { verification, identity: None, versions, protocols: Vec::new() }
    }

    /// Builds a client with these settings.
    ///
    /// # Errors
    /// The reason why the settings are not usable.
    pub fn client(self) -> Result<TlsClient, ClientConfigFault> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = verifier(&self.verification, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.versions.protocols())
            .map_err(|error| ClientConfigFault::Library(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match self.identity {
            Some(ClientIdentity { chain, key }) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| ClientConfigFault::of_identity(&error))?,
            None => builder.with_no_client_auth(),
        };
        // No session resumption: connections share no state.
        config.resumption = Resumption::disabled();
        config.alpn_protocols = self.protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(TlsClient(TlsConnector::from(Arc::new(config))))
    }
}

fn verifier(
    verification: &PeerVerification,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, ClientConfigFault> {
    let chains = |authorities: &Authorities| {
        DatedVerifier::new(authorities.clone(), provider).ok_or(ClientConfigFault::Authorities)
    };
    Ok(match verification {
        PeerVerification::Full(authorities) => Arc::new(chains(authorities)?),
        PeerVerification::AnyName(authorities) => Arc::new(AnyNameVerifier(chains(authorities)?)),
        PeerVerification::AnyCertificate => Arc::new(AnyCertificateVerifier(Arc::clone(provider))),
    })
}

impl TlsClient {
    /// Performs the handshake with a server that must prove `name`.
    ///
    /// # Errors
    /// The failure of the handshake; see [`crate::TlsFault::find`].
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        name: ServerName<'static>,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        self.0.connect(name, stream).await
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsClient")
    }
}

impl ClientConfigFault {
    fn of_identity(error: &Error) -> Self {
        match error {
            Error::InconsistentKeys(_) => Self::OtherKey,
            other => Self::Identity(other.to_string()),
        }
    }
}

impl fmt::Display for ClientConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherKey => f.write_str(
                "the client key is not the key of the client certificate; give a matching pair",
            ),
            Self::Identity(error) => write!(
                f,
                "the client certificate and key are not usable: {error}; give an RSA, ECDSA or \
                 Ed25519 key and a matching certificate"
            ),
            Self::Authorities => f.write_str("no certificate is trusted"),
            Self::Library(error) => write!(f, "TLS does not start: {error}"),
        }
    }
}
