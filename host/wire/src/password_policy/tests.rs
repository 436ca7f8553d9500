//! Tests of the grammar, of refusals, and of the distribution of passwords.

use super::*;
use bulkhead_fuzz::Dice;
use std::collections::BTreeMap;

const LETTERS: &str = "length = 20\nrule \"charset\" {\n  charset = \"abcdefghij\"\n  \
                       min-chars = 1\n}\n";

/// Returns pseudo-random bytes, equal in every run.
fn bytes(seed: u64) -> impl FnMut() -> Result<u8, Failure> {
    let mut dice = Dice::of(seed);
    move || Ok(u8::try_from(dice.below(256)).unwrap())
}

fn refusal(text: &str) -> String {
    let refused = PasswordPolicy::accept(text, &mut bytes(1)).unwrap_err();
    assert_eq!(refused.kind, crate::failure::FailureKind::InvalidRequest, "{text}");
    refused.message
}

#[test]
fn hcl_and_json_spellings_are_equivalent() {
    let hcl = PasswordPolicy::parse(LETTERS).unwrap();
    let rule = r#"{"charset": "abcdefghij", "min-chars": 1}"#;
    for json in [
        format!(r#"{{"length": 20, "rule": {{"charset": {rule}}}}}"#),
        format!(r#"{{"length": 20, "rule": [{{"charset": {rule}}}]}}"#),
        format!(r#"{{"length": 20, "rule": [{{"charset": [{rule}]}}]}}"#),
        format!(r#"{{"rule": {{"charset": [{rule}]}}, "length": 20}}"#),
    ] {
        assert_eq!(PasswordPolicy::parse(&json).as_ref(), Ok(&hcl), "{json}");
    }
    let two = r#"{"length": 8, "rule": [{"charset": {"charset": "ab"}},
                 {"charset": {"charset": "01", "min-chars": 2}}]}"#;
    let line = r#"length = 8 rule "charset" { charset = "ab" }
                  rule "charset" { charset = "01" min-chars = 2 }"#;
    assert_eq!(PasswordPolicy::parse(two), PasswordPolicy::parse(line));
}

#[test]
fn every_password_satisfies_its_policy() {
    let texts = [
        LETTERS,
        r#"length = 4 rule "charset" { charset = "ab" min-chars = 2 }
           rule "charset" { charset = "01" min-chars = 2 }"#,
        r#"length = 100 rule "charset" { charset = "äöü漢字 \"'" }"#,
        r#"length = 12 rule "charset" { charset = "abc" min-chars = 4 }
           rule "charset" { charset = "cde" min-chars = 4 }"#,
    ];
    for (seed, text) in texts.into_iter().enumerate() {
        let mut bytes = bytes(u64::try_from(seed).unwrap());
        let policy = PasswordPolicy::accept(text, &mut bytes).unwrap();
        for _ in 0..200 {
            let password = policy.generate(&mut bytes).unwrap();
            assert!(policy.is_satisfied_by(&password), "{password} by {text}");
        }
    }
    let mut bytes = bytes(9);
    let password = PasswordPolicy::default().generate(&mut bytes).unwrap();
    assert!(PasswordPolicy::default().is_satisfied_by(&password), "{password}");
    assert!(!PasswordPolicy::default().is_satisfied_by("aaaaaaaaaaaaaaaaaaaa"));
    assert!(!PasswordPolicy::default().is_satisfied_by("aA0-"));
}

/// Draws 200 passwords for each of the passwords of 4 characters of `abcd` with at least one `d`
/// and one of `ab`. The chi-square statistic has the number of passwords minus 1 as its mean, and
/// twice the mean as its variance. The draws are equal in every run, and stay within four
/// deviations.
#[test]
fn passwords_satisfying_policy_are_equally_likely() {
    let text = r#"length = 4 rule "charset" { charset = "d" min-chars = 1 }
                  rule "charset" { charset = "ab" min-chars = 1 }
                  rule "charset" { charset = "abc" }"#;
    let policy = PasswordPolicy::parse(text).unwrap();
    let possible = 4_u32.pow(4) - 3_u32.pow(4) - 2_u32.pow(4) + 1;
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut bytes = bytes(0x5eed);
    for _ in 0..possible * 200 {
        *counts.entry(policy.generate(&mut bytes).unwrap()).or_default() += 1;
    }
    assert_eq!(counts.len(), usize::try_from(possible).unwrap(), "each of them came");
    let distance = |count: &u32| (f64::from(*count) - 200.0).powi(2) / 200.0;
    let chi_square: f64 = counts.values().map(distance).sum();
    let freedom = f64::from(possible - 1);
    assert!((chi_square - freedom).abs() < 4.0 * (2.0 * freedom).sqrt(), "{chi_square}");
}

#[test]
fn invalid_password_policy_error_names_mistake() {
    let charset = r#"rule "charset" { charset = "abc" }"#;
    for (text, says) in [
        (charset.to_owned(), "length is missing"),
        ("length = 20".to_owned(), "there is no rule"),
        (format!("length = 3\n{charset}"), "length is 3; passwords have 4 to 100"),
        (format!("length = 101\n{charset}"), "length is 101"),
        (format!("length = -5\n{charset}"), "line 1: length is a whole number"),
        (format!("length = 8.5\n{charset}"), "line 1: length is a whole number"),
        (format!("length = \"8\"\n{charset}"), "line 1: length is a number, not text"),
        (format!("length = 8\nlength = 9\n{charset}"), "line 2: length is given twice"),
        (format!("length = 8\nlenght = 9\n{charset}"), "did you mean \"length\"?"),
        ("length = 8\nrule \"regex\" { charset = \"a\" }".to_owned(), "unknown kind of rule"),
        ("length = 8\nrule \"charset\" {\n}".to_owned(), "line 2: charset is missing"),
        ("length = 8\nrule \"charset\" { charset = \"\" }".to_owned(), "no characters"),
        ("length = 8\nrule \"charset\" { charset = [\"a\"] }".to_owned(), "is a text, not a list"),
        ("length = 8\nrule \"charset\" { charset = \"a\\n\" }".to_owned(), "U+000A"),
        (format!("length = 8\n{}", charset.replace("= \"abc\"", "= \"abc\" max = 3")), "unknown"),
        ("length = 8\nrule = 5".to_owned(), "a rule is written as"),
        ("length = 8\nrule \"a\" \"b\" { }".to_owned(), "a rule is written as"),
        ("length = ".to_owned(), "line 1"),
        (String::new(), "length is missing"),
        (r#"{"length": 8, "rule": [{"charset": "abc"}]}"#.to_owned(), "a rule is a block"),
        (format!("length = 8\n{}", charset.repeat(33)), "more than 32 rules"),
        (format!("length = 8 # {}\n{charset}", "x".repeat(MAX_TEXT)), "at most 65536 are read"),
    ] {
        let refused = refusal(&text);
        assert!(refused.contains(says), "{text}: {refused}");
        assert!(refused.starts_with("failed to parse password policy: "), "{refused}");
    }
}

#[test]
fn rules_needing_more_than_length_are_refused() {
    let text = "length = 4\nrule \"charset\" { charset = \"abc\"\n min-chars = 5 }";
    assert!(refusal(text).contains("at least 5 characters, but length is 4"));
    let huge = text.replace("= 5", "= 18446744073709551615");
    let two = format!("{huge}\nrule \"charset\" {{ charset = \"d\" min-chars = 9 }}");
    assert!(refusal(&two).contains("lower min-chars"));
}

#[test]
fn rarely_satisfied_rules_are_refused_in_bounded_work() {
    let text =
        "length = 100 rule \"charset\" { charset = \"abcdefghijklmnopqrstuvwxyz0123456789\" }
                rule \"charset\" { charset = \"-\" min-chars = 60 }";
    let mut drawn = 0_u32;
    let mut bytes = bytes(3);
    let refused = PasswordPolicy::accept(text, &mut || {
        drawn += 1;
        bytes()
    });
    assert!(refused.unwrap_err().message.contains("takes too long"));
    assert!(drawn <= 2 * MAX_TRIAL_CHARACTERS, "{drawn}");
    let usual = "length = 12 rule \"charset\" { charset = \"abcdefghijklmnopqrstuvwxyz\" \
                 min-chars = 4 }
                 rule \"charset\" { charset = \"ABCDEFGHIJKLMNOPQRSTUVWXYZ\" min-chars = 4 }
                 rule \"charset\" { charset = \"0123456789\" min-chars = 2 }
                 rule \"charset\" { charset = \"!$%&+-=?\" min-chars = 2 }";
    assert!(
        PasswordPolicy::accept(usual, &mut bytes).is_ok(),
        "a policy that one text in fifty meets is accepted"
    );
}
