//! Lower-case hexadecimal text of keys, hashes and digests.

/// Returns the digits of `bytes`, two per byte.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    let mut digits = Vec::with_capacity(2 * bytes.len());
    push(bytes, &mut digits);
    String::from_utf8(digits).unwrap_or_default()
}

/// Appends the digits of `bytes` to `out`.
pub fn push(bytes: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    out.resize(begin + 2 * bytes.len(), 0);
    // No table and no branch, so the compiler can vectorise the loop.
    let (pairs, _) = out.get_mut(begin..).unwrap_or_default().as_chunks_mut();
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = [digit(byte >> 4), digit(byte & 0x0f)];
    }
}

/// Returns the digit of a value below 16.
fn digit(value: u8) -> u8 {
    value + if value < 10 { b'0' } else { b'a' - 10 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_two_digits_in_lower_case() {
        assert_eq!(text(&[0x00, 0x0f, 0xa5, 0xff]), "000fa5ff");
        let all: Vec<u8> = (0..=255).collect();
        let each: String = all.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text(&all), each);
        let mut out = b"x".to_vec();
        push(&[0x01, 0xfe], &mut out);
        assert_eq!(out, b"x01fe");
    }
}
