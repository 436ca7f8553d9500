//! Certificate authorities and certificates for tests, each authority in its own folder.

use super::TlsSettings;
use bulkhead_access::random;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use time::Duration;

/// A certificate authority, and the folder of its files.
pub(crate) struct TestAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub(crate) folder: PathBuf,
}

/// A certificate and its key, as PEM.
pub(crate) struct TestCertificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl TestAuthority {
    pub(crate) fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("bh-tls-{}", random::base62(8).unwrap()));
        std::fs::create_dir(&folder).unwrap();
        Self { issuer: CertifiedIssuer::self_signed(ca(), key()).unwrap(), folder }
    }

    /// Writes the authority's certificate to a file.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.write("ca.pem", &self.issuer.pem())
    }

    /// The authority's certificate.
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// The authority's certificate as PEM.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate of localhost that expires in `days` days.
    pub(crate) fn sign(&self, days: i64) -> TestCertificate {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let now = super::machine_time();
        (params.not_before, params.not_after) =
            (now - Duration::days(30), now + Duration::days(days));
        let key = key();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        TestCertificate { certificate, key: key.serialize_pem() }
    }

    /// Writes a file with mode 0600.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let file = self.folder.join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        file
    }

    /// Writes a certificate and its key, and returns settings for both files.
    pub(crate) fn serve(&self, signed: &TestCertificate) -> TlsSettings {
        TlsSettings::of(
            self.write("cert.pem", &signed.certificate),
            self.write("key.pem", &signed.key),
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

fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

fn ca() -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, format!("authority {}", random::base62(8).unwrap()));
    params
}

/// Sets the mode of a file.
pub(crate) fn set_mode(file: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}
