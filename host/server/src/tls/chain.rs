//! The server's certificate chain and key, with the checks that clients can follow the chain.

use super::der::{self, CertificateMembers};
use super::files;
use super::settings::TlsSettings;
use rustls::Error;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use time::OffsetDateTime;

/// A certificate chain with its key.
pub(super) struct CertificateChain {
    /// The server's certificate first, each signed by the next.
    pub(super) certificates: Vec<CertificateDer<'static>>,
    /// Key of the first certificate.
    pub(super) key: PrivateKeyDer<'static>,
}

impl CertificateChain {
    /// Reads both files.
    ///
    /// # Errors
    /// A file that cannot be read, an expired certificate, or a chain in the wrong order.
    pub(super) fn read(settings: &TlsSettings) -> Result<Self, String> {
        let certificates = files::certificates(&settings.cert_file, "tls_cert_file")?;
        let key = files::private_key(&settings.key_file, "tls_key_file")?;
        check_order(settings, &certificates)?;
        check_time(&settings.cert_file, "tls_cert_file", &certificates)?;
        Ok(Self { certificates, key })
    }

    /// Returns the earliest end of validity in the chain.
    pub(super) fn earliest_end(&self) -> String {
        let all = self.certificates.iter().filter_map(|one| der::parse_members(one));
        all.map(|one| one.ends).min().map(|ends| format_time(&ends)).unwrap_or_default()
    }
}

/// Message for a key or certificate that rustls refuses.
pub(super) fn unusable_message(settings: &TlsSettings, error: &Error) -> String {
    let (cert_file, key_file) = (settings.cert_file.display(), settings.key_file.display());
    match error {
        Error::InconsistentKeys(_) => format!(
            "tls_key_file {key_file} is not the key of the first certificate in \
             tls_cert_file {cert_file}; give the two that were made together, \
             the server's own certificate first"
        ),
        other => format!(
            "tls_cert_file {cert_file} and tls_key_file {key_file} cannot be served: {other}; \
             give an RSA, ECDSA or Ed25519 key and its certificate"
        ),
    }
}

/// Checks that each certificate's issuer is the subject of the next certificate, as clients follow
/// the chain.
fn check_order(
    settings: &TlsSettings,
    certificates: &[CertificateDer<'static>],
) -> Result<(), String> {
    let file = settings.cert_file.display();
    let read = |(index, one): (usize, &'static str)| {
        format!("certificate {index} of tls_cert_file {file} {one}")
    };
    let mut all: Vec<CertificateMembers<'_>> = Vec::new();
    for (index, one) in certificates.iter().enumerate() {
        let members = der::parse_members(one);
        all.push(members.ok_or_else(|| {
            read((index + 1, "is not an X.509 certificate; write the file again"))
        })?);
    }
    for (index, pair) in all.windows(2).enumerate() {
        if let [one, above] = pair
            && one.issuer != above.subject
        {
            return Err(read((
                index + 1,
                "is not signed by the one that follows it; write the server's own first, \
                 and behind each the one that signed it",
            )));
        }
    }
    Ok(())
}

/// Checks that no certificate in `file` has expired; `name` is the setting. A certificate that is
/// not valid yet is accepted, because this machine's clock may be wrong.
///
/// # Errors
/// The first expired certificate, with its end.
pub(super) fn check_time(
    file: &Path,
    name: &str,
    certificates: &[CertificateDer<'static>],
) -> Result<(), String> {
    let now = current_time();
    for (index, one) in certificates.iter().enumerate() {
        if let Some(members) = der::parse_members(one).filter(|members| members.ends < now) {
            return Err(format!(
                "certificate {} of {name} {} ended at {}; renew it, or set this machine's clock",
                index + 1,
                file.display(),
                format_time(&members.ends)
            ));
        }
    }
    Ok(())
}

/// Returns the machine's time. Clients check certificates by their own clocks, so store time has no
/// meaning here.
#[expect(clippy::disallowed_methods, reason = "no record of the store is meant")]
pub(crate) fn machine_time() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

/// Returns the current time as `20261122180000Z`.
fn current_time() -> String {
    let now = machine_time();
    format!(
        "{:04}{:02}{:02}{:02}{:02}{:02}Z",
        now.year(),
        u8::from(now.month()),
        now.day(),
        now.hour(),
        now.minute(),
        now.second()
    )
}

/// Formats `20261122180000Z` as `2026-11-22T18:00:00Z`.
fn format_time(time: &str) -> String {
    let part = |from: usize, to: usize| time.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14)
    )
}
