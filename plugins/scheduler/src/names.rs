//! Names and identifiers of the scheduler: role and policy names, UUIDs.

/// Longest name of a role or policy, in bytes.
const LONGEST_NAME: usize = 128;
/// Longest description, in characters (decision F4).
pub(crate) const LONGEST_DESCRIPTION: usize = 256;

/// Whether `text` is a name of a role or policy: 1 to 128 ASCII letters, digits and hyphens.
#[must_use]
pub(crate) fn is_name(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether `text` has the shape of a UUID: 36 characters, hexadecimal in either case, hyphens at
/// their places.
#[must_use]
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The random UUID (version 4) made of `random`.
#[must_use]
pub(crate) fn uuid_of(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let text = bulkhead_sdk::wire::hexadecimal::text(&random);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// The hexadecimal digits of an identifier's prefix, in lower case and without its hyphens
/// (decision F1).
///
/// # Errors
/// The contract's text where the prefix has another character or an odd number of digits.
pub(crate) fn hexadecimal_prefix(prefix: &str) -> Result<String, &'static str> {
    let hyphens = prefix.bytes().filter(|byte| *byte == b'-').count();
    let digits: String = prefix.chars().filter(|c| *c != '-').collect();
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hyphens > 4 || !is_hexadecimal || digits.len() % 2 == 1 {
        return Err("invalid prefix: must be an even number of hexadecimal characters");
    }
    Ok(digits.to_ascii_lowercase())
}

/// Whether the identifier `id` begins with the digits of [`hexadecimal_prefix`].
#[must_use]
pub(crate) fn has_digits(id: &str, digits: &str) -> bool {
    let mut of_id = id.bytes().filter(|byte| *byte != b'-').map(|byte| byte.to_ascii_lowercase());
    digits.bytes().all(|digit| of_id.next() == Some(digit))
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
    fn random_identifiers_are_uuids_of_version_4() {
        let id = uuid_of([0xff; 16]);
        assert_eq!(id, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert!(is_uuid(&id) && is_uuid(&id.to_uppercase()));
        for text in ["", "ffffffffffff4fffbfffffffffffffffffff", &id[1..], "leader"] {
            assert!(!is_uuid(text), "{text}");
        }
    }

    #[test]
    fn a_prefix_has_an_even_number_of_digits() {
        let id = "ab12cd34-1111-4222-8333-444455556666";
        for prefix in ["", "ab", "AB12", "ab12cd34-11", "ab12-cd34", id] {
            let digits = hexadecimal_prefix(prefix).unwrap();
            assert!(has_digits(id, &digits), "{prefix}");
        }
        for prefix in ["a", "zz", "ab1", "ab------", "please"] {
            assert!(hexadecimal_prefix(prefix).is_err(), "{prefix}");
        }
        assert!(!has_digits(id, "ac") && !has_digits("ab", "ab12"));
    }
}
