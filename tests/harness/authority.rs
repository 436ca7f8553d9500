//! The certificate authority of a test server, made by the server's script and trusted by the
//! server.

use crate::paths::Folder;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The authority's folder, written by `tests/servers/certificates.sh`.
pub struct Authority(pub(crate) PathBuf);

impl Authority {
    /// Returns the authority's certificate in PEM. The server presents the same certificate.
    pub fn certificate(&self) -> String {
        self.file("ca.pem")
    }

    /// Returns the authority's key in PEM. The server trusts clients whose certificates this key
    /// signs.
    pub fn key(&self) -> String {
        self.file("ca.key")
    }

    /// Makes a client certificate with this subject (`/CN=app`), and returns certificate and key in
    /// PEM.
    pub fn client(&self, subject: &str) -> (String, String) {
        let folder = Folder::new("certificate");
        let [certificate, key] = ["client.pem", "client.key"].map(|name| folder.path().join(name));
        let output = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-nodes", "-days", "2", "-addext", "extendedKeyUsage=clientAuth"])
            .args(["-subj", subject])
            .arg("-CA")
            .arg(self.0.join("ca.pem"))
            .arg("-CAkey")
            .arg(self.0.join("ca.key"))
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .output()
            .expect("openssl can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read = |path| fs::read_to_string(path).expect("openssl wrote it");
        (read(certificate), read(key))
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).expect("the server's file is there")
    }
}
