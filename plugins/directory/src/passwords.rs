//! Generation of account passwords: by a password policy of the operator, or by the deprecated
//! `length` and `formatter`.

use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, FailureKind, Host};

/// Prefix of every password without formatter and policy: Active Directory's complexity rules
/// demand more than letters and digits.
const PREFIX: &str = "?@09AZ";
/// Placeholder for the password in a formatter.
const PLACE: &str = "{{PASSWORD}}";
const ALPHABET: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Default length of a password in characters.
pub(crate) const USUAL_LENGTH: u64 = 64;
/// Minimum length of a password in characters.
const SHORTEST: u64 = 14;
/// Maximum length of a password in characters, set by Active Directory.
const LONGEST: u64 = 256;
/// Minimum number of random characters in a password with a formatter.
const FEWEST_DRAWN: u64 = 8;

/// Rules for generating passwords.
#[derive(Clone, Copy)]
pub(crate) struct PasswordRules<'a> {
    /// Name of the policy; empty for none.
    pub(crate) policy: &'a str,
    /// Length in characters, used if there is no policy.
    pub(crate) length: u64,
    /// Template with a single placeholder; empty for none.
    pub(crate) formatter: &'a str,
}

/// Refuses rules that cannot produce a strong password. The policy itself is not checked.
///
/// # Errors
/// Invalid request that says which setting to change.
pub(crate) fn check(rules: &PasswordRules<'_>) -> Result<(), Failure> {
    if !rules.policy.is_empty() {
        return Ok(());
    }
    let length = rules.length;
    if !(SHORTEST..=LONGEST).contains(&length) {
        return Err(Failure::invalid(format!(
            "length {length} is none of {SHORTEST} to {LONGEST}: no secure password has fewer \
             characters, and no directory takes more"
        )));
    }
    if rules.formatter.is_empty() {
        return Ok(());
    }
    if rules.formatter.matches(PLACE).count() != 1 {
        return Err(Failure::invalid(format!(
            "formatter {} must contain {PLACE} exactly once",
            quoted(rules.formatter)
        )));
    }
    if length.saturating_sub(count_literal(rules.formatter)) < FEWEST_DRAWN {
        return Err(Failure::invalid(format!(
            "with length {length} the formatter leaves fewer than {FEWEST_DRAWN} characters to \
             draw; raise length, or shorten formatter"
        )));
    }
    Ok(())
}

/// Returns the number of characters in a formatter without its placeholder.
fn count_literal(formatter: &str) -> u64 {
    formatter.replacen(PLACE, "", 1).chars().count() as u64
}

/// Generates a password.
///
/// # Errors
/// Invalid request if the policy does not exist. A refusal of the host.
pub(crate) fn generate(host: &dyn Host, rules: &PasswordRules<'_>) -> Result<String, Failure> {
    if !rules.policy.is_empty() {
        return host.passwords().generate(rules.policy).map_err(of_missing_policy);
    }
    let draw = |characters: u64| {
        let characters = u32::try_from(characters).unwrap_or(u32::MAX);
        host.passwords().generate_from(characters, ALPHABET)
    };
    if rules.formatter.is_empty() {
        let drawn = draw(rules.length.saturating_sub(PREFIX.len() as u64))?;
        return Ok(format!("{PREFIX}{drawn}"));
    }
    let drawn = draw(rules.length.saturating_sub(count_literal(rules.formatter)))?;
    Ok(rules.formatter.replacen(PLACE, &drawn, 1))
}

/// Turns "not found" into an invalid request: a missing policy is a mistake in the configuration,
/// not a missing URL.
fn of_missing_policy(why: Failure) -> Failure {
    let kind =
        if why.kind == FailureKind::NotFound { FailureKind::InvalidRequest } else { why.kind };
    Failure { kind, ..why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::testbed::TestHost;

    fn with(length: u64, formatter: &str) -> PasswordRules<'_> {
        PasswordRules { policy: "", length, formatter }
    }

    #[test]
    fn passwords_have_given_length_and_directory_friendly_start() {
        let host = TestHost::default();
        for (length, characters) in [(64, 64), (14, 14), (50, 50), (256, 256)] {
            let password = generate(&host, &with(length, "")).unwrap();
            assert_eq!(password.chars().count(), characters);
            let drawn = password.strip_prefix("?@09AZ").unwrap();
            assert!(drawn.chars().all(|one| one.is_ascii_alphanumeric()), "{password}");
        }
    }

    #[test]
    fn a_formatter_says_where_the_password_stands() {
        let password = generate(&TestHost::default(), &with(50, "foo{{PASSWORD}}bär")).unwrap();
        let drawn = password.strip_prefix("foo").unwrap().strip_suffix("bär").unwrap();
        assert_eq!(drawn.len(), 44);
        assert!(drawn.chars().all(|one| one.is_ascii_alphanumeric()), "{password}");
    }

    #[test]
    fn format_with_too_few_random_characters_is_refused() {
        for (length, formatter, why) in [
            (13, "", "length 13 is none of 14 to 256"),
            (257, "", "length 257"),
            (64, "no place", "must contain {{PASSWORD}} exactly once"),
            (64, "{{PASSWORD}}{{PASSWORD}}", "exactly once"),
            (14, "1234567{{PASSWORD}}", "fewer than 8 characters"),
        ] {
            let refused = check(&with(length, formatter)).unwrap_err();
            assert!(refused.message.contains(why), "{}", refused.message);
        }
        assert!(check(&with(14, "123456{{PASSWORD}}")).is_ok());
        assert!(check(&with(USUAL_LENGTH, "")).is_ok());
    }

    #[test]
    fn policy_stands_alone_and_missing_policy_is_refused() {
        let host = TestHost::default();
        let rules = PasswordRules { policy: "pins", ..with(0, "") };
        assert!(check(&rules).is_ok());
        assert_eq!(generate(&host, &rules).unwrap_err().kind, FailureKind::InvalidRequest);
        host.add_policy("pins", r#"length = 8 rule "charset" { charset = "0123456789" }"#).unwrap();
        assert_eq!(generate(&host, &rules).unwrap().len(), 8);
    }
}
