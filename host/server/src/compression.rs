//! Compression of answers of plain HTTP, as their clients ask for it.
//!
//! Answers of the host's own API are never compressed: they hold secrets beside what a caller
//! sends, and the length of a compressed answer tells how much of the two is alike.

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use hyper::HeaderMap;
use hyper::header::ACCEPT_ENCODING;
use std::io::Write;

/// A coding of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    /// Without a zlib header, as servers written in Go send it.
    Deflate,
}

impl Coding {
    /// As headers name it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }

    /// The bytes in this coding.
    pub(crate) fn compress(self, bytes: &[u8]) -> Vec<u8> {
        // Neither can fail: what is written to is memory.
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

/// The first coding that the client lists and that is served. One with a parameter, such as a
/// quality, is not taken.
pub(crate) fn asked(headers: &HeaderMap) -> Option<Coding> {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let words = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    words.map(str::trim).find_map(|word| match word {
        "gzip" => Some(Coding::Gzip),
        "deflate" => Some(Coding::Deflate),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::{DeflateDecoder, GzDecoder};
    use hyper::header::HeaderValue;
    use std::io::Read;

    fn asked_by(value: &'static str) -> Option<Coding> {
        let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]);
        asked(&headers)
    }

    #[test]
    fn the_first_coding_that_is_served_is_taken() {
        assert_eq!(asked_by("gzip, deflate"), Some(Coding::Gzip));
        assert_eq!(asked_by("br,deflate, gzip"), Some(Coding::Deflate));
        assert_eq!(asked_by("gzip;q=0, identity"), None);
        assert_eq!(asked(&HeaderMap::new()), None);
    }

    #[test]
    fn what_is_compressed_is_read_again() {
        let text = "[]".repeat(1_000);
        let mut read = String::new();
        let gzip = Coding::Gzip.compress(text.as_bytes());
        GzDecoder::new(&gzip[..]).read_to_string(&mut read).unwrap();
        assert!(read == text && gzip.len() < 100);
        read.clear();
        let deflated = Coding::Deflate.compress(text.as_bytes());
        DeflateDecoder::new(&deflated[..]).read_to_string(&mut read).unwrap();
        assert_eq!(read, text);
    }
}
