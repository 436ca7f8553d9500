//! Phrases of older English that readers of technical texts stumble over.
//!
//! "X is no Y" is read twice, because "no" seems to belong to Y: the rule asks for "X is not a Y".
//! Error texts and help texts count like comments and documents.

use crate::sources::{Source, all, assert_none};

/// Page that shows the phrase as an example of the wrong style.
const EXAMPLES: &str = "docs/style.md";

/// This file, which contains the phrase.
const OWN: &str = "tests/tidy/dated_phrases.rs";

const VERBS: [&str; 4] = ["is", "are", "was", "were"];

/// Words after "is no" in phrases of today, such as "is no longer valid".
const USUAL: [&str; 3] = ["longer", "more", "such"];

/// Returns the phrases "is no …" of a text, except "there is no …" and the usual phrases.
fn phrases(text: &str) -> Vec<String> {
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let is_dated = |found: &&[&str]| {
        let [before, verb, no, after] = **found else { return false };
        VERBS.contains(&verb)
            && no == "no"
            && !before.eq_ignore_ascii_case("there")
            && !USUAL.contains(&after)
    };
    words.windows(4).filter(is_dated).map(|found| found.join(" ")).collect()
}

fn is_read(file: &Source) -> bool {
    let is_text = [".rs", ".md", ".wit", ".sh"].iter().any(|end| file.path.ends_with(end));
    is_text && file.path != EXAMPLES && file.path != OWN && !file.path.contains("/built-for-")
}

#[test]
fn no_text_says_that_something_is_no_thing() {
    let found = all().into_iter().filter(is_read).flat_map(|file| {
        let of_file = |phrase| format!("{}: {phrase}", file.path);
        phrases(&file.text).into_iter().map(of_file).collect::<Vec<_>>()
    });
    assert_none(found.collect(), "write \"is not a …\" instead of \"is no …\"");
}

#[cfg(test)]
mod of_the_rules_themselves {
    use super::*;

    #[test]
    fn phrase_is_found_across_lines_unlike_usual_phrases() {
        assert_eq!(phrases("/// this is\n    /// no token"), ["this is no token"]);
        assert_eq!(phrases("format!(\"{name} is no host; give one\")"), ["name is no host"]);
        assert!(phrases("if there is no token, there\n/// are no rights").is_empty());
        assert!(phrases("the key is no longer valid, and is not a key").is_empty());
        assert!(phrases("fn a_key_is_no_token_of_ours() {}").is_empty());
    }
}
