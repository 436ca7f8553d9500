//! CRC32C (Castagnoli), by which Cloud KMS and its clients notice bytes that changed on their way.

/// The polynomial, with its bits in reverse order.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Returns the checksum of `bytes`.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |rest, byte| {
        (0..8).fold(rest ^ u32::from(*byte), |rest, _| {
            (rest >> 1) ^ if rest & 1 == 1 { POLYNOMIAL } else { 0 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the CRC catalogue, and the examples of RFC 3720, appendix B.4.
    #[test]
    fn checksum_matches_published_examples() {
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(checksum(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(checksum(b""), 0);
    }
}
