//! Certificate authorities that a connection trusts.
//!
//! This file prevents trust in an authority after its end: rustls does not look at the validity
//! period of a trusted authority.

use bulkhead_crypto::CertificateMembers;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{Error, RootCertStore};
use std::fmt;
use std::sync::Arc;
use time::OffsetDateTime;

/// Certificate authorities that a connection trusts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Authorities(Arc<TrustedRoots>);

#[derive(Debug)]
struct TrustedRoots {
    store: Arc<RootCertStore>,
    /// End of validity of each authority in the store, in seconds since 1970; `u64::MAX` for a
    /// public authority, which ends with a release of the list.
    ends: Vec<u64>,
}

/// A certificate that belongs to no authority.
#[derive(Clone, Debug, PartialEq)]
pub struct NotAnAuthority {
    /// Position in the list, counted from 1.
    pub position: usize,
    cause: Error,
}

impl Authorities {
    /// Trusts the public authorities, and the given authorities in addition.
    ///
    /// # Errors
    /// The first certificate that belongs to no authority.
    pub fn public_and(certificates: &[CertificateDer<'static>]) -> Result<Self, NotAnAuthority> {
        let mut roots = RootCertStore::empty();
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        Self::extended(roots, certificates)
    }

    /// Trusts the given authorities alone.
    ///
    /// # Errors
    /// The first certificate that belongs to no authority.
    pub fn only(certificates: &[CertificateDer<'static>]) -> Result<Self, NotAnAuthority> {
        Self::extended(RootCertStore::empty(), certificates)
    }

    fn extended(
        mut roots: RootCertStore,
        certificates: &[CertificateDer<'static>],
    ) -> Result<Self, NotAnAuthority> {
        let mut ends = vec![u64::MAX; roots.len()];
        for (index, certificate) in certificates.iter().enumerate() {
            let added = roots.add(certificate.clone());
            added.map_err(|cause| NotAnAuthority { position: index + 1, cause })?;
            ends.push(end_of(certificate));
        }
        Ok(Self(Arc::new(TrustedRoots { store: Arc::new(roots), ends })))
    }

    /// Returns the number of authorities.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.store.len()
    }

    /// Returns all authorities, including ended authorities.
    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.0.store)
    }

    /// Returns true if every authority is still valid at `now`.
    pub(crate) fn are_all_valid(&self, now: UnixTime) -> bool {
        self.0.ends.iter().all(|end| *end >= now.as_secs())
    }

    /// Returns the authorities that are still valid at `now`.
    pub(crate) fn valid_roots(&self, now: UnixTime) -> Arc<RootCertStore> {
        let all = self.0.store.roots.iter().zip(&self.0.ends);
        let valid = all.filter(|(_, end)| **end >= now.as_secs()).map(|(root, _)| root.clone());
        Arc::new(valid.collect())
    }
}

/// Returns the end of validity in seconds since 1970; 0 if the certificate does not tell its end.
fn end_of(certificate: &CertificateDer<'_>) -> u64 {
    let members = CertificateMembers::read(certificate);
    let ends = members.and_then(|members| read_time(&members.ends));
    ends.unwrap_or_default()
}

/// Reads `20261122180000Z`.
fn read_time(text: &str) -> Option<u64> {
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<u8>().ok();
    let month = time::Month::try_from(part(4, 6)?).ok()?;
    let date = time::Date::from_calendar_date(text.get(..4)?.parse().ok()?, month, part(6, 8)?);
    let clock = time::Time::from_hms(part(8, 10)?, part(10, 12)?, part(12, 14)?);
    let moment = OffsetDateTime::new_utc(date.ok()?, clock.ok()?);
    // A time before 1970 is over, too.
    Some(u64::try_from(moment.unix_timestamp()).unwrap_or_default())
}

impl fmt::Display for NotAnAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "certificate {} is not an authority's: {}", self.position, self.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_times_are_read_and_nonsense_is_refused() {
        assert_eq!(read_time("19700101000001Z"), Some(1));
        assert_eq!(read_time("20261122180000Z"), Some(1_795_370_400));
        assert_eq!(read_time("19500101000000Z"), Some(0));
        for nonsense in ["", "20261322180000Z", "20260230000000Z", "2026112218", "abcdefghijklmnZ"]
        {
            assert_eq!(read_time(nonsense), None, "{nonsense}");
        }
    }
}
