//! Blocks of documents, which tests run as printed.

use crate::paths::repository;
use std::fs;

/// Returns the text between the marks `<!-- name:begin -->` and `<!-- name:end -->` of a document,
/// without the fence.
///
/// # Panics
/// If the document lacks one of the marks.
pub fn block_of(document: &str, name: &str) -> String {
    let text = fs::read_to_string(repository().join(document)).expect("the document exists");
    let (_, after) =
        text.split_once(&format!("<!-- {name}:begin -->\n")).expect("the block begins");
    let (inside, _) = after.split_once(&format!("<!-- {name}:end -->")).expect("the block ends");
    inside.lines().filter(|line| !line.starts_with("```")).collect::<Vec<_>>().join("\n")
}

/// Replaces each of the texts, which a document has exactly as often as stated.
///
/// # Panics
/// If a text is there more or less often: the document has changed, and the test would run
/// something else.
pub fn substituted(block: &str, texts: &[(&str, usize, &str)]) -> String {
    let mut block = block.to_owned();
    for (text, times, other) in texts {
        assert_eq!(block.matches(text).count(), *times, "{text} in {block}");
        block = block.replace(text, other);
    }
    block
}
