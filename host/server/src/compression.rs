//! Compression of plain HTTP answers, as requested by the client.
//!
//! Answers of the server's own API are never compressed. Those answers hold secrets next to text
//! that the caller sent, and the length of a compressed answer would reveal how similar the two
//! are.

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use hyper::HeaderMap;
use hyper::header::ACCEPT_ENCODING;
use std::io::Write;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentCoding {
    Gzip,
    /// Raw deflate without a zlib header, as servers written in Go send it.
    Deflate,
}

impl ContentCoding {
    /// Returns the name in headers.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }

    /// Compresses `bytes`.
    pub(crate) fn compress(self, bytes: &[u8]) -> Vec<u8> {
        // Writing to memory cannot fail.
        match self {
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(bytes).unwrap_or_default();
                encoder.finish().unwrap_or_default()
            }
            Self::Deflate => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(bytes).unwrap_or_default();
                encoder.finish().unwrap_or_default()
            }
        }
    }
}

/// Returns the first supported coding in the client's list. A coding with a parameter, such as a
/// quality, is skipped.
pub(crate) fn requested_coding(headers: &HeaderMap) -> Option<ContentCoding> {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let words = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    words.map(str::trim).find_map(|word| match word {
        "gzip" => Some(ContentCoding::Gzip),
        "deflate" => Some(ContentCoding::Deflate),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::{DeflateDecoder, GzDecoder};
    use hyper::header::HeaderValue;
    use std::io::Read;

    fn asked_by(value: &'static str) -> Option<ContentCoding> {
        let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]);
        requested_coding(&headers)
    }

    #[test]
    fn the_first_coding_that_is_served_is_taken() {
        assert_eq!(asked_by("gzip, deflate"), Some(ContentCoding::Gzip));
        assert_eq!(asked_by("br,deflate, gzip"), Some(ContentCoding::Deflate));
        assert_eq!(asked_by("gzip;q=0, identity"), None);
        assert_eq!(requested_coding(&HeaderMap::new()), None);
    }

    #[test]
    fn compressed_answers_are_read_back() {
        let text = "[]".repeat(1_000);
        let mut read = String::new();
        let gzip = ContentCoding::Gzip.compress(text.as_bytes());
        GzDecoder::new(&gzip[..]).read_to_string(&mut read).unwrap();
        assert!(read == text && gzip.len() < 100);
        read.clear();
        let deflated = ContentCoding::Deflate.compress(text.as_bytes());
        DeflateDecoder::new(&deflated[..]).read_to_string(&mut read).unwrap();
        assert_eq!(read, text);
    }
}
