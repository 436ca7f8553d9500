//! Random text for names that must not be guessed: tokens, lease ids, accessors, UUIDs.
//!
//! Functions fail only if the machine's random generator fails, with a 500.
#![allow(clippy::missing_errors_doc, reason = "said once, above")]

use aws_lc_rs::rand;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::hexadecimal;
use zeroize::Zeroizing;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Number of different texts of ten letters.
const TEN_LETTERS: u128 = 62_u128.pow(10);

/// Lower limit of rejected bytes; accepting these bytes would favour the first letters of the
/// alphabet.
const UNBIASED: u8 = 248;

/// Returns `length` random letters and digits, 5.95 bits each.
pub fn base62(length: usize) -> Result<String, Failure> {
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let letters = bytes::<64>()?;
        let usable = letters.iter().filter(|byte| **byte < UNBIASED);
        let letters = usable.filter_map(|byte| BASE62.get(usize::from(byte % 62)));
        text.extend(letters.take(length - text.len()).map(|letter| char::from(*letter)));
    }
    Ok(text)
}

/// Returns the `length` lowest base-62 digits of `number`, for random numbers from another source.
#[must_use]
pub fn base62_digits(mut number: u128, length: usize) -> String {
    let mut text = String::with_capacity(length);
    while text.len() < length {
        // Ten letters at a time: dividing 128 bits takes ten times as long as dividing 64.
        let mut ten = u64::try_from(number % TEN_LETTERS).unwrap_or_default();
        number /= TEN_LETTERS;
        for _ in 0..10.min(length - text.len()) {
            let letter = usize::try_from(ten % 62).ok().and_then(|digit| BASE62.get(digit));
            text.extend(letter.map(|letter| char::from(*letter)));
            ten /= 62;
        }
    }
    text
}

/// Returns `N` random bytes as lower-case hexadecimal.
pub fn random_hex<const N: usize>() -> Result<String, Failure> {
    Ok(hexadecimal::text(&bytes::<N>()?))
}

/// Returns a random version-4 UUID.
pub fn uuid() -> Result<String, Failure> {
    Ok(uuid_of(u128::from_be_bytes(bytes::<16>()?), 4))
}

/// Returns a UUID made from the first 32 digits of a keyed hash. Version 8 marks a UUID with custom
/// bits.
#[must_use]
pub fn uuid_from(hash: &str) -> String {
    let digits = hash.get(..32).unwrap_or(hash);
    uuid_of(u128::from_str_radix(digits, 16).unwrap_or_default(), 8)
}

fn uuid_of(number: u128, version: u128) -> String {
    let versioned = (number & !(0xf << 76) & !(0x3 << 62)) | (version << 76) | (0x2 << 62);
    let digits = hexadecimal::text(&versioned.to_be_bytes());
    let mut text = String::with_capacity(36);
    for part in [0..8, 8..12, 12..16, 16..20, 20..32] {
        if part.start > 0 {
            text.push('-');
        }
        text.push_str(digits.get(part).unwrap_or_default());
    }
    text
}

/// Buffer of random bytes, consumed byte by byte and overwritten when dropped.
pub(crate) struct RandomBuffer {
    bytes: Zeroizing<[u8; 128]>,
    used: usize,
}

impl RandomBuffer {
    /// Returns an empty buffer.
    pub(crate) fn new() -> Self {
        Self { bytes: Zeroizing::new([0; 128]), used: usize::MAX }
    }

    /// Returns the next random byte.
    pub(crate) fn byte(&mut self) -> Result<u8, Failure> {
        if self.used >= self.bytes.len() {
            fill(&mut *self.bytes)?;
            self.used = 0;
        }
        let byte = self.bytes.get(self.used).copied().unwrap_or_default();
        self.used += 1;
        Ok(byte)
    }
}

/// Returns `N` random bytes.
pub fn bytes<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// Fills `bytes` with random bytes.
pub fn fill(bytes: &mut [u8]) -> Result<(), Failure> {
    rand::fill(bytes).map_err(|_| Failure::internal("the random generator of this machine failed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_uuid_states_version_four_and_its_variant() {
        let uuid = uuid().unwrap();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes().get(14), Some(&b'4'));
        assert!(matches!(uuid.as_bytes().get(19), Some(b'8' | b'9' | b'a' | b'b')), "{uuid}");
    }

    #[test]
    fn base62_digits_match_number_and_requested_length() {
        assert_eq!(base62_digits(0, 3), "000");
        assert_eq!(base62_digits(61 + 62 * 10, 3), "zA0");
        assert_eq!(base62_digits(u128::MAX, 22).len(), 22);
        let slowly = |mut number: u128, length: usize| {
            let mut text = String::new();
            for _ in 0..length {
                text.push(char::from(BASE62[usize::try_from(number % 62).unwrap()]));
                number /= 62;
            }
            text
        };
        for (number, length) in
            [(u128::MAX, 25), (u128::MAX / 7, 12), (TEN_LETTERS, 12), (TEN_LETTERS - 1, 10)]
        {
            assert_eq!(base62_digits(number, length), slowly(number, length));
        }
    }

    #[test]
    fn uuid_from_hash_is_deterministic_with_version_8() {
        let uuid = uuid_from(&"af".repeat(32));
        assert_eq!(uuid, "afafafaf-afaf-8faf-afaf-afafafafafaf");
        assert_ne!(uuid, uuid_from(&"fa".repeat(32)));
    }

    #[test]
    fn random_buffer_refills_with_new_bytes_at_end() {
        let mut run = RandomBuffer::new();
        let drawn: Vec<u8> = (0..512).map(|_| run.byte().unwrap()).collect();
        let parts: BTreeSet<&[u8]> = drawn.chunks(128).collect();
        assert_eq!(parts.len(), 4, "no run comes twice");
    }

    #[test]
    fn base62_text_has_requested_length_and_never_repeats() {
        let (one, other) = (base62(24).unwrap(), base62(24).unwrap());
        assert_eq!(one.len(), 24);
        assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_ne!(one, other);
    }
}
