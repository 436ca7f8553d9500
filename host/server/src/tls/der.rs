//! The few members of a certificate that decide whether its chain is in order and holds: who it is
//! of, who signed it, and when it begins and ends.
//!
//! It judges no signature: rustls does, on the client's side. The files are the operator's own.

/// What a certificate says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Members<'a> {
    /// Who signed it, as it is encoded.
    pub(super) issuer: &'a [u8],
    /// Who it is of, as it is encoded.
    pub(super) subject: &'a [u8],
    /// When it begins to hold, as `YYYYMMDDHHMMSSZ`.
    pub(super) begins: String,
    /// When it ends, as `YYYYMMDDHHMMSSZ`.
    pub(super) ends: String,
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
/// The version, which the oldest certificates lack.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Reads a certificate; `None` when it is not encoded as one.
pub(super) fn members(certificate: &[u8]) -> Option<Members<'_>> {
    let mut whole = Reader(Reader(certificate).next(SEQUENCE)?);
    let mut signed = Reader(whole.next(SEQUENCE)?);
    if signed.0.first() == Some(&VERSION) {
        signed.next(VERSION)?;
    }
    signed.next(INTEGER)?;
    signed.next(SEQUENCE)?;
    let issuer = signed.next(SEQUENCE)?;
    let mut validity = Reader(signed.next(SEQUENCE)?);
    let (begins, ends) = (validity.time()?, validity.time()?);
    let subject = signed.next(SEQUENCE)?;
    Some(Members { issuer, subject, begins, ends })
}

/// What is left of an encoded text.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The content of the next member, which has to be of that kind.
    fn next(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_first()?;
        let (length, rest) = length(rest)?;
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (*found == tag).then_some(content)
    }

    /// A time of either kind, with four digits of the year.
    fn time(&mut self) -> Option<String> {
        let tag = *self.0.first()?;
        let text = std::str::from_utf8(self.next(tag)?).ok()?;
        let digits = text.strip_suffix('Z')?;
        let century = match tag {
            // Two digits of a year: 1950 to 2049.
            UTC_TIME if digits.get(..2)? < "50" => "20",
            UTC_TIME => "19",
            GENERALIZED_TIME => "",
            _ => return None,
        };
        let whole = format!("{century}{text}");
        let is_time = whole.len() == 15 && digits.bytes().all(|digit| digit.is_ascii_digit());
        is_time.then_some(whole)
    }
}

/// A length and what follows it.
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
