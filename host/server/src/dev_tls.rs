//! The certificate authority and server certificate of `bulkhead server --dev --dev-tls`, made
//! again at each start.
//!
//! The authority's private key is discarded after it has signed, so that clients that trust the
//! authority trust only this server.

use crate::tls;
use bulkhead_tls::ServerTlsSettings;
use bulkhead_tls::issuing::{IssuingFault, TrialAuthority, TrialSubject, TrialValidity};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use time::Duration;

/// Validity of the certificates: longer than any trial. The clocks of other machines may be behind
/// this clock by an hour.
const VALIDITY: TrialValidity =
    TrialValidity { before: Duration::hours(1), after: Duration::days(30) };

/// The names of every dev server.
const DEV_SERVER_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The created files.
pub(crate) struct DevTls {
    /// The authority's certificate, for clients.
    pub(crate) ca_file: PathBuf,
    /// The server's TLS settings.
    pub(crate) settings: ServerTlsSettings,
}

/// Creates both certificates in the folder `tls` of `data`, for a server that listens on `listen`
/// and also has the names `names`.
///
/// # Errors
/// An invalid name, or a folder that cannot be written.
pub(crate) fn make(data: &Path, listen: &str, names: &[String]) -> Result<DevTls, String> {
    let folder = data.join("tls");
    let file = |name: &str| folder.join(name);
    let dev_tls = DevTls {
        ca_file: file("ca.pem"),
        settings: tls::settings(file("cert.pem"), file("key.pem")),
    };
    let authority = TrialAuthority::new("Bulkhead dev mode authority", VALIDITY);
    let authority = authority.map_err(|fault| creation_error(&fault))?;
    let server = authority.issue(&subject(listen, names), VALIDITY);
    let server = server.map_err(|fault| creation_error(&fault))?;
    let cannot = |error| format!("{} cannot be written: {error}", folder.display());
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(cannot)?;
    for (file, text) in [
        (dev_tls.ca_file.as_path(), authority.pem().as_str()),
        (dev_tls.settings.certificates.path(), &server.certificate),
        (dev_tls.settings.key.path(), server.key.expose()),
    ] {
        write_anew(file, text).map_err(cannot)?;
    }
    Ok(dev_tls)
}

/// Creates the file with mode 0600, replacing an existing file.
fn write_anew(file: &Path, text: &str) -> std::io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut handle: File =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    handle.write_all(text.as_bytes())
}

fn creation_error(fault: &IssuingFault) -> String {
    match fault {
        IssuingFault::InvalidName(why) => {
            format!("{why}; give each --dev-tls-san a single host name or address")
        }
        IssuingFault::Failed(why) => format!("the certificate of dev mode cannot be made: {why}"),
    }
}

fn subject(listen: &str, names: &[String]) -> TrialSubject {
    let mut all: Vec<String> = DEV_SERVER_NAMES.map(str::to_owned).into();
    let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host);
    all.push(host.trim_matches(['[', ']']).to_owned());
    // The host name of this machine, if known.
    all.extend(std::fs::read_to_string("/proc/sys/kernel/hostname").map(|it| it.trim().to_owned()));
    all.extend(names.iter().cloned());
    all.retain(|name| !name.is_empty());
    all.sort();
    all.dedup();
    let common_name = "Bulkhead dev mode server".to_owned();
    TrialSubject { common_name, names: all, is_client: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_access::random;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn dev_certificates_are_private_and_replace_old_ones() {
        let data = std::env::temp_dir().join(format!("bh-{}", random::base62(8).unwrap()));
        let names = ["vault.example".to_owned()];
        let read = |file: &Path| std::fs::read_to_string(file).unwrap();
        let first = make(&data, "192.0.2.7:8200", &names).unwrap();
        let before = read(&first.ca_file);
        let again = make(&data, "0.0.0.0:8200", &[]).unwrap();
        assert_ne!(read(&again.ca_file), before);
        let settings = &again.settings;
        for file in [&again.ca_file, settings.certificates.path(), settings.key.path()] {
            let mode = std::fs::metadata(file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
        assert_eq!(
            std::fs::read_dir(data.join("tls")).unwrap().count(),
            3,
            "no key of an authority"
        );
        std::fs::remove_dir_all(&data).unwrap();
    }
}
