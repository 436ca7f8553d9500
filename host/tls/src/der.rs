//! The members of a certificate that the chain check needs: subject, issuer, and validity period.
//!
//! Signatures are not verified: rustls does so on the client's side, and the files belong to the
//! operator.

/// Some members of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CertificateMembers<'a> {
    /// Issuer, DER-encoded.
    pub(crate) issuer: &'a [u8],
    /// Subject, DER-encoded.
    pub(crate) subject: &'a [u8],
    /// Begin of validity, as `YYYYMMDDHHMMSSZ`.
    pub(crate) begins: String,
    /// End of validity, as `YYYYMMDDHHMMSSZ`.
    pub(crate) ends: String,
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
/// Tag of the version, which the oldest certificates lack.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Parses a certificate. Returns `None` if the encoding is invalid.
pub(crate) fn parse_members(certificate: &[u8]) -> Option<CertificateMembers<'_>> {
    let mut outer = DerReader(DerReader(certificate).next_member(SEQUENCE)?);
    let mut signed = DerReader(outer.next_member(SEQUENCE)?);
    if signed.0.first() == Some(&VERSION) {
        signed.next_member(VERSION)?;
    }
    signed.next_member(INTEGER)?;
    signed.next_member(SEQUENCE)?;
    let issuer = signed.next_member(SEQUENCE)?;
    let mut validity = DerReader(signed.next_member(SEQUENCE)?);
    let (begins, ends) = (validity.time()?, validity.time()?);
    let subject = signed.next_member(SEQUENCE)?;
    Some(CertificateMembers { issuer, subject, begins, ends })
}

/// The unread rest of an encoding.
struct DerReader<'a>(&'a [u8]);

impl<'a> DerReader<'a> {
    /// Returns the content of the next member, which must have the tag `tag`.
    fn next_member(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_first()?;
        let (length, rest) = length(rest)?;
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (*found == tag).then_some(content)
    }

    /// Returns the next time, of either kind, with 4 digits of the year.
    fn time(&mut self) -> Option<String> {
        let tag = *self.0.first()?;
        let text = std::str::from_utf8(self.next_member(tag)?).ok()?;
        let digits = text.strip_suffix('Z')?;
        let century = match tag {
            // 2 digits mean the years 1950 to 2049.
            UTC_TIME if digits.get(..2)? < "50" => "20",
            UTC_TIME => "19",
            GENERALIZED_TIME => "",
            _ => return None,
        };
        let time_text = format!("{century}{text}");
        let is_time = time_text.len() == 15 && digits.bytes().all(|digit| digit.is_ascii_digit());
        is_time.then_some(time_text)
    }
}

/// Splits a length from the bytes behind.
fn length(encoded: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = encoded.split_first()?;
    if *first < 0x80 {
        return Some((usize::from(*first), rest));
    }
    let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
    if bytes.is_empty() || bytes.len() > 4 {
        return None;
    }
    let length = bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte));
    Some((length, rest))
}
