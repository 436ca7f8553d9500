//! What a line of the log says of a failure: what may be recorded, and never its message, which
//! repeats values.

use crate::rust_text::{code, without_tests};
use crate::sources::{Source, assert_none, rust_below};

/// Where the cause of a line is made.
const MADE: &str = "host/access/src/log.rs";

/// What follows each beginning of a pair of texts, which is no call.
fn pairs_of(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("(\"").filter_map(|(at, _)| {
        let is_call = line[..at].ends_with(|c: char| c.is_alphanumeric() || "_!".contains(c));
        line[at..].split_once("\", ").map(|(_, value)| value).filter(|_| !is_call)
    })
}

/// Causes that are made elsewhere, and pairs that hold a message, as `path:line`.
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
fn a_line_gives_as_its_cause_what_may_be_recorded() {
    let product = rust_below(&["host"]);
    let looked_at = product.iter().filter(|file| file.path != MADE && !file.is_of_tests());
    assert_none(
        looked_at.flat_map(offences).collect(),
        "make the pair with `cause` of host/access/src/log.rs: a message may repeat a value",
    );
}

#[test]
fn only_pairs_of_the_product_are_looked_at() {
    let found =
        |text: &str| offences(&Source { path: "x.rs".to_owned(), text: text.to_owned() }).len();
    assert_eq!(found("log.line(\"warn\", \"x\", &[(\"cause\", why)]);"), 1);
    assert_eq!(found("let pairs = [(\"why\", failure.message.clone())];"), 1);
    assert_eq!(found("let pairs = [cause(&failure)];"), 0);
    assert_eq!(found("refuse(\"a\", failure.message);"), 0);
    assert_eq!(found("#[cfg(test)]\nmod tests {\n    x(&[(\"cause\", why)]);\n}"), 0);
}
