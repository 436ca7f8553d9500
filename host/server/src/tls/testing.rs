//! Certificate authorities and certificates for tests, each authority in its own folder.

use bulkhead_access::random;
use bulkhead_tls::issuing::{IssuedCertificate, TrialAuthority, TrialSubject, TrialValidity};
use bulkhead_tls::{CertificateDer, NamedFile, ServerTlsSettings};
use std::path::PathBuf;
use time::Duration;

/// A certificate authority, and the folder of its files.
pub(crate) struct TestAuthority {
    authority: TrialAuthority,
    folder: PathBuf,
}

impl TestAuthority {
    pub(crate) fn new() -> Self {
        let name = format!("bh-tls-{}", random::base62(8).unwrap());
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir(&folder).unwrap();
        Self { authority: TrialAuthority::new(&name, valid_for(7)).unwrap(), folder }
    }

    /// Writes the authority's certificate to a file.
    pub(crate) fn ca_file(&self) -> NamedFile {
        NamedFile::new("tls_client_ca_file", self.write("ca.pem", &self.authority.pem()))
    }

    /// The authority's certificate.
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.authority.certificate()
    }

    /// Issues a certificate of localhost, for servers and clients, that expires in `days` days.
    pub(crate) fn sign(&self, days: i64) -> IssuedCertificate {
        let subject = TrialSubject {
            common_name: "a test".to_owned(),
            names: vec!["localhost".to_owned()],
            is_client: true,
        };
        self.authority.issue(&subject, valid_for(days)).unwrap()
    }

    /// Writes a certificate and its key, and returns settings for both files.
    pub(crate) fn serve(&self, issued: &IssuedCertificate) -> ServerTlsSettings {
        super::settings(
            self.write("cert.pem", &issued.certificate),
            self.write("key.pem", issued.key.expose()),
        )
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file with mode 0600.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let file = self.file(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        file
    }
}

impl Drop for TestAuthority {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap_or_default();
    }
}

fn valid_for(days: i64) -> TrialValidity {
    TrialValidity { before: Duration::days(30), after: Duration::days(days) }
}
