//! Bytes as hexadecimal digits, in lower case: how keys, hashes and digests are written.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The digits of `bytes`, two a byte.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    text.extend(bytes.iter().flat_map(|byte| pair(*byte)).map(char::from));
    text
}

/// Appends the same to `out`.
pub fn push(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(2 * bytes.len());
    for byte in bytes {
        out.extend_from_slice(&pair(*byte));
    }
}

fn pair(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 0x0f]
        .map(|digit| DIGITS.get(usize::from(digit)).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_two_digits_in_lower_case() {
        assert_eq!(text(&[0x00, 0x0f, 0xa5, 0xff]), "000fa5ff");
        let mut out = b"x".to_vec();
        push(&[0x01, 0xfe], &mut out);
        assert_eq!(out, b"x01fe");
    }
}
