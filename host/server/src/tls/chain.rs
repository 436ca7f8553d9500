//! The server's certificate, those above it, and its key: whether clients could make sense of them.

use super::der::{self, Members};
use super::files;
use super::settings::TlsSettings;
use rustls::Error;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use time::OffsetDateTime;

/// What a server shows, and what it proves itself with.
pub(super) struct Chain {
    /// The server's own first, each signed by the next.
    pub(super) certificates: Vec<CertificateDer<'static>>,
    /// The key of the first.
    pub(super) key: PrivateKeyDer<'static>,
}

impl Chain {
    /// Reads both files.
    ///
    /// # Errors
    /// What cannot be read, has ended, or is out of order.
    pub(super) fn read(settings: &TlsSettings) -> Result<Self, String> {
        let certificates = files::certificates(&settings.cert_file, "tls_cert_file")?;
        let key = files::private_key(&settings.key_file, "tls_key_file")?;
        check_order(settings, &certificates)?;
        check_time(&settings.cert_file, "tls_cert_file", &certificates)?;
        Ok(Self { certificates, key })
    }

    /// When the first of them to end does so.
    pub(super) fn ends(&self) -> String {
        let all = self.certificates.iter().filter_map(|one| der::members(one));
        all.map(|one| one.ends).min().map(|ends| shown(&ends)).unwrap_or_default()
    }
}

/// The refusal of a key or certificate that rustls does not take.
pub(super) fn unfit(settings: &TlsSettings, error: &Error) -> String {
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

/// Each is signed by the next one, as clients follow them.
fn check_order(
    settings: &TlsSettings,
    certificates: &[CertificateDer<'static>],
) -> Result<(), String> {
    let file = settings.cert_file.display();
    let read = |(index, one): (usize, &'static str)| {
        format!("certificate {index} of tls_cert_file {file} {one}")
    };
    let mut all: Vec<Members<'_>> = Vec::new();
    for (index, one) in certificates.iter().enumerate() {
        let members = der::members(one);
        all.push(
            members
                .ok_or_else(|| read((index + 1, "is no X.509 certificate; write the file anew")))?,
        );
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

/// That none of the certificates in `file`, which the setting `name` names, has ended. One that
/// begins later is served: the clock that is wrong may be this machine's.
///
/// # Errors
/// The first that has, and when.
pub(super) fn check_time(
    file: &Path,
    name: &str,
    certificates: &[CertificateDer<'static>],
) -> Result<(), String> {
    let now = now();
    for (index, one) in certificates.iter().enumerate() {
        if let Some(members) = der::members(one).filter(|members| members.ends < now) {
            return Err(format!(
                "certificate {} of {name} {} ended at {}; renew it, or set this machine's clock",
                index + 1,
                file.display(),
                shown(&members.ends)
            ));
        }
    }
    Ok(())
}

/// The machine's time. Certificates are judged by clients, whose clocks know nothing of store time.
#[expect(clippy::disallowed_methods, reason = "no record of the store is meant")]
pub(crate) fn machine_time() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

/// Now, as `20261122180000Z`.
fn now() -> String {
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

/// `20261122180000Z` as people write it.
fn shown(time: &str) -> String {
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
