//! TLS to the server: trusted authorities, and the client's certificate.
//!
//! Prevents a token from going to the wrong server. An invalid certificate ends the connection
//! before anything is sent, unless `skip_verify` is set, which prints a warning on every run.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};
use std::error;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// Maximum number of bytes read from a file.
const FILE_MAX: u64 = 1 << 20;

/// The TLS settings of a client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TlsTrust {
    /// File of the trusted authorities, instead of the public authorities.
    pub(crate) ca_file: Option<PathBuf>,
    /// Folder of such files; ignored if `ca_file` is set.
    pub(crate) ca_folder: Option<PathBuf>,
    /// File with the client's certificate and its chain.
    pub(crate) client_certificate: Option<PathBuf>,
    /// File with the client's private key.
    pub(crate) client_key: Option<PathBuf>,
    /// Expected name in the server's certificate, if different from the host of the address.
    pub(crate) server_name: Option<String>,
    /// Accept any certificate.
    pub(crate) skip_verify: bool,
}

impl TlsTrust {
    /// Builds a connector with these settings.
    ///
    /// # Errors
    /// An unusable file, with the remedy.
    pub(crate) fn connector(&self) -> Result<TlsConnector, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be spoken: {error}"))?;
        let builder = if self.skip_verify {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptAnyVerifier(provider)))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let config = match self.client_identity()? {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
                format!(
                    "the client certificate and its key do not fit: {error}; \
                     give the two that were made together"
                )
            })?,
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// Returns the expected name in the certificate of the server at `host`.
    ///
    /// # Errors
    /// An invalid name.
    pub(crate) fn name_of(&self, host: &str) -> Result<ServerName<'static>, String> {
        let name = self.server_name.as_deref().unwrap_or(host).trim_matches(['[', ']']);
        ServerName::try_from(name.to_owned()).map_err(|_| {
            format!("{name:?} is neither a host name nor an address; set -tls-server-name")
        })
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        let files = match (&self.ca_file, &self.ca_folder) {
            (Some(file), _) => vec![file.clone()],
            (None, Some(folder)) => files_of(folder)?,
            (None, None) => {
                roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
                return Ok(roots);
            }
        };
        for file in &files {
            let found = certificates(file)?;
            // A folder may hold other files.
            if found.is_empty() && self.ca_file.is_some() {
                return Err(no_certificate(file));
            }
            for certificate in found {
                roots.add(certificate).map_err(|error| {
                    format!(
                        "{} has a certificate that is not an authority's: {error}",
                        file.display()
                    )
                })?;
            }
        }
        match &self.ca_folder {
            Some(folder) if roots.is_empty() => Err(no_certificate(folder)),
            _ => Ok(roots),
        }
    }

    fn client_identity(
        &self,
    ) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, String> {
        match (&self.client_certificate, &self.client_key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                let chain = certificates(certificate)?;
                if chain.is_empty() {
                    return Err(no_certificate(certificate));
                }
                Ok(Some((chain, private_key(key)?)))
            }
            (Some(_), None) => {
                Err("a client certificate needs its key; set BULKHEAD_CLIENT_KEY or -client-key"
                    .to_owned())
            }
            (None, Some(_)) => {
                Err("a client key needs its certificate; set BULKHEAD_CLIENT_CERT or -client-cert"
                    .to_owned())
            }
        }
    }
}

/// Returns advice about a failed connection if TLS caused the failure.
pub(crate) fn advice(error: &(dyn error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<Error>() {
            return Some(describe(found));
        }
        cause = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn describe(error: &Error) -> String {
    use CertificateError as Wrong;
    match error {
        Error::InvalidCertificate(
            Wrong::NotValidForName | Wrong::NotValidForNameContext { .. },
        ) => {
            "its certificate is for another name; write the name that it is for into the address, \
             or set BULKHEAD_TLS_SERVER_NAME or -tls-server-name"
                .to_owned()
        }
        Error::InvalidCertificate(Wrong::UnknownIssuer) => {
            "its certificate is of an authority that is not believed here; \
             set BULKHEAD_CACERT or -ca-cert to the authority's certificate"
                .to_owned()
        }
        Error::InvalidCertificate(Wrong::Expired | Wrong::ExpiredContext { .. }) => {
            "its certificate has expired; renew it on the server, or check this machine's clock"
                .to_owned()
        }
        Error::InvalidCertificate(Wrong::NotValidYet | Wrong::NotValidYetContext { .. }) => {
            "its certificate is not valid yet; check this machine's clock".to_owned()
        }
        Error::InvalidMessage(_) => {
            "it does not speak TLS; write http:// in place of https:// if nobody is in between"
                .to_owned()
        }
        Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure,
        ) => "it requires a client certificate; set BULKHEAD_CLIENT_CERT and BULKHEAD_CLIENT_KEY"
            .to_owned(),
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::DecryptError,
        ) => "it rejects your certificate; set BULKHEAD_CLIENT_CERT and BULKHEAD_CLIENT_KEY to a \
              certificate of its client authority and the key"
            .to_owned(),
        other => format!("TLS failed: {other}"),
    }
}

fn no_certificate(file: &Path) -> String {
    format!("{} holds no certificate; give a PEM file with BEGIN CERTIFICATE in it", file.display())
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| format!("cannot read the folder {}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        // `is_file` follows symbolic links.
        if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let (text, _) = read(file)?;
    CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|_| format!("{} is not a complete PEM file; create it again", file.display()))
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let (text, mode) = read(file)?;
    let shown = file.display();
    if mode & 0o007 != 0 {
        return Err(format!(
            "{shown} may be read by others (mode {:04o}); its key may be known: \
             replace it, then run chmod 600 {shown}",
            mode & 0o7777
        ));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => format!(
            "{shown} holds no private key in the clear; \
             give a PEM file with BEGIN PRIVATE KEY in it"
        ),
        _ => format!("{shown} is not a complete PEM file; create it again"),
    })
}

/// Reads a file and its mode.
fn read(file: &Path) -> Result<(Vec<u8>, u32), String> {
    let unreadable = |error: io::Error| format!("cannot read {}: {error}", file.display());
    let opened = File::open(file).map_err(unreadable)?;
    let mode = opened.metadata().map_err(unreadable)?.permissions().mode();
    let mut text = Vec::new();
    opened.take(FILE_MAX).read_to_end(&mut text).map_err(unreadable)?;
    Ok((text, mode))
}

/// A verifier that accepts every certificate. Signatures are still verified, so that the server
/// must hold the certificate's key.
#[derive(Debug)]
struct AcceptAnyVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
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
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(trust: TlsTrust) -> String {
        trust.connector().err().expect("the TLS settings are refused")
    }

    #[test]
    fn files_that_cannot_be_used_are_refused_with_what_to_do() {
        let file = std::env::temp_dir().join(format!("bulkhead-cli-tls-{}", std::process::id()));
        std::fs::write(&file, "nothing").unwrap();
        let path = || Some(file.clone());
        let empty = problem(TlsTrust { ca_file: path(), ..TlsTrust::default() });
        assert!(empty.contains("holds no certificate"), "{empty}");
        let nowhere = Some(PathBuf::from("/nonexistent/ca.pem"));
        let absent = problem(TlsTrust { ca_file: nowhere.clone(), ..TlsTrust::default() });
        assert!(absent.starts_with("cannot read /nonexistent/ca.pem: "), "{absent}");
        let absent = problem(TlsTrust { ca_folder: nowhere, ..TlsTrust::default() });
        assert!(absent.starts_with("cannot read the folder"), "{absent}");
        let half = problem(TlsTrust { client_certificate: path(), ..TlsTrust::default() });
        assert!(half.contains("-client-key"), "{half}");
        let half = problem(TlsTrust { client_key: path(), ..TlsTrust::default() });
        assert!(half.contains("-client-cert"), "{half}");
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn the_name_is_the_addresss_unless_another_one_is_set() {
        let name =
            |trust: &TlsTrust, host| trust.name_of(host).map(|name| name.to_str().into_owned());
        assert_eq!(name(&TlsTrust::default(), "[::1]"), Ok("::1".to_owned()));
        let trust = TlsTrust { server_name: Some("a.example".to_owned()), ..TlsTrust::default() };
        assert_eq!(name(&trust, "127.0.0.1"), Ok("a.example".to_owned()));
        assert!(name(&TlsTrust::default(), "a b").unwrap_err().contains("-tls-server-name"));
    }
}
