//! The members of a certificate that the TLS of the host needs: issuer, subject, and end of
//! validity.
//!
//! Only the front of a certificate is read, and more certificates pass than in `certificate.rs`: an
//! operator's authority may have a long serial number, unusual extensions, or a validity that
//! begins before 1970, where the times of `der` begin. Signatures are not verified: rustls does so
//! on the client's side, and the files belong to the operator.

use der::{AnyRef, Decode, SliceReader, Tag, TagNumber};

/// Tag of the version, which the oldest certificates lack.
const VERSION: Tag = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };

/// Some members of a certificate, unverified.
#[derive(Debug, PartialEq, Eq)]
pub struct CertificateMembers<'a> {
    /// Issuer, DER-encoded.
    pub issuer: &'a [u8],
    /// Subject, DER-encoded.
    pub subject: &'a [u8],
    /// End of validity, as `YYYYMMDDHHMMSSZ`.
    pub ends: String,
}

impl<'a> CertificateMembers<'a> {
    /// Reads a certificate in DER. Returns `None` if the encoding is invalid.
    #[must_use]
    pub fn read(certificate: &'a [u8]) -> Option<Self> {
        let mut outer = next_sequence(&mut SliceReader::new(certificate).ok()?)?;
        let mut signed = next_sequence(&mut outer)?;
        if Tag::peek(&signed).is_ok_and(|tag| tag == VERSION) {
            next_content(&mut signed, VERSION)?;
        }
        // The serial number and the algorithm of the signature.
        next_content(&mut signed, Tag::Integer)?;
        next_content(&mut signed, Tag::Sequence)?;
        let issuer = next_content(&mut signed, Tag::Sequence)?;
        let mut validity = next_sequence(&mut signed)?;
        next_time(&mut validity)?;
        let ends = next_time(&mut validity)?;
        let subject = next_content(&mut signed, Tag::Sequence)?;
        Some(Self { issuer, subject, ends })
    }
}

/// Returns the content of the next element, which must have the tag `tag`.
fn next_content<'a>(reader: &mut SliceReader<'a>, tag: Tag) -> Option<&'a [u8]> {
    let element = AnyRef::decode(reader).ok()?;
    (element.header().tag() == tag).then(|| element.value())
}

/// Returns a reader of the elements inside the next element, a sequence.
fn next_sequence<'a>(reader: &mut SliceReader<'a>) -> Option<SliceReader<'a>> {
    SliceReader::new(next_content(reader, Tag::Sequence)?).ok()
}

/// Returns the next time, of either kind, with 4 digits of the year.
fn next_time(reader: &mut SliceReader<'_>) -> Option<String> {
    let element = AnyRef::decode(reader).ok()?;
    let text = std::str::from_utf8(element.value()).ok()?;
    let digits = text.strip_suffix('Z')?;
    let century = match element.header().tag() {
        // 2 digits mean the years 1950 to 2049.
        Tag::UtcTime if digits.get(..2)? < "50" => "20",
        Tag::UtcTime => "19",
        Tag::GeneralizedTime => "",
        _ => return None,
    };
    let time_text = format!("{century}{text}");
    let is_time = time_text.len() == 15 && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_time.then_some(time_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    /// Returns a certificate that signs itself and ends in the year 4096.
    fn certificate() -> Vec<u8> {
        let mut parameters = CertificateParams::new(["a.example".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(4096, 1, 1);
        let certificate = parameters.self_signed(&KeyPair::generate().unwrap()).unwrap();
        certificate.der().to_vec()
    }

    #[test]
    fn certificate_members_are_names_and_end() {
        let certificate = certificate();
        let members = CertificateMembers::read(&certificate).unwrap();
        assert_eq!(members.issuer, members.subject);
        assert!(!members.subject.is_empty());
        assert_eq!(members.ends, "40960101000000Z");
    }

    #[test]
    fn certificate_times_begin_in_1950() {
        let read = |encoded: &[u8]| next_time(&mut SliceReader::new(encoded).unwrap());
        assert_eq!(read(b"\x17\x0d500101000000Z").as_deref(), Some("19500101000000Z"));
        assert_eq!(read(b"\x17\x0d491231235959Z").as_deref(), Some("20491231235959Z"));
        assert_eq!(read(b"\x18\x0f20500101000000Z").as_deref(), Some("20500101000000Z"));
        assert_eq!(read(b"\x17\x0b5001010000Z"), None, "no seconds");
        assert_eq!(read(b"\x04\x0d500101000000Z"), None, "a time of no kind");
    }

    #[test]
    fn damaged_certificates_are_unreadable_and_harmless() {
        let certificate = certificate();
        for cut in 0..certificate.len() {
            let _cut = CertificateMembers::read(&certificate[..cut]);
            let mut bent = certificate.clone();
            bent[cut] ^= 0xff;
            let _bent = CertificateMembers::read(&bent);
        }
        assert_eq!(CertificateMembers::read(&[]), None);
        assert_eq!(CertificateMembers::read(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
