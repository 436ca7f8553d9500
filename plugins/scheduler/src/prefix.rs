//! Prefixes that narrow a list (decision F1).

use crate::refusal::ApiRefusal;

/// A prefix of identifiers.
pub(crate) enum IdPrefix {
    /// Hexadecimal digits in lower case, without hyphens.
    Digits(String),
    /// Text that is compared literally, on mounts with the option `lenient_prefix`.
    Text(String),
}

impl IdPrefix {
    /// Parses the prefix in a query.
    ///
    /// # Errors
    /// 400 for a character other than a hexadecimal digit or hyphen, for an odd number of digits,
    /// and for more than four hyphens. A lenient mount accepts any text.
    pub(crate) fn read(text: &str, is_lenient: bool) -> Result<Self, ApiRefusal> {
        if is_lenient {
            return Ok(Self::Text(text.to_owned()));
        }
        let hyphens = text.bytes().filter(|byte| *byte == b'-').count();
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if hyphens > 4 || !is_hexadecimal || digits.len() % 2 == 1 {
            let text = "invalid prefix: must be an even number of hexadecimal characters";
            return Err(ApiRefusal::invalid(text));
        }
        Ok(Self::Digits(digits.to_ascii_lowercase()))
    }

    /// Returns true if the prefix is empty, so that every identifier matches.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        let (Self::Digits(text) | Self::Text(text)) = self;
        text.is_empty()
    }

    /// Returns true if the identifier `id` begins with the prefix.
    #[must_use]
    pub(crate) fn begins(&self, id: &str) -> bool {
        match self {
            Self::Text(text) => id.starts_with(text.as_str()),
            Self::Digits(digits) => {
                let bytes = id.bytes().filter(|byte| *byte != b'-');
                let mut of_id = bytes.map(|byte| byte.to_ascii_lowercase());
                digits.bytes().all(|digit| of_id.next() == Some(digit))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_an_even_number_of_digits() {
        let id = "ab12cd34-1111-4222-8333-444455556666";
        for prefix in ["", "ab", "AB12", "ab12cd34-11", "ab12-cd34", id] {
            assert!(IdPrefix::read(prefix, false).unwrap().begins(id), "{prefix}");
        }
        for prefix in ["a", "zz", "ab1", "ab------", "please"] {
            assert!(IdPrefix::read(prefix, false).is_err(), "{prefix}");
        }
        assert!(!IdPrefix::read("ac", false).unwrap().begins(id));
        assert!(!IdPrefix::read("ab12", false).unwrap().begins("ab"));
    }

    #[test]
    fn lenient_prefix_is_any_text_and_case_sensitive() {
        let begins = |prefix: &str| IdPrefix::read(prefix, true).unwrap().begins("ab12-x");
        assert!(begins("a") && begins("ab12-") && !begins("AB") && !begins("please"));
    }
}
