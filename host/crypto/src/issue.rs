//! Issuing of certificates, signed with an authority's key for the public key of a subject.
//!
//! The faults this file prevents: a certificate that outlives its authority, a signature by a key
//! other than the authority's, and an authority not allowed to sign certificates. An issued
//! certificate cannot sign further certificates.

use crate::certificate::Certificate;
use crate::kind::KeyKind;
use crate::limits;
use crate::pem;
use crate::private_key::PrivateKey;
use crate::public_key::PublicKey;
use crate::signature::{sign_ecdsa, sign_rsa, signing_failure};
use crate::x509::{USAGES, parse, parse_ders};
use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
};
use bulkhead_wire::failure::{Failure, quoted};
use der::asn1::{
    Any, BitString, GeneralizedTime, Ia5String, Null, ObjectIdentifier, OctetString, UtcTime,
    Utf8StringRef,
};
use der::flagset::FlagSet;
use der::oid::AssociatedOid;
use der::{Decode, Encode, Sequence};
use std::net::IpAddr;
use std::time::Duration;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::certificate::Version;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
    SubjectKeyIdentifier,
};
use x509_cert::ext::{Extension, Extensions};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};

const fn oid(text: &str) -> ObjectIdentifier {
    ObjectIdentifier::new_unwrap(text)
}

const COMMON_NAME: ObjectIdentifier = oid("2.5.4.3");
const RSA_SHA256: ObjectIdentifier = oid("1.2.840.113549.1.1.11");
const RSA_SHA384: ObjectIdentifier = oid("1.2.840.113549.1.1.12");
const RSA_SHA512: ObjectIdentifier = oid("1.2.840.113549.1.1.13");
const ECDSA_SHA256: ObjectIdentifier = oid("1.2.840.10045.4.3.2");
const ECDSA_SHA384: ObjectIdentifier = oid("1.2.840.10045.4.3.3");
const ECDSA_SHA512: ObjectIdentifier = oid("1.2.840.10045.4.3.4");
const ED25519: ObjectIdentifier = oid("1.3.101.112");

/// First year written with four digits (RFC 5280).
const FOUR_DIGITS: u16 = 2_050;
/// Length of a serial number, in bytes: random numbers of this length are unguessable and do not
/// repeat.
const SERIAL_BYTES: usize = 16;

/// The content of a certificate to issue.
pub struct CertificateIssuance<'a> {
    /// The authority's certificate, in PEM.
    pub authority: &'a str,
    /// The subject's public key, in PEM or as JWK.
    pub public_key: &'a str,
    /// Common name of the subject; empty for none.
    pub common_name: &'a str,
    /// Alternative names, each with its kind: `dns`, `ip`, `email` or `uri`.
    pub names: &'a [(String, String)],
    /// `client-auth`, `server-auth`.
    pub usages: &'a [String],
    /// Milliseconds since 1970, truncated to seconds.
    pub not_before: u64,
    /// Milliseconds since 1970, truncated to seconds.
    pub not_after: u64,
    /// Bits of the digest for an RSA authority's signature: 256, 384, 512; 0 means 256. Other
    /// authorities use the digest of their curve.
    pub signature_bits: u32,
}

/// The signed part of a certificate (`TBSCertificate`).
#[derive(Sequence)]
struct CertificateBody {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    version: Version,
    serial_number: SerialNumber,
    signature: AlgorithmIdentifierOwned,
    issuer: Name,
    validity: Validity,
    subject: Name,
    public_key: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT")]
    extensions: Extensions,
}

#[derive(Sequence)]
struct SignedCertificate {
    tbs: CertificateBody,
    algorithm: AlgorithmIdentifierOwned,
    signature: BitString,
}

/// Issues a certificate in PEM. The serial number is random, the key usage is digital signature,
/// and the extensions identify the keys of the subject and the authority by their digests.
///
/// # Errors
/// Invalid request for an authority not allowed to sign certificates, a key other than the
/// authority's, an end after the authority's end, or invalid names.
pub fn issue(wanted: &CertificateIssuance<'_>, key: &PrivateKey) -> Result<String, Failure> {
    let authority = SigningAuthority::read(wanted, key)?;
    let public_key = PublicKey::read(wanted.public_key)?;
    let algorithm = authority.algorithm(wanted.signature_bits)?;
    let subject = subject_name(wanted)?;
    let tbs = CertificateBody {
        version: Version::V3,
        serial_number: serial_number()?,
        signature: algorithm.clone(),
        issuer: authority.name,
        validity: Validity::new(time(wanted.not_before)?, time(wanted.not_after)?),
        extensions: extensions(wanted, &public_key, authority.key_id, subject.is_empty())?,
        subject,
        public_key: public_key.to_spki()?,
    };
    let signature = signature(key, algorithm.oid, &tbs.to_der().map_err(|_| encoding_failure())?)?;
    let signature = BitString::from_bytes(&signature).map_err(|_| encoding_failure())?;
    let signed = SignedCertificate { tbs, algorithm, signature };
    Ok(pem::encode_pem("CERTIFICATE", &signed.to_der().map_err(|_| encoding_failure())?))
}

/// The signing authority.
struct SigningAuthority {
    name: Name,
    kind: KeyKind,
    key_id: Vec<u8>,
}

impl SigningAuthority {
    fn read(wanted: &CertificateIssuance<'_>, key: &PrivateKey) -> Result<Self, Failure> {
        let said = Certificate::read(wanted.authority)?;
        if !said.is_authority {
            return Err(Failure::invalid(
                "the authority's certificate is not marked for signing certificates",
            ));
        }
        let public = key.public()?;
        if said.public_key.as_ref() != Some(&public) {
            return Err(Failure::invalid(
                "the key does not belong to the authority's certificate; give the certificate's \
                 own key",
            ));
        }
        let (from, until) = (wanted.not_before, wanted.not_after);
        if from >= until {
            return Err(Failure::invalid("the certificate would end before it begins"));
        }
        if until > said.not_after {
            return Err(Failure::invalid(
                "the certificate would outlive its authority's; ask for a shorter time, or renew \
                 the authority's certificate",
            ));
        }
        let ders = parse_ders("the authority's certificate", wanted.authority, limits::CHAIN)?;
        let parsed = parse(ders.first().map_or(&[][..], Vec::as_slice))?;
        let tbs = parsed.tbs_certificate();
        let key_id = match tbs.get_extension::<SubjectKeyIdentifier>() {
            Ok(Some((_, id))) => id.0.as_bytes().to_vec(),
            _ => key_id(&public),
        };
        Ok(Self { name: tbs.subject().clone(), kind: public.kind(), key_id })
    }

    fn algorithm(&self, bits: u32) -> Result<AlgorithmIdentifierOwned, Failure> {
        let oid = match (self.kind, bits) {
            (_, bits) if ![0, 256, 384, 512].contains(&bits) => {
                return Err(Failure::invalid(format!(
                    "no signature has {bits} bits: 256, 384 or 512"
                )));
            }
            (KeyKind::Rsa, 384) => RSA_SHA384,
            (KeyKind::Rsa, 512) => RSA_SHA512,
            (KeyKind::Rsa, _) => RSA_SHA256,
            (KeyKind::P256, _) => ECDSA_SHA256,
            (KeyKind::P384, _) => ECDSA_SHA384,
            (KeyKind::P521, _) => ECDSA_SHA512,
            (KeyKind::Ed25519, _) => ED25519,
        };
        let parameters = (self.kind == KeyKind::Rsa).then(|| Any::from(Null));
        Ok(AlgorithmIdentifierOwned { oid, parameters })
    }
}

fn signature(key: &PrivateKey, oid: ObjectIdentifier, tbs: &[u8]) -> Result<Vec<u8>, Failure> {
    match oid {
        RSA_SHA256 => sign_rsa(key, &RSA_PKCS1_SHA256, tbs),
        RSA_SHA384 => sign_rsa(key, &RSA_PKCS1_SHA384, tbs),
        RSA_SHA512 => sign_rsa(key, &RSA_PKCS1_SHA512, tbs),
        ECDSA_SHA256 => sign_ecdsa(key, &ECDSA_P256_SHA256_ASN1_SIGNING, tbs),
        ECDSA_SHA384 => sign_ecdsa(key, &ECDSA_P384_SHA384_ASN1_SIGNING, tbs),
        ECDSA_SHA512 => sign_ecdsa(key, &ECDSA_P521_SHA512_ASN1_SIGNING, tbs),
        _ => {
            let signed = key.ed25519()?.try_sign(tbs).map_err(|_| signing_failure())?;
            Ok(signed.as_ref().to_vec())
        }
    }
}

fn subject_name(wanted: &CertificateIssuance<'_>) -> Result<Name, Failure> {
    let text = wanted.common_name;
    if text.is_empty() {
        if wanted.names.is_empty() {
            return Err(Failure::invalid("a certificate bears a common name or another name"));
        }
        return Ok(Name::default());
    }
    if text.chars().count() > limits::COMMON_NAME_CHARACTERS || text.chars().any(char::is_control) {
        let text = quoted(text);
        return Err(Failure::invalid(format!(
            "{text} is not a common name: at most {} printable characters",
            limits::COMMON_NAME_CHARACTERS
        )));
    }
    let value = Utf8StringRef::new(text).map(Any::from).map_err(|_| encoding_failure())?;
    let attribute = AttributeTypeAndValue { oid: COMMON_NAME, value };
    let mut single = RelativeDistinguishedName::default();
    single.insert(attribute).map_err(|_| encoding_failure())?;
    let mut sequence = RdnSequence::default();
    sequence.push(single);
    let sequence = sequence.to_der().map_err(|_| encoding_failure())?;
    Name::from_der(&sequence).map_err(|_| encoding_failure())
}

fn extensions(
    wanted: &CertificateIssuance<'_>,
    public_key: &PublicKey,
    authority: Vec<u8>,
    is_nameless: bool,
) -> Result<Extensions, Failure> {
    let usage = KeyUsage(FlagSet::from(KeyUsages::DigitalSignature));
    let own = OctetString::new(key_id(public_key)).map_err(|_| encoding_failure())?;
    let authority = AuthorityKeyIdentifier {
        key_identifier: Some(OctetString::new(authority).map_err(|_| encoding_failure())?),
        ..AuthorityKeyIdentifier::default()
    };
    let mut extensions = vec![
        extension(true, &usage)?,
        extension(false, &SubjectKeyIdentifier(own))?,
        extension(false, &authority)?,
    ];
    if !wanted.usages.is_empty() {
        let usages: Result<Vec<_>, _> = wanted.usages.iter().map(|word| extended(word)).collect();
        extensions.push(extension(false, &ExtendedKeyUsage(usages?))?);
    }
    if wanted.names.len() > limits::CERTIFICATE_NAMES {
        let (count, most) = (wanted.names.len(), limits::CERTIFICATE_NAMES);
        return Err(Failure::invalid(format!(
            "the certificate would have {count} names; the most is {most}"
        )));
    }
    if !wanted.names.is_empty() {
        let names: Result<Vec<_>, _> =
            wanted.names.iter().map(|(kind, name)| general_name(kind, name)).collect();
        extensions.push(extension(is_nameless, &SubjectAltName(names?))?);
    }
    Ok(extensions)
}

fn extension<T: AssociatedOid + Encode>(critical: bool, value: &T) -> Result<Extension, Failure> {
    let der = value.to_der().map_err(|_| encoding_failure())?;
    let extn_value = OctetString::new(der).map_err(|_| encoding_failure())?;
    Ok(Extension { extn_id: T::OID, critical, extn_value })
}

fn extended(word: &str) -> Result<ObjectIdentifier, Failure> {
    let found = USAGES.iter().find(|(usage, _)| *usage == word).map(|(_, oid)| *oid);
    found.ok_or_else(|| {
        let word = quoted(word);
        Failure::invalid(format!("{word} is neither client-auth nor server-auth"))
    })
}

fn general_name(kind: &str, name: &str) -> Result<GeneralName, Failure> {
    let is_plain = |name: &str| {
        (1..=limits::NAME_BYTES).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
    };
    let text = || Ia5String::new(name).map_err(|_| encoding_failure());
    let address = name.parse::<IpAddr>().ok();
    match (kind, address) {
        ("dns", None) if is_plain(name) => Ok(GeneralName::DnsName(text()?)),
        ("email", None) if is_plain(name) => Ok(GeneralName::Rfc822Name(text()?)),
        ("uri", None) if is_plain(name) => Ok(GeneralName::UniformResourceIdentifier(text()?)),
        ("ip", Some(address)) => {
            let bytes = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            OctetString::new(bytes).map(GeneralName::IpAddress).map_err(|_| encoding_failure())
        }
        _ => {
            let (kind, name) = (quoted(kind), quoted(name));
            Err(Failure::invalid(format!(
                "{name} of kind {kind} is not a name of a certificate: dns, ip, email or uri, in \
                 printable ASCII"
            )))
        }
    }
}

/// Returns the usual identifier of a key (RFC 5280 §4.2.1.2), which distinguishes keys and proves
/// nothing.
fn key_id(key: &PublicKey) -> Vec<u8> {
    digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes()).as_ref().to_vec()
}

fn serial_number() -> Result<SerialNumber, Failure> {
    let mut bytes = [0; SERIAL_BYTES];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| Failure::internal("the host's random generator failed"))?;
    // Positive, and always of the same length.
    if let Some(first) = bytes.first_mut() {
        *first = *first & 0x7f | 0x40;
    }
    SerialNumber::new(&bytes).map_err(|_| encoding_failure())
}

fn time(milliseconds: u64) -> Result<Time, Failure> {
    let since = Duration::from_secs(milliseconds / 1_000);
    let unwritten = |_| Failure::invalid("a certificate cannot hold this time");
    let time = GeneralizedTime::from_unix_duration(since).map_err(unwritten)?;
    if time.to_date_time().year() < FOUR_DIGITS {
        return UtcTime::from_unix_duration(since).map(Time::UtcTime).map_err(unwritten);
    }
    Ok(Time::GeneralTime(time))
}

fn encoding_failure() -> Failure {
    Failure::invalid("the certificate cannot be written")
}

#[cfg(test)]
mod tests;
