//! TLS to the server: trusted authorities, the client's certificate, and advice after a failure.
//!
//! This file prevents a token from going to the wrong server. An invalid certificate ends the
//! connection before anything is sent, unless `skip_verify` is set, which prints a warning on every
//! run.

use bulkhead_tls::pem::PemFault;
use bulkhead_tls::{
    Authorities, CertificateDer, ClientIdentity, ClientSettings, NamedFile, PeerVerification,
    ServerName, TlsClient, TlsFailure, TlsFault, server_name,
};
use std::error;
use std::path::{Path, PathBuf};

/// Names of the settings, for messages.
const CA_FILE: &str = "-ca-cert (BULKHEAD_CACERT)";
const CA_FOLDER: &str = "-ca-path (BULKHEAD_CAPATH)";
const CLIENT_CERTIFICATE: &str = "-client-cert (BULKHEAD_CLIENT_CERT)";
const CLIENT_KEY: &str = "-client-key (BULKHEAD_CLIENT_KEY)";

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
    /// Builds a client with these settings.
    ///
    /// # Errors
    /// An unusable file, with the remedy.
    pub(crate) fn client(&self) -> Result<TlsClient, String> {
        let verification = match self.skip_verify {
            true => PeerVerification::AnyCertificate,
            false => PeerVerification::Full(self.authorities()?),
        };
        let settings = ClientSettings::new(verification);
        let settings = ClientSettings { identity: self.identity()?, ..settings };
        settings.client().map_err(|fault| fault.to_string())
    }

    /// Returns the expected name in the certificate of the server at `host`.
    ///
    /// # Errors
    /// An invalid name.
    pub(crate) fn name_of(&self, host: &str) -> Result<ServerName<'static>, String> {
        server_name(self.server_name.as_deref().unwrap_or(host))
            .map_err(|fault| format!("{fault}; set -tls-server-name"))
    }

    fn authorities(&self) -> Result<Authorities, String> {
        let named = |origin: String| move |fault| format!("{origin}: {fault}; leave it out");
        match (&self.ca_file, &self.ca_folder) {
            (Some(path), _) => {
                let file = NamedFile::or_pipe(CA_FILE, path);
                Authorities::only(&file.certificates()?).map_err(named(file.to_string()))
            }
            (None, Some(folder)) => {
                let origin = format!("{CA_FOLDER} {}", folder.display());
                Authorities::only(&certificates_below(folder)?).map_err(named(origin))
            }
            (None, None) => Authorities::public_and(&[]).map_err(|fault| fault.to_string()),
        }
    }

    fn identity(&self) -> Result<Option<ClientIdentity>, String> {
        match (&self.client_certificate, &self.client_key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                let certificate = NamedFile::or_pipe(CLIENT_CERTIFICATE, certificate);
                let key = NamedFile::or_pipe(CLIENT_KEY, key);
                ClientIdentity::read(&certificate, &key).map(Some)
            }
            (Some(_), None) => {
                Err("a client certificate needs a key; set BULKHEAD_CLIENT_KEY or -client-key"
                    .to_owned())
            }
            (None, Some(_)) => {
                Err("a client key needs a certificate; set BULKHEAD_CLIENT_CERT or -client-cert"
                    .to_owned())
            }
        }
    }
}

/// Returns advice about a failed connection if TLS caused the failure.
pub(crate) fn advice(error: &(dyn error::Error + 'static)) -> Option<String> {
    let failure = TlsFailure::find(error)?;
    let fault = failure.fault;
    let remedy = match fault {
        TlsFault::WrongName => {
            "write the certificate's name into the address, or set BULKHEAD_TLS_SERVER_NAME or \
             -tls-server-name"
        }
        TlsFault::UnknownIssuer => {
            "set BULKHEAD_CACERT or -ca-cert to the certificate of the server's authority"
        }
        TlsFault::EndedAuthority => {
            "set BULKHEAD_CACERT or -ca-cert to the certificate of the successor"
        }
        TlsFault::Expired => "renew the certificate on the server, or check this machine's clock",
        TlsFault::NotYet => "check this machine's clock",
        TlsFault::NotTls => "write http:// in place of https:// if nobody is in between",
        TlsFault::CertificateRequired => {
            return Some(
                "the server requires a client certificate; set BULKHEAD_CLIENT_CERT and \
                 BULKHEAD_CLIENT_KEY"
                    .to_owned(),
            );
        }
        TlsFault::CertificateRejected => {
            return Some(
                "the server rejects your certificate; set BULKHEAD_CLIENT_CERT and \
                 BULKHEAD_CLIENT_KEY to a certificate of the server's client authority and the key"
                    .to_owned(),
            );
        }
        _ => return Some(format!("TLS failed: {}", failure.library_text())),
    };
    Some(format!("{fault}; {remedy}"))
}

/// Reads the certificates of all files in a folder, which may hold other files, too.
fn certificates_below(folder: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut found = Vec::new();
    for path in files_of(folder)? {
        found.extend(NamedFile::new(CA_FOLDER, path).certificates_if_any()?);
    }
    if found.is_empty() {
        let shown = folder.display();
        return Err(format!("{CA_FOLDER} {shown} {}", PemFault::NoCertificate));
    }
    Ok(found)
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable =
        |error| format!("{CA_FOLDER} {} cannot be read: {error}; give a folder", folder.display());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(trust: TlsTrust) -> String {
        trust.client().expect_err("the TLS settings are refused")
    }

    #[test]
    fn unusable_tls_files_are_refused_with_remedy() {
        let folder = std::env::temp_dir().join(format!("bulkhead-cli-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("ca.pem");
        std::fs::write(&file, "nothing").unwrap();
        let path = || Some(file.clone());
        let empty = problem(TlsTrust { ca_file: path(), ..TlsTrust::default() });
        assert!(empty.starts_with("-ca-cert (BULKHEAD_CACERT) /"), "{empty}");
        assert!(empty.contains("holds no certificate"), "{empty}");
        let empty = problem(TlsTrust { ca_folder: Some(folder.clone()), ..TlsTrust::default() });
        assert!(empty.starts_with("-ca-path (BULKHEAD_CAPATH) /"), "{empty}");
        assert!(empty.contains("holds no certificate"), "{empty}");
        std::fs::write(&file, " ".repeat((1 << 20) + 1)).unwrap();
        let long = problem(TlsTrust { ca_file: path(), ..TlsTrust::default() });
        assert!(long.contains("has more than 1 MiB"), "no file is cut: {long}");
        let nowhere = Some(PathBuf::from("/nonexistent/ca.pem"));
        let absent = problem(TlsTrust { ca_file: nowhere.clone(), ..TlsTrust::default() });
        assert!(absent.contains("/nonexistent/ca.pem cannot be read: "), "{absent}");
        let absent = problem(TlsTrust { ca_folder: nowhere, ..TlsTrust::default() });
        assert!(absent.contains("/nonexistent/ca.pem cannot be read: "), "{absent}");
        let half = problem(TlsTrust { client_certificate: path(), ..TlsTrust::default() });
        assert!(half.contains("-client-key"), "{half}");
        let half = problem(TlsTrust { client_key: path(), ..TlsTrust::default() });
        assert!(half.contains("-client-cert"), "{half}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn public_authorities_are_trusted_without_ca_option() {
        assert!(TlsTrust::default().authorities().unwrap().count() > 100);
        assert!(TlsTrust::default().client().is_ok());
    }

    #[test]
    fn tls_name_defaults_to_address_host() {
        let name =
            |trust: &TlsTrust, host| trust.name_of(host).map(|name| name.to_str().into_owned());
        assert_eq!(name(&TlsTrust::default(), "[::1]"), Ok("::1".to_owned()));
        let trust = TlsTrust { server_name: Some("a.example".to_owned()), ..TlsTrust::default() };
        assert_eq!(name(&trust, "127.0.0.1"), Ok("a.example".to_owned()));
        assert!(name(&TlsTrust::default(), "a b").unwrap_err().contains("-tls-server-name"));
    }
}
