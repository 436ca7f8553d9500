//! Names and identifiers of the scheduler: role and policy names, UUIDs.

/// Maximum length of a role or policy name, in ASCII characters.
const LONGEST_NAME: usize = 128;
/// Maximum length of a description and of a token's name, in characters (decision F4).
pub(crate) const LONGEST_TEXT: usize = 256;

/// Returns true if a description or a token's name is not too long.
#[must_use]
pub(crate) fn is_short_text(text: &str) -> bool {
    text.chars().take(LONGEST_TEXT + 1).count() <= LONGEST_TEXT
}

/// Returns true if `text` is a valid role or policy name: 1 to 128 ASCII letters, digits and
/// hyphens.
#[must_use]
pub(crate) fn is_name(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns true if `text` has the form of a UUID: 36 characters, hexadecimal digits in either case,
/// hyphens in the right places.
#[must_use]
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Makes a random UUID (version 4) of `random`.
#[must_use]
pub(crate) fn uuid_of(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let text = bulkhead_sdk::wire::hexadecimal::text(&random);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_letters_digits_and_hyphens() {
        for name in ["a", "dev-1", "---", "Dev", &"a".repeat(128)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "a_b", "dev.2", "dev-2\n", "a b", "é", &"a".repeat(129)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn texts_are_measured_in_characters() {
        assert!(is_short_text("") && is_short_text(&"é".repeat(256)));
        assert!(!is_short_text(&"d".repeat(257)));
    }

    #[test]
    fn random_identifiers_are_uuids_of_version_4() {
        let id = uuid_of([0xff; 16]);
        assert_eq!(id, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert!(is_uuid(&id) && is_uuid(&id.to_uppercase()));
        for text in ["", "ffffffffffff4fffbfffffffffffffffffff", &id[1..], "leader"] {
            assert!(!is_uuid(text), "{text}");
        }
    }
}
