//! The texts of keys and shares, decoded into memory that is wiped when dropped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::BASE64_CHARACTERS;
use crate::cipher::{KEY_BYTES, SealKey};

impl SealKey {
    /// Reads a key from the content of a file or a variable: 32 raw bytes, or base64 (both
    /// alphabets, with or without padding) or hexadecimal with surrounding white space. `None` for
    /// any other content, and for 32 printable characters, which are a password.
    pub fn parse(content: &[u8]) -> Option<SealKey> {
        if let Ok(key) = <[u8; KEY_BYTES]>::try_from(content) {
            // A random key has an unprintable byte, except one key in 2^46.
            let is_password = key.iter().all(|byte| matches!(byte, b' '..=b'~'));
            return (!is_password).then(|| SealKey::from_bytes(key));
        }
        let text = std::str::from_utf8(content).ok()?.trim();
        let bytes = if text.len() == 2 * KEY_BYTES {
            of_hexadecimal(text)
        } else {
            let mut padded = Zeroizing::new(String::with_capacity(BASE64_CHARACTERS));
            let characters = text.trim_end_matches('=').chars().map(|character| match character {
                '-' => '+',
                '_' => '/',
                other => other,
            });
            characters.take(BASE64_CHARACTERS).for_each(|character| padded.push(character));
            padded.push('=');
            of_base64(&padded)
        };
        <[u8; KEY_BYTES]>::try_from(bytes?.as_slice()).ok().map(SealKey::from_bytes)
    }
}

/// Decodes standard base64 with padding.
pub(super) fn of_base64(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    STANDARD.decode_vec(text, &mut bytes).ok()?;
    Some(bytes)
}

/// Decodes hexadecimal digits of either case.
pub(super) fn of_hexadecimal(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() / 2));
    for pair in text.as_bytes().chunks(2) {
        let &[high, low] = pair else { return None };
        let value = char::from(high).to_digit(16)? << 4 | char::from(low).to_digit(16)?;
        bytes.push(u8::try_from(value).ok()?);
    }
    Some(bytes)
}
