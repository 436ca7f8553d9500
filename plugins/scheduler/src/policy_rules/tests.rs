//! Rules, compared with the answers of the scheduler's own parser.

use super::words::{KINDS, VARIABLES};
use super::{check, shown};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// One line for each text: the parsed form without null members and without `Raw`; no parsed form
/// if the text is refused.
const RECORDED: &str = include_str!("../../fixtures/rules/nomad-2.0.5.jsonl");

#[derive(Deserialize)]
struct RecordedRules {
    rules: String,
    parsed: Option<Map<String, Value>>,
}

fn recorded() -> Vec<RecordedRules> {
    RECORDED.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns our parsed form in the shape of a recorded line.
fn parsed(rules: &str) -> Option<Map<String, Value>> {
    let Value::Object(mut shown) = shown(rules) else { return None };
    assert_eq!(shown.remove("Raw").unwrap(), rules);
    shown.retain(|_, value| !value.is_null());
    Some(shown)
}

#[test]
fn recorded_rules_have_the_recorded_verdict_and_form() {
    let differs = |line: &RecordedRules| {
        let ours = parsed(&line.rules);
        (ours != line.parsed).then(|| {
            let why = check(&line.rules).err().unwrap_or_default();
            format!("{:?}: {ours:?} for {:?} {why}", line.rules, line.parsed)
        })
    };
    let differences: Vec<String> = recorded().iter().filter_map(differs).collect();
    let lines = differences.join("\n");
    assert!(differences.is_empty(), "{} differ:\n{lines}", differences.len());
}

#[test]
fn every_word_of_the_table_is_recorded() {
    let texts: BTreeSet<String> = recorded().into_iter().map(|line| line.rules).collect();
    for kind in &KINDS {
        let block = match kind.label {
            super::BlockLabel::Absent => kind.block.to_owned(),
            super::BlockLabel::Required(_) => format!("{} \"d\"", kind.block),
        };
        for level in kind.levels {
            let text = format!("{block} {{ policy = {:?} }}", level.word);
            assert!(texts.contains(&text), "{text}");
        }
        for word in kind.capabilities.unwrap_or_default() {
            let text = format!("{block} {{ capabilities = [{word:?}] }}");
            assert!(texts.contains(&text), "{text}");
        }
    }
    for word in VARIABLES {
        let path = format!("path \"a\" {{ capabilities = [{word:?}] }}");
        let text = format!("namespace \"d\" {{ variables {{ {path} }} }}");
        assert!(texts.contains(&text), "{text}");
    }
}

#[test]
fn a_refusal_names_line_value_and_known_words() {
    for (rules, says) in [
        ("castle \"x\" { }", "castle: line 1 has an unknown block; known are namespace, "),
        ("\nnamespace { }", "Invalid namespace name: line 2 has 0 labels; give one"),
        ("namespace \"a b\" { }", "\"a b\"; give 1 to 128 letters"),
        ("agent \"a\" { }", "a: line 1 has a label; write `agent { … }`"),
        ("node_pool \"a\" { policy = \"fly\" }", "\"fly\"; give one of read, write, scale, deny"),
        ("agent { }", "line 1 has the policy \"\"; give one of read, write, scale, deny as policy"),
        ("agent { policy = 1 }", "line 1 has a number; give one of"),
        ("sentinel { capabilities = [\"fly\"] }", "'fly': line 1; known are deny, sentinel-read"),
        ("operator { capabilities = \"deny\" }", "line 1 has text; write a list of texts"),
        (
            "quota { policy = \"read\" }\nquota { }",
            "Invalid quota policy: line 2 has the policy \"\"",
        ),
        ("node { policy = \"read\" }\nnode { policy = \"read\" }", "line 2 repeats the block"),
        ("agent = \"read\"", "Invalid agent policy: line 1 has text; write a block"),
        ("# x", "no block; give one of namespace, node_pool"),
        ("namespace \"a\" {", "line 1"),
        ("namespace \"a\" { variables { path \"/x\" { } } }", "\"/x\": line 1; give a path"),
        ("namespace \"a\" { variables { } }", "no variable paths in line 1; write `path"),
        ("namespace \"a\" { variables { path { } } }", "line 1 has no single path as label"),
        ("namespace \"a\" { variables \"x\" { } }", "Invalid variables: line 1; write"),
    ] {
        let why = check(rules).expect_err(rules);
        assert!(why.contains(says), "{rules}: {why}");
    }
}

#[test]
fn variables_in_a_plain_json_object_are_read() {
    let json = r#"{"namespace":{"d":{"variables":{"path":{"a/*":{"capabilities":["read"]}}}}}}"#;
    let native = "namespace \"d\" { variables { path \"a/*\" { capabilities = [\"read\"] } } }";
    assert_eq!(parsed(json).unwrap(), parsed(native).unwrap());
}
