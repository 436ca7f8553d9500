//! Tests of `parse.rs`.

use super::*;
use serde_json::json;
use std::time::{Duration, Instant};

fn only_rule(text: &str) -> Rule {
    let mut policy =
        Policy::parse("test", text).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(policy.rules.len(), 1, "{text}");
    policy.rules.remove(0)
}

fn words(text: &str) -> Vec<&'static str> {
    only_rule(text).capabilities.into_iter().map(Capability::word).collect()
}

#[test]
fn everything_a_rule_can_say_is_kept() {
    let rule = only_rule(
        r#"
        name = "other"
        path "/database/creds/*" {
            comment = "for the orders service"
            capabilities = ["read", "update", "read"]
            allowed_parameters = { "TTL" = ["1h", 60, true, ["a"]], "*" = [] }
            denied_parameters { password = [] }
            required_parameters = ["Name"]
            min_wrapping_ttl = "1m"
            max_wrapping_ttl = 90
        }
        "#,
    );
    assert_eq!(rule.path, RulePath::parse("database/creds/*").unwrap());
    assert_eq!(rule.capabilities, BTreeSet::from([Capability::Read, Capability::Update]));
    assert_eq!(
        rule.constraints.allowed["ttl"],
        [json!("1h"), json!(60), json!(true), json!(["a"])]
    );
    assert!(
        rule.constraints.allowed["*"].is_empty() && rule.constraints.denied["password"].is_empty()
    );
    assert!(rule.constraints.required.contains("name"));
    assert_eq!((rule.min_wrapping_ttl, rule.max_wrapping_ttl), (60, 90));
}

#[test]
fn json_and_hcl_say_the_same() {
    let json = r#"{"path": {
        "a/*": {"capabilities": ["read"], "denied_parameters": {"x": ["y"]}}, "b": {}}}"#;
    let hcl =
        r#"path "a/*" { capabilities = ["read"] denied_parameters = { x = ["y"] } } path "b" {}"#;
    assert_eq!(Policy::parse("p", json).unwrap(), Policy::parse("p", hcl).unwrap());
}

#[test]
fn legacy_words_stand_for_capabilities() {
    assert_eq!(words(r#"path "x" { policy = "deny" }"#), ["deny"]);
    assert_eq!(words(r#"path "x" { policy = "read" }"#), ["list", "read"]);
    assert_eq!(
        words(r#"path "x" { policy = "write" }"#),
        ["create", "delete", "list", "read", "update"]
    );
    assert_eq!(
        words(r#"path "x" { policy = "sudo" }"#),
        ["create", "delete", "list", "read", "sudo", "update"]
    );
    assert_eq!(
        words(r#"path "x" { policy = "read" capabilities = ["patch"] }"#),
        ["list", "patch", "read"]
    );
}

#[test]
fn deny_leaves_nothing_beside_it() {
    assert_eq!(words(r#"path "x" { capabilities = ["read", "deny", "sudo"] }"#), ["deny"]);
    assert_eq!(words(r#"path "x" { policy = "write" capabilities = ["deny"] }"#), ["deny"]);
}

#[test]
fn words_of_other_editions_are_kept() {
    assert_eq!(
        words(r#"path "x" { capabilities = ["subscribe", "recover", "scan"] }"#),
        ["recover", "scan", "subscribe"]
    );
}

#[test]
fn policy_may_be_empty_or_repeat_patterns() {
    assert_eq!(Policy::parse("p", "").unwrap().rules, []);
    assert_eq!(Policy::parse("p", "path \"x\" {}\npath \"/x\" {}").unwrap().rules.len(), 2);
}

#[test]
fn every_refusal_names_the_line_and_the_remedy() {
    for (text, line, part) in [
        ("path \"x\" {\n capabilites = []\n}", 2, "did you mean \"capabilities\"?"),
        (
            "\npath \"x\" {\n capabilities = [\"raed\"]\n}",
            3,
            "unknown capability \"raed\"; did you mean \"read\"?",
        ),
        ("path \"x\" { capabilities = [\"Read\"] }", 1, "did you mean \"read\"?"),
        ("path \"x\" { capabilities = [\"root\"] }", 1, "unknown capability \"root\""),
        ("paths \"x\" {}", 1, "unknown key \"paths\"; did you mean \"path\"?"),
        ("path {}", 1, "one pattern and a block"),
        ("path \"x\" \"y\" {}", 1, "one pattern and a block"),
        ("path = \"x\"", 1, "one pattern and a block"),
        ("{\"path\": {\"x\": {}, \"y\": 1}}", 1, "one pattern and a block"),
        ("{\"path\": \n[{\"capabilities\": []}]}", 1, "one pattern and a block"),
        ("path \"x\" { capabilities = \"read\" }", 1, "is a list of texts, not text"),
        ("path \"x\" { capabilities = [1] }", 1, "is a list of texts, not a number"),
        ("path \"x\" { capabilities \"y\" {} }", 1, "takes no label"),
        (
            "path \"x\" {\n capabilities = [\"deny\"]\n capabilities = [\"read\"] }",
            3,
            "given twice",
        ),
        ("{\"path\": {\"x\": {\n\"policy\": \"deny\",\n\"policy\": \"read\"}}}", 3, "given twice"),
        ("path \"x\" { policy = \"admin\" }", 1, "unknown value \"admin\" of policy"),
        ("path \"x\" { policy = true }", 1, "is a text, not true or false"),
        ("path \"x\" { allowed_parameters = [\"a\"] }", 1, "is a block of lists"),
        ("path \"x\" { allowed_parameters = { a = \"b\" } }", 1, "is a block of lists"),
        ("path \"x\" { allowed_parameters { \"a\" \"b\" {} } }", 1, "is a block of lists"),
        ("path \"x\" { denied_parameters = { a = [{}] } }", 1, "not a block"),
        ("path \"x\" { denied_parameters = {\n A = []\n a = [1] } }", 3, "given twice"),
        ("path \"x\" { required_parameters = [true] }", 1, "is a list of texts"),
        ("path \"x\" { min_wrapping_ttl = \"soon\" }", 1, "min_wrapping_ttl"),
        ("path \"x\" { max_wrapping_ttl = -1 }", 1, "max_wrapping_ttl"),
        ("path \"x\" { min_wrapping_ttl = \"2h\" max_wrapping_ttl = \"1h\" }", 1, "shorter than"),
        ("path \"a*b\" {}", 1, "only at the end"),
        (
            "\npath \"a/{{identity.entity.id}\" {}",
            2,
            "path \"a/{{identity.entity.id}\" opens \"{{\"",
        ),
        (
            "path \"a/{{request.id}}\" {}",
            1,
            "names \"request.id\", which is not part of an identity",
        ),
        ("path \"x\" {", 1, "column 10: the block opened here"),
    ] {
        let error = Policy::parse("p", text).expect_err(text);
        assert!(error.message.contains(part), "{text:?} gave {error}");
        assert_eq!(error.line, line, "{text:?} gave {error}");
    }
}

#[test]
fn restrictions_that_cannot_be_enforced_refuse_the_policy() {
    for text in [
        "path \"x\" { mfa_methods = [\"a\"] }",
        "path \"x\" { control_group = { max_ttl = \"1h\" } }",
        "path \"x\" { pagination_limit = 10 }",
        "path \"x\" { expiration = \"2030-01-01T00:00:00Z\" }",
        "path \"x\" { list_scan_response_keys_filter_path = \"a\" }",
    ] {
        let error = Policy::parse("p", text).expect_err(text);
        assert!(error.message.contains("cannot enforce"), "{error}");
    }
}

#[test]
fn policy_size_rules_and_values_are_bounded() {
    let refusal = |text: &str| Policy::parse("p", text).unwrap_err();
    assert!(Policy::parse("p", &" ".repeat(MAX_TEXT)).is_ok());
    assert!(
        refusal(&" ".repeat(MAX_TEXT + 1))
            .message
            .contains("524289 bytes; at most 524288 are read")
    );
    let rules = |count: usize| "path \"x\" {}\n".repeat(count);
    assert_eq!(Policy::parse("p", &rules(MAX_RULES)).unwrap().rules.len(), MAX_RULES);
    let error = refusal(&rules(MAX_RULES + 1));
    assert!(
        error.message.contains("more than 5000 paths") && error.line == MAX_RULES + 1,
        "{error}"
    );
    for key in ["allowed_parameters", "denied_parameters"] {
        let values =
            |count: usize| format!("path \"x\" {{ {key} = {{ a = [{}] }} }}", "1,".repeat(count));
        assert!(Policy::parse("p", &values(MAX_VALUES)).is_ok());
        assert!(
            refusal(&values(MAX_VALUES + 1)).message.contains("\"a\" lists more than 500 values")
        );
    }
}

/// Each text has the maximum size of a policy and tries to cost more than its size.
#[test]
fn hostile_policy_of_maximum_size_parses_within_bounds() {
    let filled = |unit: &str| unit.repeat(MAX_TEXT / unit.len());
    let inside = |open: &str, unit: &str, close: &str| {
        format!("{open}{}{close}", unit.repeat((MAX_TEXT - open.len() - close.len()) / unit.len()))
    };
    let bombs = [
        filled("path \"x\" {"),
        filled("a = <<E\nE\n"),
        inside("name = <<-EOF\n", "  x\n", "  EOF"),
        inside("name = <<EOF\n", " EO\n", ""),
        inside("", "k", " = 1"),
        inside("\"", "k", "\" = 1"),
        inside("path \"x\" { ", "a=[]\n", "}"),
        inside("path \"x\" { allowed_parameters = {", "A=[]\n", "}}"),
        inside("path \"x\" { capabilities = [", "\"read\",", "] }"),
        inside("path \"x\" { required_parameters = [", "\"a\",", "] }"),
        inside("path \"", "{{identity.entity.id}}", "\" {}"),
        inside("path \"", "+/", "x\" {}"),
        inside("path \"x", "y", "\" {}"),
        inside("{\"path\": {", "\"x\": {},", "\"x\": {}}}"),
        inside("{\"path\": [", "{\"x\": {}},", "{}]}"),
        filled("{\"path\":"),
        filled("["),
        inside("/*", "/*", ""),
        inside("", "#\n", ""),
    ];
    let began = Instant::now();
    let read = bombs.iter().filter(|text| Policy::parse("p", text).is_ok()).count();
    assert_eq!(read, 3, "a long name, one word many times, and comments");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?} for {} texts",
        began.elapsed(),
        bombs.len()
    );
}

#[test]
fn parse_error_becomes_bad_request_with_known_message() {
    let failure = Failure::from(Policy::parse("p", "x = 1").unwrap_err());
    assert_eq!(failure.kind.status(), 400);
    assert!(
        failure.message.starts_with("failed to parse policy: line 1: unknown key \"x\""),
        "{failure}"
    );
}

#[test]
fn equal_wrapping_bounds_of_a_rule_are_accepted() {
    let equal = r#"path "x" { min_wrapping_ttl = 60 max_wrapping_ttl = "1m" }"#;
    let rules = Policy::parse("p", equal).unwrap().rules;
    assert_eq!((rules[0].min_wrapping_ttl, rules[0].max_wrapping_ttl), (60, 60));
}
