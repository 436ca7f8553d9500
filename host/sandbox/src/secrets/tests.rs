//! Tests of scrubbing: echoes, guesses, and spellings of secrets.

use super::*;
use crate::bindings::secrets_engine::bulkhead::plugin::types::{Caller, Mount};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

const TEXT: usize = 4_096;

fn set(values: &[&str]) -> SecretSet {
    let set = SecretSet::default();
    values.iter().for_each(|value| set.add(value));
    set
}

fn call(captures: &[&str], fields: &Value) -> Call {
    let caller = Caller {
        entity: String::new(),
        display_name: String::new(),
        id: String::new(),
        capabilities: Vec::new(),
        remote_address: String::new(),
        ext: Vec::new(),
    };
    let mount = Mount {
        path: "m/".to_owned(),
        accessor: String::new(),
        kind: String::new(),
        default_ttl: 0,
        max_ttl: 0,
        longest_lease: 0,
        options: Vec::new(),
        ext: Vec::new(),
    };
    Call {
        id: String::new(),
        operation: "update".to_owned(),
        route: String::new(),
        captures: captures.iter().map(|text| ("name".to_owned(), (*text).to_owned())).collect(),
        fields: fields.to_string(),
        deadline: 0,
        caller,
        mount,
        ext: Vec::new(),
    }
}

/// Makes the set of a call with these secrets, captures and fields.
fn heard(secrets: &[&str], captures: &[&str], fields: &Value) -> SecretSet {
    let set = set(secrets);
    set.set_caller_words(&call(captures, fields));
    set
}

/// Pseudorandom numbers, the same in each run of the tests.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn text(&mut self, letters: &str, length: usize) -> String {
        let letters: Vec<char> = letters.chars().collect();
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }
}

#[test]
fn pem_body_is_redacted_without_its_markers() {
    let body = "MC4CAQAwBQYDK2VwBCIEIHq3vYxUuY0mXHnK0bZ1l8pQeT7cWfJ5s2aRgVdNiLkE";
    for label in ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY", "CERTIFICATE"] {
        let pem = format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
        let file = json!({ "private_key": pem }).to_string();
        for secret in [&pem, &file, &pem.replace('\n', "\r\n")] {
            let secrets = set(&[secret]);
            for text in [
                "ca_private_key: the PEM holds a certificate and no private key",
                "the certificate is not that of the EC private key; give one RSA private key",
                "write it with -----BEGIN PRIVATE KEY----- before it",
            ] {
                assert_eq!(secrets.scrub(text, TEXT), text, "{label}");
            }
            for piece in [body.to_owned(), body[..20].to_owned(), pem.clone()] {
                let scrubbed = secrets.scrub(&format!("it is {piece}, they say"), TEXT);
                assert!(scrubbed.contains(REDACTION), "{scrubbed}");
                let shown = letters(&scrubbed);
                for run in body.as_bytes().windows(12) {
                    let run = letters(std::str::from_utf8(run).unwrap());
                    assert!(!shown.windows(12).any(|window| window == run), "{scrubbed}");
                }
            }
        }
    }
    let password = "hunter2-----END PRIVATE KEY-----hunter3";
    let scrubbed = set(&[password]).scrub(&format!("got {password}"), TEXT);
    assert!(!scrubbed.contains("hunter"), "{scrubbed}");
}

#[test]
fn a_lower_cased_and_cut_piece_is_hidden() {
    let scrubbed =
        set(&["ab'cSECRETdefghi"]).scrub("unrecognized role option \"csecretdefghi\"", TEXT);
    assert_eq!(scrubbed, "unrecognized role option \"[secret]\"");
}

#[test]
fn text_that_shares_less_than_twelve_characters_stays() {
    let set = set(&["permission-denied-4711", "hunter2-hunter2"]);
    for text in ["permission denied", "role \"app\" does not exist", "permission-", "hunter2-hun"] {
        assert_eq!(set.scrub(text, TEXT), text);
    }
    assert_eq!(set.scrub("permission-denied: no", TEXT), "[secret]: no");
}

#[test]
fn short_secret_is_hidden_as_separate_unusual_word() {
    let set = set(&["hunter2", "postgres", "abc", "x-7"]);
    assert_eq!(
        set.scrub("password \"Hunter2\" of hunter22", TEXT),
        "password \"[secret]\" of hunter22"
    );
    for text in ["user \"postgres\"", "abc", "x-7"] {
        assert_eq!(set.scrub(text, TEXT), text);
    }
}

#[test]
fn encoded_forms_of_a_secret_are_hidden_too() {
    let secret = "it's 100% \"säcret\"";
    let set = set(&[secret]);
    let header = STANDARD.encode(format!("root:{secret}"));
    for spelling in [
        secret,
        "it''s 100% \"säcret\"",
        "it%27s%20100%25%20%22s%C3%A4cret%22",
        "it's 100% \\\"säcret\\\"",
        &hexadecimal(secret),
        &secret.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", "),
    ] {
        assert_eq!(set.scrub(spelling, TEXT), "[secret]", "{spelling}");
    }
    let shown = set.scrub(&header, TEXT);
    assert!(shown.contains("[secret]") && shown.len() < 24, "{shown}");
}

#[test]
fn answer_keeps_caller_words_that_join_to_secret() {
    let secret = "abcdefgh12345678";
    let set = heard(&[secret], &[], &json!({ "one": "abcdefgh", "two": "12345678" }));
    let message = "neither abcdefgh, 12345678 nor another";
    assert_eq!(set.scrub_for_caller(message, TEXT), message);
    assert_eq!(set.scrub(message, TEXT), "neither [secret] nor another");
}

#[test]
fn broken_pem_labels_stay_in_logs() {
    let body = "MC4CAQAwBQYDK2VwBCIEIHq3vYxUuY0mXHnK0bZ1l8pQeT7cWfJ5s2aRgVdNiLkE";
    let pem = format!("-----BEGIN EC PRIVATE KEY-----\n{body}\n-----END EC PRIVATE KEY-----\n");
    let secrets = set(&[&pem]);
    let text = "the EC private key,\n-----BEGIN\nEC PRIVATE KEY-----";
    assert_eq!(secrets.scrub(text, TEXT), text);
    let broken = format!("{}\n{}", &body[..8], &body[8..]);
    assert_eq!(secrets.scrub(&broken, TEXT), "[secret]");
}

fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_full_set_hides_everything() {
    let set = SecretSet::default();
    set.add("hunter2-hunter2");
    assert_eq!(set.scrub("an ordinary word", TEXT), "an ordinary word");
    for number in 0..5_000 {
        set.add(&format!("{number:016}"));
    }
    assert_eq!(set.scrub("an ordinary word", TEXT), "[secret]");
    assert!(set.reveals_secret("role/reader"));
    let secrets = set.lock();
    assert!(
        secrets.added.is_empty() && secrets.plain.is_empty(),
        "a repeated secret is not added again"
    );
}

#[test]
fn repeated_secret_does_not_fill_secret_set() {
    let (set, long) = (SecretSet::default(), "0123456789abcdef".repeat(4_096));
    for _ in 0..10 {
        set.add(&long);
        set.add("Reader-4711-Horse-Battery");
    }
    assert_eq!(set.scrub("an ordinary word", TEXT), "an ordinary word");
    assert_eq!(set.scrub("-4711-horse-bat", TEXT), "[secret]");
    assert!(!set.reveals_secret("4711-horse") && set.reveals_secret("x-4711-horse-battery"));
}

#[test]
fn names_allow_short_secrets_and_refuse_long_pieces() {
    let set = set(&["vault-db1", "Reader-4711-Horse-Battery"]);
    assert!(!set.reveals_secret("config/vault-db1") && !set.reveals_secret("role/reader"));
    assert!(set.reveals_secret("role/x-4711-hORSE-bat"));
}

#[test]
fn cut_text_keeps_characters_whole_and_secrets_redacted() {
    assert_eq!(set(&[]).scrub("aé", 2), "a");
    let set = set(&["Reader-4711-Horse-Battery"]);
    assert_eq!(set.scrub("for reader-4711-horse-battery", 12), "for [secret]");
    assert_eq!(set.scrub("for reader-4711-horse-battery", 4), "for ");
}

#[test]
fn caller_words_stay_in_answers_and_not_logs() {
    let token = [r#"{"alg":"RS256-Horse"}"#, r#"{"aud":["x-4711-Horse-Battery"]}"#, "sig"]
        .map(|part| URL_SAFE_NO_PAD.encode(part))
        .join(".");
    let secret = "Reader-4711-Horse-Battery\"RS256-Horse-4711";
    let fields = json!({"vm": "eader-4711-Horse-Ba", "inside": {"n": [42]}, "jwt": token});
    let set = heard(&[secret], &["Horse-4711-x"], &fields);
    set.add_sensitive_field(&token);
    for said in ["eader-4711-Horse-Ba", "-4711-Horse-Battery", "RS256-Horse", "Horse-4711"] {
        let message = format!("{said:?} is not admitted");
        assert_eq!(set.scrub_for_caller(&message, TEXT), message);
    }
    assert_eq!(set.scrub("\"eader-4711-Horse-Ba\"", TEXT), "\"[secret]\"");
    assert!(set.scrub_for_caller(secret, TEXT).contains("[secret]"), "the rest of it was not said");
}

#[test]
fn secret_fields_of_caller_are_not_repeated() {
    let password = "Reader-4711-Horse";
    let url = format!("postgres://root:{password}@db/app");
    let fields = json!({"password": password, "url": url, "username": "reader"});
    let set = heard(&[], &[], &fields);
    set.add_sensitive_field(password);
    let message = format!("cannot log in reader by {password} at {url}");
    assert_eq!(
        set.scrub_for_caller(&message, TEXT),
        "cannot log in reader by [secret] at postgres://root:[secret]@db/app"
    );
}

/// Property: a message that consists of the caller's words and of ordinary words stays unchanged,
/// regardless of the secret.
#[test]
fn answer_in_caller_words_is_independent_of_secrets() {
    const FORMS: [&str; 6] = [
        "role {a} not found",
        "{a}/{b}",
        "{a}.{b} is not an id",
        "{q} and {b}: permission denied",
        "{a}{s}{b}",
        "{e}",
    ];
    let mut dice = Dice(0x5eed);
    for round in 0..4_000 {
        let form = FORMS[round % FORMS.len()];
        let joint = ["", "/", ".", "-", " ", ": "][dice.below(6)];
        let length = dice.below(40) + 4;
        let secret = dice.text("abcDEF0123456789-._/ \"'+%", length);
        // Guesses: pieces of the secret, pieces with a wrong letter, and random texts.
        let mut guess = || {
            let start = dice.below(secret.len());
            let end = (start + dice.below(24) + 1).min(secret.len());
            match dice.below(3) {
                0 => secret[start..end].to_owned(),
                1 => format!("{}z", &secret[start..end]),
                _ => dice.text("abc012-", 9),
            }
        };
        let (a, b) = (guess(), guess());
        let escaped: String = a.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let message = form
            .replace("{q}", &format!("{a:?}"))
            .replace("{e}", &escaped)
            .replace("{s}", joint)
            .replace("{a}", &a)
            .replace("{b}", &b);
        let fields = json!({"role": a, "list": [b]});
        let answers = [&*secret, "another-secret-of-4711"]
            .map(|secret| heard(&[secret], &[], &fields).scrub_for_caller(&message, TEXT));
        assert_eq!(answers[0], answers[1], "{secret:?} {fields}");
        assert_eq!(answers[0], message, "{secret:?} {fields}");
        let names = [&*secret, "another-secret-of-4711"]
            .map(|secret| heard(&[secret], &[], &fields).reveals_secret(&format!("role/{a}")));
        assert_eq!(names[0], names[1], "{secret:?} {fields}");
    }
}

/// Property: in any context, no piece of 12 characters of a secret is left, except the caller's own
/// words.
#[test]
fn echoed_secret_leaves_no_long_piece() {
    let mut dice = Dice(0xec40);
    for _ in 0..2_000 {
        let length = dice.below(60) + RUN_LENGTH;
        let secret = dice.text("abcdefghijklmnopqrstuvwxyzABCDEF0123456789-_'\"\\+/", length);
        let start = dice.below(length - RUN_LENGTH + 1);
        let piece =
            &secret[start..start + RUN_LENGTH + dice.below(length - start - RUN_LENGTH + 1)];
        let message = format!("syntax error at or near {piece:?}: {piece}");
        let fields = json!({"a": dice.text("abc", 3), "b": "syntax"});
        let set = heard(&[&secret], &["error"], &fields);
        for shown in [set.scrub(&message, TEXT), set.scrub_for_caller(&message, TEXT)] {
            let left = letters(&shown);
            let leaks = letters(&secret)
                .windows(RUN_LENGTH)
                .any(|run| left.windows(RUN_LENGTH).any(|w| w == run));
            assert!(!leaks, "{secret:?}: {shown}");
        }
    }
}
