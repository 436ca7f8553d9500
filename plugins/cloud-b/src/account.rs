//! Names of service accounts: an address, or a number that is never reused.
//!
//! This file prevents a token whose subject is a path: names are checked here before they go into a
//! URL.

/// Maximum length of an address, in bytes.
const LONGEST_EMAIL: usize = 254;
/// Maximum length of a number, in digits.
const LONGEST_ID: usize = 30;

/// Tells if the text is an account's address: `name@project.iam.gserviceaccount.com`.
pub(crate) fn is_email(text: &str) -> bool {
    let Some((name, domain)) = text.split_once('@') else { return false };
    let is_of = |part: &str, marks: &[u8]| {
        part.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte))
    };
    text.len() <= LONGEST_EMAIL
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && is_of(name, b"._-")
        && domain.split('.').all(|label| !label.is_empty() && is_of(label, b"-"))
}

/// Tells if the text is an account's number.
pub(crate) fn is_unique_id(text: &str) -> bool {
    (1..=LONGEST_ID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{is_email, is_unique_id};

    #[test]
    fn account_has_address_or_number_only() {
        for email in
            ["app@p1.iam.gserviceaccount.com", "1234-compute@developer.gserviceaccount.com"]
        {
            assert!(is_email(email), "{email}");
        }
        let long = format!("{}@p.iam.gserviceaccount.com", "a".repeat(250));
        for other in [
            "",
            "@",
            "a@",
            "@p.com",
            "a@p..com",
            "a@p.com/../x",
            "a@p.com?x",
            "a@p.com#x",
            "a b@p.com",
            "a%2f@p.com",
            "-a@p.com",
            ".a@p.com",
            "a@b@p.com",
            "а@p.com",
            "a@p.com\n",
            "a:b@p.com",
            &long,
        ] {
            assert!(!is_email(other), "{other}");
        }
        assert!(is_unique_id("112233445566778899001"));
        for other in ["", "-1", "1e3", "1/2", "１２", " 1", "1234567890123456789012345678901"] {
            assert!(!is_unique_id(other), "{other}");
        }
    }
}
