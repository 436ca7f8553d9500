//! Parser for X.509 certificates. A parsed certificate is not yet trusted; `chain.rs` verifies
//! trust.
//!
//! The attack this file prevents: a certificate with so many names or extensions that each look-up
//! is slow.

use crate::limits;
use crate::public_key::PublicKey;
use crate::x509::{USAGES, damaged_failure, parse, parse_ders};
use aws_lc_rs::digest;
use bulkhead_wire::failure::Failure;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAltName,
    SubjectKeyIdentifier,
};
use x509_cert::time::Time;

/// The content of a certificate, unverified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Subject (RFC 4514), such as `CN=a.example,O=Corp`.
    pub subject: String,
    /// Issuer, in the same form.
    pub issuer: String,
    /// Common name of the subject, if any.
    pub common_name: Option<String>,
    /// Serial number in lower-case hexadecimal.
    pub serial: String,
    /// Milliseconds since 1970.
    pub not_before: u64,
    /// Milliseconds since 1970.
    pub not_after: u64,
    /// The certificate may sign other certificates.
    pub is_authority: bool,
    /// Alternative names, each with its kind: `dns`, `ip`, `email` or `uri`.
    pub names: Vec<(&'static str, String)>,
    /// Extended usages: `client-auth`, `server-auth`, or an identifier in digits.
    pub usages: Vec<String>,
    /// Public key; `None` if the kind of key is not supported.
    pub public_key: Option<PublicKey>,
    /// SHA-1 of the certificate, in hexadecimal. For comparison with other systems only; proves
    /// nothing.
    pub sha1: String,
    /// SHA-256 of the certificate, in hexadecimal.
    pub sha256: String,
    /// Identifier of the certificate's key, if given, in hexadecimal.
    pub key_id: Option<String>,
    /// Identifier of the issuer's key, if given, in hexadecimal.
    pub authority_key_id: Option<String>,
}

impl Certificate {
    /// Reads the first certificate of a PEM text.
    ///
    /// # Errors
    /// Invalid request for an invalid certificate, or for more than 256 names or 64 extensions.
    pub fn read(text: &str) -> Result<Self, Failure> {
        let ders = parse_ders("the certificate", text, limits::CHAIN)?;
        Self::of(ders.first().map_or(&[][..], Vec::as_slice))
    }

    fn of(bytes: &[u8]) -> Result<Self, Failure> {
        let parsed = parse(bytes)?;
        let tbs = parsed.tbs_certificate();
        let constraints = tbs.get_extension::<BasicConstraints>().map_err(|_| damaged_failure())?;
        let signs = match tbs.get_extension::<KeyUsage>().map_err(|_| damaged_failure())? {
            Some((_, usage)) => usage.key_cert_sign(),
            None => true,
        };
        let key_id = tbs.get_extension::<SubjectKeyIdentifier>().map_err(|_| damaged_failure())?;
        let authority =
            tbs.get_extension::<AuthorityKeyIdentifier>().map_err(|_| damaged_failure())?;
        let authority = authority.and_then(|(_, id)| id.key_identifier);
        let common_name = tbs.subject().common_name().map_err(|_| damaged_failure())?;
        Ok(Self {
            subject: tbs.subject().to_string(),
            issuer: tbs.issuer().to_string(),
            common_name: common_name.map(|name| name.value().into_owned()),
            serial: hexadecimal(tbs.serial_number().as_bytes()),
            not_before: milliseconds(tbs.validity().not_before),
            not_after: milliseconds(tbs.validity().not_after),
            is_authority: signs && constraints.is_some_and(|(_, constraints)| constraints.ca),
            names: names(&parsed)?,
            usages: usages(&parsed)?,
            public_key: PublicKey::from_spki(tbs.subject_public_key_info()).ok(),
            sha1: hexadecimal(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref()),
            sha256: hexadecimal(digest::digest(&digest::SHA256, bytes).as_ref()),
            key_id: key_id.map(|(_, id)| hexadecimal(id.0.as_bytes())),
            authority_key_id: authority.map(|id| hexadecimal(id.as_bytes())),
        })
    }
}

fn names(parsed: &x509_cert::Certificate) -> Result<Vec<(&'static str, String)>, Failure> {
    let found = parsed.tbs_certificate().get_extension::<SubjectAltName>();
    let Some((_, SubjectAltName(names))) = found.map_err(|_| damaged_failure())? else {
        return Ok(Vec::new());
    };
    if names.len() > limits::CERTIFICATE_NAMES {
        return Err(Failure::invalid(format!(
            "the certificate has {} names; the most is {}",
            names.len(),
            limits::CERTIFICATE_NAMES
        )));
    }
    Ok(names.iter().filter_map(name).collect())
}

fn name(name: &GeneralName) -> Option<(&'static str, String)> {
    match name {
        GeneralName::DnsName(name) => Some(("dns", name.as_str().to_owned())),
        GeneralName::Rfc822Name(name) => Some(("email", name.as_str().to_owned())),
        GeneralName::UniformResourceIdentifier(name) => Some(("uri", name.as_str().to_owned())),
        GeneralName::IpAddress(bytes) => Some(("ip", address(bytes.as_bytes())?.to_string())),
        _ => None,
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)));
    let v6 = <[u8; 16]>::try_from(bytes).map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes)));
    v4.or(v6).ok()
}

fn usages(parsed: &x509_cert::Certificate) -> Result<Vec<String>, Failure> {
    let found = parsed.tbs_certificate().get_extension::<ExtendedKeyUsage>();
    let Some((_, ExtendedKeyUsage(usages))) = found.map_err(|_| damaged_failure())? else {
        return Ok(Vec::new());
    };
    if usages.len() > limits::EXTENSIONS {
        return Err(Failure::invalid("the certificate has too many usages"));
    }
    let word = |usage: &der::asn1::ObjectIdentifier| {
        let entry = USAGES.iter().find(|(_, oid)| oid == usage);
        entry.map_or_else(|| usage.to_string(), |(word, _)| (*word).to_owned())
    };
    Ok(usages.iter().map(word).collect())
}

fn milliseconds(time: Time) -> u64 {
    u64::try_from(time.to_unix_duration().as_millis()).unwrap_or(u64::MAX)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
