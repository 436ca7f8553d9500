//! Names of types: within a crate one name means one thing, and most names are noun phrases. Names
//! of tests: no word stands for a noun outside of the name.

use crate::prose::prepositional;
use crate::sources::{EVERYWHERE, Source, assert_none, rust_below};
use std::collections::{BTreeMap, BTreeSet};

/// Highest share of type names of one word in all crates together, in percent. Nouns of the field,
/// such as `Lease`, stay one word.
const MOST_OF_ONE_WORD: usize = 20;

/// Names that a crate defines twice, with the reason.
const TWICE: [(&str, &str, &str); 1] =
    [("plugins/sdk", "Host", "one trait, with and without the functions of the test bed")];

/// Returns the name of the type that a line defines: a struct, an enum, a trait, or an alias
/// outside of an `impl`.
fn defined(line: &str) -> Option<&str> {
    let words = line.trim_start();
    let words = words.strip_prefix("pub").map_or(words, |rest| {
        let rest = rest.trim_start();
        let inside = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        inside.map_or(rest, |(_, rest)| rest).trim_start()
    });
    let is_indented = line.starts_with(' ');
    let (kind, rest) = words.split_once(' ')?;
    let is_type =
        ["struct", "enum", "trait", "union"].contains(&kind) || (kind == "type" && !is_indented);
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let name = rest.get(..end)?;
    (is_type && name.starts_with(|c: char| c.is_ascii_uppercase())).then_some(name)
}

/// Returns true for a name without a second capital letter after a small one.
fn is_one_word(name: &str) -> bool {
    let bytes = name.as_bytes();
    !bytes.windows(2).any(|pair| !pair[0].is_ascii_uppercase() && pair[1].is_ascii_uppercase())
}

/// Returns the crate of a file of product code.
fn crate_of(file: &Source) -> Option<&str> {
    let is_test =
        file.is_of_tests() || file.path.contains("/testbed") || file.path.contains("fuzz");
    let (folder, _) = file.path.split_once("/src/")?;
    (!is_test).then_some(folder)
}

#[test]
fn type_name_has_one_meaning_per_crate() {
    let sources = rust_below(&["host", "plugins"]);
    let mut names: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for file in &sources {
        let Some(folder) = crate_of(file) else { continue };
        let product = file.code().map(|(_, line)| line).take_while(|line| *line != "mod tests {");
        for name in product.filter_map(defined) {
            names.entry((folder, name)).or_default().push(&file.path);
        }
    }
    assert!(names.len() > 1_000, "only {} types were found", names.len());
    let exceptions: BTreeSet<(&str, &str)> =
        TWICE.iter().map(|(folder, name, _)| (*folder, *name)).collect();
    let twice = names.iter().filter(|(key, files)| files.len() > 1 && !exceptions.contains(*key));
    let found = twice.map(|((_, name), files)| format!("{name} in {}", files.join(", ")));
    assert_none(found.collect(), "give each type a name that says which one it is");
    let short = names.keys().filter(|(_, name)| is_one_word(name)).count();
    assert!(
        short * 100 <= names.len() * MOST_OF_ONE_WORD,
        "{short} of {} type names are one word, more than {MOST_OF_ONE_WORD} %; name new types by \
         noun phrases",
        names.len()
    );
}

#[test]
fn definitions_of_types_are_read() {
    assert_eq!(defined("pub(crate) struct LeaseRow<T> {"), Some("LeaseRow"));
    assert_eq!(defined("    enum Kind {"), Some("Kind"));
    assert_eq!(defined("type Reply = u8;"), Some("Reply"));
    assert_eq!(defined("    type Error = Failure;"), None);
    assert_eq!(defined("let structure = struct_of();"), None);
    assert!(is_one_word("Held") && is_one_word("ACL") && !is_one_word("HeldMemory"));
}

/// Words of a test's name that stand for a noun outside of the name.
const VAGUE: [&str; 7] = ["who", "what", "whose", "whom", "told", "tells", "those"];

/// Returns the names of the functions below an attribute `test`.
fn tests_of(text: &str) -> Vec<&str> {
    let (mut found, mut is_test) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        if let Some(function) = function.filter(|_| is_test) {
            found.push(function.split(['(', '<']).next().unwrap_or_default());
            is_test = false;
        }
    }
    found
}

/// Highest number of words in the name of a test.
const MOST_WORDS: usize = 8;

fn is_vague(name: &str) -> bool {
    let words: Vec<&str> = name.split('_').collect();
    words.iter().any(|word| VAGUE.contains(word)) || prepositional(&words) > 0
}

#[test]
fn test_names_say_their_nouns() {
    let sources = rust_below(&EVERYWHERE);
    let names: Vec<&str> = sources.iter().flat_map(|file| tests_of(&file.text)).collect();
    assert!(names.len() > 3_000, "only {} tests were found", names.len());
    let vague: Vec<String> =
        names.into_iter().filter(|name| is_vague(name)).map(str::to_owned).collect();
    assert_none(vague, "name a test area_condition_result, with nouns: see docs/style.md");
}

#[test]
fn test_names_have_at_most_eight_words() {
    let sources = rust_below(&EVERYWHERE);
    let names = sources.iter().flat_map(|file| tests_of(&file.text));
    let long = names.filter(|name| name.split('_').count() > MOST_WORDS).map(str::to_owned);
    assert_none(long.collect(), "name a test area_condition_result, in eight words or fewer");
}

/// Participles that do not say the value of a local name.
const PARTICIPLES: [&str; 7] = ["asked", "known", "made", "kept", "held", "whole", "told"];

/// Parts of function names for which the field has a verb: admit, abandon, report, log.
const OBSCURE_VERBS: [&str; 4] = ["let_in", "give_up", "hasten", "tell"];

/// Returns the name after `let` in a line, or the name of the function, if the name is obscure.
fn obscure_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some(bound) = line.strip_prefix("let ") {
        let bound = bound.strip_prefix("mut ").unwrap_or(bound);
        let name = bound.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).next()?;
        return PARTICIPLES.contains(&name).then_some(name);
    }
    let (before, rest) = line.split_once("fn ")?;
    let name = rest.split(['(', '<']).next()?;
    let is_function = !before.contains(['"', '/']);
    let is_obscure =
        OBSCURE_VERBS.iter().any(|verb| format!("_{name}_").contains(&format!("_{verb}_")));
    (is_function && is_obscure).then_some(name)
}

#[test]
fn locals_and_functions_have_meaningful_names() {
    let mut found = Vec::new();
    for file in rust_below(&EVERYWHERE) {
        let names = file.code().filter_map(|(number, line)| Some((number, obscure_name(line)?)));
        found.extend(names.map(|(number, name)| format!("{}:{number}: {name}", file.path)));
    }
    assert_none(found, "name a value by a noun, and a function by a verb of the field");
}

#[test]
fn obscure_names_are_found() {
    assert_eq!(obscure_name("    let mut kept = Vec::new();"), Some("kept"));
    assert_eq!(obscure_name("pub(crate) async fn let_in_all<T>(x: T) {"), Some("let_in_all"));
    assert_eq!(obscure_name("    let kept_keys = keys();"), None);
    assert_eq!(obscure_name("fn retell() {"), None);
}

#[test]
fn vague_names_of_tests_are_found() {
    let text =
        "#[test]\nfn a_role_is_told() {}\n#[tokio::test]\n#[cfg(x)]\nasync fn b() {}\nfn what() {}";
    assert_eq!(tests_of(text), ["a_role_is_told", "b"]);
    assert!(is_vague("a_role_is_told") && is_vague("roles_of_which_none_works"));
    assert!(!is_vague("role_without_statements_is_refused"));
}
