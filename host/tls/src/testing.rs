//! Certificates for tests, each authority in its own folder.

use crate::files::NamedFile;
use crate::issuing::{IssuedCertificate, TrialAuthority, TrialSubject, TrialValidity};
use crate::server::ServerTlsSettings;
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use time::Duration;

/// Number of authorities of this process, for distinct names.
static AUTHORITIES: AtomicUsize = AtomicUsize::new(0);

/// A certificate authority, and the folder of its files.
pub(crate) struct TestAuthority {
    authority: TrialAuthority,
    folder: PathBuf,
}

impl TestAuthority {
    pub(crate) fn new() -> Self {
        Self::ending_in(7)
    }

    /// Creates an authority that ends in `days` days, or has ended.
    pub(crate) fn ending_in(days: i64) -> Self {
        let number = AUTHORITIES.fetch_add(1, Ordering::Relaxed);
        let name = format!("bh-tls-crate-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir(&folder).unwrap();
        Self { authority: TrialAuthority::new(&name, valid_for(days)).unwrap(), folder }
    }

    pub(crate) fn pem(&self) -> String {
        self.authority.pem()
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.authority.certificate()
    }

    /// Issues a certificate of localhost, for servers and clients, that expires in `days` days.
    pub(crate) fn sign(&self, days: i64) -> IssuedCertificate {
        let subject = TrialSubject {
            common_name: "a test".to_owned(),
            names: vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
            is_client: true,
        };
        self.authority.issue(&subject, valid_for(days)).unwrap()
    }

    /// Writes a file with mode 0600.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.join(name);
        std::fs::write(&file, text).unwrap();
        set_mode(&file, 0o600);
        file
    }

    /// Writes a certificate and its key, and returns settings for both files.
    pub(crate) fn serve(&self, issued: &IssuedCertificate) -> ServerTlsSettings {
        ServerTlsSettings::new(
            NamedFile::new("tls_cert_file", self.write("cert.pem", &issued.certificate)),
            NamedFile::new("tls_key_file", self.write("key.pem", issued.key.expose())),
        )
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
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

/// Sets the mode of a file.
pub(crate) fn set_mode(file: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}
