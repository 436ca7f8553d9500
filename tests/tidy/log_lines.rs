//! Causes of failures in log lines: only values that may be recorded, never a failure's message,
//! which repeats values.

use crate::rust_text::{code, without_tests};
use crate::sources::{Source, assert_none, rust_below};

/// File that creates the cause of a log line.
const MADE: &str = "host/access/src/log.rs";

/// Returns the rest of the line after each beginning of a pair of texts; calls are not pairs.
fn pairs_of(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("(\"").filter_map(|(at, _)| {
        let is_call = line[..at].ends_with(|c: char| c.is_alphanumeric() || "_!".contains(c));
        line[at..].split_once("\", ").map(|(_, value)| value).filter(|_| !is_call)
    })
}

/// Returns causes that are created elsewhere, and pairs with a message, as `path:line`.
fn offences(file: &Source) -> Vec<String> {
    let shown = without_tests(&file.text, &code(&file.text));
    let mut found = Vec::new();
    for (index, line) in shown.lines().enumerate() {
        let is_cause = line.contains("(\"cause\",");
        if is_cause || pairs_of(line).any(|pair| pair.contains(".message")) {
            found.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
        }
    }
    found
}

#[test]
fn log_causes_are_values_that_may_be_recorded() {
    let product = rust_below(&["host"]);
    let looked_at = product.iter().filter(|file| file.path != MADE && !file.is_of_tests());
    assert_none(
        looked_at.flat_map(offences).collect(),
        "create the pair with `cause` of host/access/src/log.rs: a message may repeat a value",
    );
}

#[test]
fn only_pairs_in_product_code_are_checked() {
    let found =
        |text: &str| offences(&Source { path: "x.rs".to_owned(), text: text.to_owned() }).len();
    assert_eq!(found("log.line(\"warn\", \"x\", &[(\"cause\", why)]);"), 1);
    assert_eq!(found("let pairs = [(\"why\", failure.message.clone())];"), 1);
    assert_eq!(found("let pairs = [cause(&failure)];"), 0);
    assert_eq!(found("refuse(\"a\", failure.message);"), 0);
    assert_eq!(found("#[cfg(test)]\nmod tests {\n    x(&[(\"cause\", why)]);\n}"), 0);
}
