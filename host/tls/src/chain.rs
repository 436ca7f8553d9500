//! The server's certificate chain and key, with the checks that clients can follow the chain.

use crate::files::NamedFile;
use crate::machine_clock::machine_time;
use bulkhead_crypto::CertificateMembers;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate chain with its key.
pub(crate) struct CertificateChain {
    /// The server's certificate first, each signed by the next.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    /// Key of the first certificate.
    pub(crate) key: PrivateKeyDer<'static>,
}

impl CertificateChain {
    /// Reads both files.
    ///
    /// # Errors
    /// A file that cannot be read, an expired certificate, or a chain in the wrong order.
    pub(crate) fn read(file: &NamedFile, key: &NamedFile) -> Result<Self, String> {
        let certificates = file.certificates()?;
        let key = key.private_key()?;
        check_order(file, &certificates)?;
        check_time(file, &certificates)?;
        Ok(Self { certificates, key })
    }

    /// Returns the earliest end of validity in the chain.
    pub(crate) fn earliest_end(&self) -> String {
        let all = self.certificates.iter().filter_map(|one| CertificateMembers::read(one));
        all.map(|one| one.ends).min().map(|ends| format_time(&ends)).unwrap_or_default()
    }
}

/// Checks that each certificate's issuer is the subject of the next certificate, as clients follow
/// the chain.
fn check_order(file: &NamedFile, certificates: &[CertificateDer<'static>]) -> Result<(), String> {
    let read = |(index, one): (usize, &'static str)| format!("certificate {index} of {file} {one}");
    let mut all: Vec<CertificateMembers<'_>> = Vec::new();
    for (index, one) in certificates.iter().enumerate() {
        let members = CertificateMembers::read(one);
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
                "is not signed by the next certificate; begin with the server's own certificate, \
                 and let each signer follow",
            )));
        }
    }
    Ok(())
}

/// Checks that no certificate of `file` has expired. A certificate that is not valid yet is
/// accepted, because this machine's clock may be wrong.
///
/// # Errors
/// The first expired certificate, with its end.
pub(crate) fn check_time(
    file: &NamedFile,
    certificates: &[CertificateDer<'static>],
) -> Result<(), String> {
    let now = current_time();
    for (index, one) in certificates.iter().enumerate() {
        if let Some(members) = CertificateMembers::read(one).filter(|members| members.ends < now) {
            return Err(format!(
                "certificate {} of {file} ended at {}; renew the certificate, or set this \
                 machine's clock",
                index + 1,
                format_time(&members.ends)
            ));
        }
    }
    Ok(())
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
