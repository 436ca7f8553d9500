//! Certificate authorities that a connection trusts.

use rustls::pki_types::CertificateDer;
use rustls::{Error, RootCertStore};
use std::fmt;
use std::sync::Arc;

/// Certificate authorities that a connection trusts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Authorities(Arc<RootCertStore>);

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
        for (index, certificate) in certificates.iter().enumerate() {
            let added = roots.add(certificate.clone());
            added.map_err(|cause| NotAnAuthority { position: index + 1, cause })?;
        }
        Ok(Self(Arc::new(roots)))
    }

    /// Returns the number of authorities.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for NotAnAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "certificate {} is not an authority's: {}", self.position, self.cause)
    }
}
