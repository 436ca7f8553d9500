//! Certificates for a trial: an authority that exists only in memory, and the certificates of this
//! authority.

use crate::machine_clock::machine_time;
use bulkhead_wire::secret::Secret;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, Error,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use std::fmt;
use time::Duration;

/// The validity of a certificate, around the present time.
#[derive(Clone, Copy, Debug)]
pub struct TrialValidity {
    /// Time since the begin.
    pub before: Duration,
    /// Time until the end; negative for an expired certificate.
    pub after: Duration,
}

/// The subject of an issued certificate.
#[derive(Clone, Debug)]
pub struct TrialSubject {
    /// The common name, for readers only.
    pub common_name: String,
    /// Host names and IP addresses.
    pub names: Vec<String>,
    /// `true`: the certificate also proves the identity of a client.
    pub is_client: bool,
}

/// An authority. Its private key is never written.
pub struct TrialAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// An issued certificate and its key, in PEM.
#[derive(Debug)]
pub struct IssuedCertificate {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: Secret,
}

/// The reason why no certificate was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssuingFault {
    /// A name of the subject is not valid.
    InvalidName(String),
    /// The library failed.
    Failed(String),
}

impl TrialAuthority {
    /// Creates an authority with a new key.
    ///
    /// # Errors
    /// [`IssuingFault::Failed`] if no key can be created.
    pub fn new(common_name: &str, validity: TrialValidity) -> Result<Self, IssuingFault> {
        let mut params = params(Vec::new(), common_name, validity)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// Returns the authority's certificate, in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Returns the authority's certificate.
    #[must_use]
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// Issues a certificate with a new key.
    ///
    /// # Errors
    /// An invalid name of `subject`, or a failure of the library.
    pub fn issue(
        &self,
        subject: &TrialSubject,
        validity: TrialValidity,
    ) -> Result<IssuedCertificate, IssuingFault> {
        let mut params = params(subject.names.clone(), &subject.common_name, validity)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        if subject.is_client {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(IssuedCertificate { certificate, key: Secret::new(key.serialize_pem()) })
    }
}

fn params(
    names: Vec<String>,
    common_name: &str,
    validity: TrialValidity,
) -> Result<CertificateParams, IssuingFault> {
    let params = CertificateParams::new(names);
    let mut params = params.map_err(|error| IssuingFault::InvalidName(error.to_string()))?;
    let now = machine_time();
    (params.not_before, params.not_after) = (now - validity.before, now + validity.after);
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    params.distinguished_name = name;
    Ok(params)
}

impl From<Error> for IssuingFault {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl fmt::Display for IssuingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidName(why) => f.write_str(why),
            Self::Failed(why) => write!(f, "the certificate cannot be made: {why}"),
        }
    }
}

impl fmt::Debug for TrialAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrialAuthority")
    }
}
