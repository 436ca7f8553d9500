//! TLS of the listeners: the names of the settings, the versions of HTTP, and the log lines of
//! certificates. `bulkhead_tls` has the rules.

use bulkhead_access::log::{Log, LogCause, cause};
use bulkhead_tls::{CertificateEvents, ListenerTls, NamedFile, ServerTlsSettings};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::server_figures::CertificateEnd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Setting that names the file of the server's certificate.
pub(crate) const CERT_FILE: &str = "tls_cert_file";

/// Setting that names the file of the private key.
pub(crate) const KEY_FILE: &str = "tls_key_file";

/// ALPN name of HTTP/2, which is preferred.
pub(crate) const HTTP_2: &[u8] = b"h2";

/// Application protocols, the preferred one first.
const PROTOCOLS: &[&[u8]] = &[HTTP_2, b"http/1.1"];

/// Settings with these files and defaults for the rest.
pub(crate) fn settings(cert_file: PathBuf, key_file: PathBuf) -> ServerTlsSettings {
    ServerTlsSettings::new(NamedFile::new(CERT_FILE, cert_file), NamedFile::new(KEY_FILE, key_file))
}

/// Reads the files of a listener, and notes the certificate in the log and in `end`, now and at
/// each renewal.
///
/// # Errors
/// The reason why the files are not usable, and the remedy.
pub(crate) fn load(
    settings: ServerTlsSettings,
    log: &Arc<dyn Log>,
    end: &Arc<CertificateEnd>,
) -> Result<Arc<ListenerTls>, String> {
    let (log, end) = (Arc::clone(log), Arc::clone(end));
    ListenerTls::load(settings, PROTOCOLS, Arc::new(CertificateLog { log, end }))
}

/// Writes a line for each certificate that is served or refused, and keeps the end of the served
/// certificate.
struct CertificateLog {
    log: Arc<dyn Log>,
    end: Arc<CertificateEnd>,
}

impl CertificateEvents for CertificateLog {
    fn served(&self, file: &Path, ends: &str) {
        if let Ok(end) = OffsetDateTime::parse(ends, &Rfc3339) {
            self.end.set(end.unix_timestamp());
        }
        let pairs = [("file", file.display().to_string()), ("ends", ends.to_owned())];
        self.log.line(LogLevel::Info, "certificate-served", &pairs);
    }

    fn refused(&self, why: &str) {
        let served = "the certificate from before".to_owned();
        let pairs = [cause(&TlsRefusal(why)), ("served", served)];
        self.log.line(LogLevel::Error, "certificate-refused", &pairs);
    }
}

/// The reason of a refusal: names, paths and numbers, but no content of a key file.
struct TlsRefusal<'a>(&'a str);

impl LogCause for TlsRefusal<'_> {
    fn words(&self) -> String {
        self.0.to_owned()
    }
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use super::testing::TestAuthority;
    use super::*;
    use crate::log::testing::RecordingLog;

    #[tokio::test]
    async fn each_reading_of_the_files_is_logged() {
        let authority = TestAuthority::new();
        let lines = Arc::new(RecordingLog::default());
        let log: Arc<dyn Log> = Arc::clone(&lines) as Arc<dyn Log>;
        let served_end = Arc::default();
        let tls = load(authority.serve(&authority.sign(7)), &log, &served_end).unwrap();
        let end = served_end.get().unwrap();
        let rest = end - bulkhead_tls::machine_time().unix_timestamp();
        assert!((6 * 86_400..8 * 86_400).contains(&rest), "{rest}");
        authority.serve(&authority.sign(20));
        tls.renew().await;
        assert!(served_end.get().unwrap() > end, "the end follows the files");
        assert_eq!(lines.events(), ["certificate-served", "certificate-served"]);
        std::fs::remove_file(authority.file("cert.pem")).unwrap();
        tls.renew().await;
        assert_eq!(lines.events().last().unwrap(), "certificate-refused");
    }
}
