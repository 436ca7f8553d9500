//! The authority of one server of the tests: its script made it, and the server trusts it.

use crate::paths::Folder;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The folder in which `tests/servers/certificates.sh` made it.
pub struct Authority(pub(crate) PathBuf);

impl Authority {
    /// Its certificate, by which the server is known as well; PEM.
    pub fn certificate(&self) -> String {
        self.file("ca.pem")
    }

    /// Its key, PEM: who has it makes clients that the server trusts.
    pub fn key(&self) -> String {
        self.file("ca.key")
    }

    /// A client's certificate with that subject (`/CN=app`), and its key; PEM.
    ///
    /// # Panics
    /// When `openssl` refuses.
    pub fn client(&self, subject: &str) -> (String, String) {
        let folder = Folder::new("certificate");
        let [certificate, key] = ["client.pem", "client.key"].map(|name| folder.path().join(name));
        let made = Command::new("openssl")
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
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let read = |path| fs::read_to_string(path).expect("openssl wrote it");
        (read(certificate), read(key))
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).expect("the server's file is there")
    }
}
