//! Certificates as bytes: extracted from PEM, and parsed within limits.

use crate::limits;
use crate::pem;
use bulkhead_wire::failure::Failure;
use der::Decode;
use der::asn1::ObjectIdentifier;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

/// Extended key usages by word.
pub(crate) const USAGES: [(&str, ObjectIdentifier); 2] = [
    ("client-auth", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2")),
    ("server-auth", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1")),
];

/// Returns the bytes of the certificates in a PEM text: at least one, at most `most`. Sections with
/// another label are refused.
pub(crate) fn parse_ders(subject: &str, text: &str, most: usize) -> Result<Vec<Vec<u8>>, Failure> {
    let sections = pem::read(subject, text)?;
    if sections.len() > most {
        let count = sections.len();
        return Err(Failure::invalid(format!(
            "{subject} holds {count} sections; the most is {most}"
        )));
    }
    if sections.iter().any(|section| section.label != "CERTIFICATE") {
        return Err(Failure::invalid(format!("{subject} holds sections other than certificates")));
    }
    Ok(sections.iter().map(|section| section.bytes.to_vec()).collect())
}

/// Parses a certificate, and limits the number of its extensions.
pub(crate) fn parse(bytes: &[u8]) -> Result<x509_cert::Certificate, Failure> {
    let parsed = x509_cert::Certificate::from_der(bytes).map_err(|_| damaged_failure())?;
    let extensions = parsed.tbs_certificate().extensions().map_or(0, Vec::len);
    if extensions > limits::EXTENSIONS {
        return Err(Failure::invalid(format!(
            "the certificate has {extensions} extensions; the most is {}",
            limits::EXTENSIONS
        )));
    }
    Ok(parsed)
}

/// Returns the key of a certificate. No other field of the certificate is checked.
pub(crate) fn public_key_of(bytes: &[u8]) -> Result<SubjectPublicKeyInfoOwned, Failure> {
    Ok(parse(bytes)?.tbs_certificate().subject_public_key_info().clone())
}

pub(crate) fn damaged_failure() -> Failure {
    Failure::invalid("the certificate is damaged: the bytes are not an X.509 certificate in DER")
}
