//! Fuzz tests of durations, HCL, password policies and envelopes, with almost valid input.

use bulkhead_wire::password_policy::PasswordPolicy;
use bulkhead_wire::response::Response;
use bulkhead_wire::{duration, hcl, size};
use serde_json::{Map, Value};

#[test]
fn durations() {
    let seeds: [&[u8]; 5] = [b"1h30m", b"-5s", b"1.5h", b"768h", b"250ms"];
    bulkhead_fuzz::run(
        "durations",
        &seeds,
        &["ns", "us", "ms", "99999999999999999999", ".", "-", "KiB", " "],
        |bytes| {
            let text = String::from_utf8_lossy(bytes);
            if let Ok(seconds) = duration::parse(&text) {
                assert!(seconds <= duration::MAX_DURATION_SECONDS);
                assert_eq!(duration::parse(&duration::show(seconds)), Ok(seconds));
            }
            if let Ok(bytes) = size::parse(&text) {
                assert_eq!(size::parse(&size::show(bytes)), Ok(bytes));
            }
        },
    );
}

#[test]
fn hcl() {
    let seeds: [&[u8]; 3] = [
        br#"path "secret/*" { capabilities = ["read", "list"] max_wrapping_ttl = 90 }"#,
        br#"{"path": {"a/+/b": {"capabilities": ["deny"], "required_parameters": ["x"]}}}"#,
        b"# words\nname = \"a\" // more\n\
          path \"a\" { allowed_parameters = { \"k\" = [\"v\", 1, true, null] } }",
    ];
    let words = [
        "{", "}", "[", "]", "\"", "<<EOT\n", "EOT\n", "${", "/*", "*/", "\\u", "\u{feff}", "=", ",",
    ];
    bulkhead_fuzz::run("HCL", &seeds, &words, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Err(why) = hcl::parse(&text) {
            assert!(why.to_string().len() < 1_000, "a refusal does not repeat the text");
        }
    });
}

#[test]
fn password_policies() {
    let seeds: [&[u8]; 3] = [
        br#"length = 20 rule "charset" { charset = "abcdefgh" min-chars = 2 }"#,
        br#"length = 8 rule "charset" { charset = "a" } rule "charset" { charset = "01" }"#,
        br#"{"length": 20, "rule": [{"charset": {"charset": "abc", "min-chars": 9}}]}"#,
    ];
    let words = ["length", "rule", "charset", "min-chars", "99", "-1", "{", "}", "\"", "\u{301}"];
    bulkhead_fuzz::run("password policies", &seeds, &words, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let mut dice = bulkhead_fuzz::Dice::of(7);
        let mut random = || Ok(u8::try_from(dice.below(256)).unwrap());
        match PasswordPolicy::accept(&text, &mut random) {
            Ok(policy) => {
                let password = policy.generate(&mut random).unwrap();
                assert!(policy.is_satisfied_by(&password));
            }
            Err(why) => assert!(why.message.len() < 1_000, "a refusal does not repeat the text"),
        }
    });
}

#[test]
fn envelopes() {
    let seeds: [&[u8]; 2] = [b"username\npassword\nwarning", b"{\"errors\":[]}\n\"\\"];
    bulkhead_fuzz::run(
        "envelope",
        &seeds,
        &["\0", "\u{2028}", "\"}", "\\u0000", "\u{ffff}"],
        |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let data: Map<String, Value> =
                text.lines().map(|line| (line.to_owned(), Value::from(line))).collect();
            let (status, _, written) = Response::data(text.clone(), data.clone()).into_bytes();
            let read: Value = serde_json::from_slice(&written).unwrap();
            assert_eq!((status, read.as_object().unwrap().len()), (200, 9));
            assert_eq!(
                (read["request_id"].as_str(), &read["data"]),
                (Some(&*text), &Value::Object(data))
            );
        },
    );
}
