//! Acts that a component may do without a grant: the table of `docs/grants.md` §2 has the acts that
//! `check_act` of the sandbox allows, and the README names no other act.
//!
//! The rule reads the sources as text, so the enum and the function keep the form that the readers
//! below expect. A reader that finds nothing fails.

use crate::rust_text::code;
use crate::sources::{assert_none, text_of};
use crate::tables::{quoted, rows_below};
use std::collections::BTreeSet;

const ACTS: &str = "host/sandbox/src/grants/act.rs";
const CHECK: &str = "host/sandbox/src/grants.rs";
const PAGE: &str = "docs/grants.md";
const SECTION: &str = "## 2. Acts with and without a grant";
const ANCHOR: &str = "docs/grants.md#2-acts-with-and-without-a-grant";
const HEAD: &str = "| without a grant, a component can |";

/// Begins the first `match` of `check_act`, which excludes kinds of components.
const KINDS: &str = "let is_of_its_part = match act {";
/// Begins the second `match`, which asks for grants.
const GRANTS: &str = "match act {";
/// Begins the arm of the second `match` for the acts without a grant.
const OTHERS: &str = "_ =>";

/// An act without a grant, by the kinds of components that may do the act.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FreeAct {
    name: String,
    /// An engine or auth method may do the act.
    by_mounted: bool,
    /// A database plugin may do the act.
    by_database_plugin: bool,
}

impl FreeAct {
    /// Returns the cells of the act in the table, without its description.
    fn cells(&self) -> String {
        let yes_or_no = |allowed: bool| if allowed { "yes" } else { "no" };
        let (mounted, plugin) = (yes_or_no(self.by_mounted), yes_or_no(self.by_database_plugin));
        format!("| `{}` | {mounted} | {plugin} |", self.name)
    }
}

/// Returns the variants of the enum `Act`.
fn variants(acts: &str) -> BTreeSet<String> {
    let code = code(acts);
    let (_, body) = code.split_once("enum Act<'a> {").expect("act.rs has the enum Act");
    let (body, _) = body.split_once("\n}").expect("the enum ends");
    let is_variant = |line: &&str| line.starts_with(|c: char| c.is_ascii_uppercase());
    body.lines().map(str::trim).filter(is_variant).map(first_word).collect()
}

/// Returns the acts that a piece of code names.
fn named(code: &str) -> Vec<String> {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_';
    let acts = code.match_indices("Act::").filter(|(at, _)| !code[..*at].ends_with(is_inside));
    acts.map(|(at, path)| first_word(&code[at + path.len()..])).collect()
}

fn first_word(text: &str) -> String {
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// Returns the two matches of `check_act`: the kinds of components, and the acts with a grant.
fn matches_of(check: &str) -> (String, String) {
    let code = code(check);
    let (_, rest) = code.split_once(KINDS).expect("check_act excludes kinds of components");
    let (kinds, rest) = rest.split_once("};").expect("the first match ends");
    let (_, rest) = rest.split_once(GRANTS).expect("check_act asks for grants");
    let (granted, _) = rest.split_once(OTHERS).expect("other acts need no grant");
    (kinds.to_owned(), granted.to_owned())
}

/// Returns the acts of each arm, with the two kinds of components that may do the acts: a mounted
/// component and a database plugin.
fn arms(kinds: &str) -> Vec<(Vec<String>, (bool, bool))> {
    let parts: Vec<&str> = kinds.split("=>").collect();
    // A part has the condition of one arm and then the patterns of the next arm.
    let pairs = parts.windows(2);
    pairs.map(|pair| (named(pair[0]), kinds_of(pair[1]))).collect()
}

fn kinds_of(condition: &str) -> (bool, bool) {
    let kinds = [
        ("!= ComponentKind::Described", (true, true)),
        ("== ComponentKind::Engine", (true, false)),
        ("== ComponentKind::DatabasePlugin", (false, true)),
    ];
    let found = kinds.iter().find(|(text, _)| condition.contains(text));
    found.unwrap_or_else(|| panic!("tests/tidy/free_acts.rs cannot read {condition:?}")).1
}

/// Returns the acts without a grant.
fn free_acts(acts: &str, check: &str) -> BTreeSet<FreeAct> {
    let (kinds, granted) = matches_of(check);
    let granted = named(&granted);
    let arms = arms(&kinds);
    let free = variants(acts).into_iter().filter(|act| !granted.contains(act));
    let of_variant = |act: String| {
        let arm = arms.iter().find(|(acts, _)| acts.contains(&act));
        let (_, (by_mounted, by_database_plugin)) =
            *arm.unwrap_or_else(|| panic!("{CHECK} has no arm for {act}"));
        FreeAct { name: kebab(&act), by_mounted, by_database_plugin }
    };
    free.map(of_variant).collect()
}

/// Returns `identity-token` for `IdentityToken`.
fn kebab(variant: &str) -> String {
    let mut name = String::new();
    for c in variant.chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// Returns the acts of the table.
fn documented(page: &str) -> BTreeSet<FreeAct> {
    let of_row = |row: Vec<&str>| {
        let [_, act, mounted, plugin] = row[..] else {
            panic!("a row of {} cells instead of 4: {row:?}", row.len())
        };
        let name = quoted(act).first().map(|name| (*name).to_owned()).unwrap_or_default();
        FreeAct { name, by_mounted: mounted == "yes", by_database_plugin: plugin == "yes" }
    };
    rows_below(page, HEAD).into_iter().map(of_row).collect()
}

/// Returns the differences between the table and the source.
fn differences(page: &str, free: &BTreeSet<FreeAct>) -> Vec<String> {
    let documented = documented(page);
    let missing = free.difference(&documented).map(|act| format!("no row {}", act.cells()));
    let surplus = documented.difference(free).map(|act| format!("a wrong row {}", act.cells()));
    missing.chain(surplus).collect()
}

/// Returns the problems of the README's sentence about acts without a grant.
fn sentence_problems(readme: &str, free: &BTreeSet<FreeAct>) -> Vec<String> {
    let Some((_, rest)) = readme.split_once("\nWithout a grant, ") else {
        return vec!["no sentence begins with \"Without a grant\"".to_owned()];
    };
    let sentence = rest.split("\n\n").next().unwrap_or_default();
    let is_free = |word: &str| free.iter().any(|act| act.by_mounted && act.name == word);
    let wrong = quoted(sentence).into_iter().filter(|word| !is_free(word));
    let mut found: Vec<_> = wrong.map(|word| format!("{word} needs a grant")).collect();
    if !sentence.contains(ANCHOR) {
        found.push(format!("no link to {ANCHOR}"));
    }
    found
}

#[test]
fn acts_without_a_grant_are_documented() {
    let free = free_acts(&text_of(ACTS), &text_of(CHECK));
    assert!(free.len() > 5, "only {free:?} were found");
    let page = text_of(PAGE);
    assert!(page.contains(SECTION), "{PAGE} has no section \"{SECTION}\"");
    assert_none(differences(&page, &free), "agree docs/grants.md §2 with the enum Act");
    assert_none(
        sentence_problems(&text_of("README.md"), &free),
        "name only acts of docs/grants.md §2 in the README, and link to the table",
    );
}

#[cfg(test)]
mod of_the_rules_themselves {
    use super::*;

    const ENUM: &str = "pub(crate) enum Act<'a> {\n    /// Rows.\n    Storage,\n    /// Time.\n    \
        Time,\n    /// Http.\n    Http(&'a Origin),\n    FindEntity,\n}\nenum Other {\n    A,\n}\n";
    const FUNCTION: &str = "let is_of_its_part = match act {\n\
        Act::Time => { self.part != ComponentKind::Described }\n\
        Act::Storage // Act::Gone\n | Act::Http(_) | Act::FindEntity => \
        self.part == ComponentKind::Engine,\n};\n\
        match act {\n Act::Http(origin) => self.allow(AmbientAct::Time, origin),\n\
        _ => Ok(()),\n}\n";

    fn free() -> BTreeSet<FreeAct> {
        free_acts(ENUM, FUNCTION)
    }

    fn differing(rows: &str) -> Vec<String> {
        let page = format!("{HEAD} act | engine, auth method | database plugin |\n|---|\n{rows}");
        differences(&page, &free())
    }

    const ROWS: &str = "| a | `time` | yes | yes |\n| a | `find-entity` | yes | no |\n\
        | a | `storage` | yes | no |\n";

    #[test]
    fn enum_and_function_give_the_free_acts() {
        let names: Vec<_> = free().into_iter().map(|act| act.name).collect();
        assert_eq!(names, ["find-entity", "storage", "time"]);
        assert_eq!(differing(ROWS), Vec::<String>::new());
    }

    #[test]
    fn missing_surplus_and_wrong_rows_are_found() {
        assert_eq!(differing(&ROWS.replace("| a | `time` | yes | yes |\n", "")).len(), 1);
        let surplus = differing(&format!("{ROWS}| a | `http` | yes | no |\n"));
        assert_eq!(surplus, ["a wrong row | `http` | yes | no |"]);
        let wrong = ROWS.replace("`storage` | yes | no", "`storage` | yes | yes");
        assert_eq!(differing(&wrong).len(), 2, "another kind of component");
    }

    #[test]
    fn readme_sentences_with_other_acts_are_found() {
        let problems =
            |sentence: &str| sentence_problems(&format!("a\n\n{sentence}\n\nb"), &free());
        let link = format!("[acts]({ANCHOR})");
        let fine = format!("Without a grant, a component has `storage` and {link}.");
        assert_eq!(problems(&fine), Vec::<String>::new());
        let other = format!("Without a grant, a component has `http` and {link}.");
        assert_eq!(problems(&other), ["http needs a grant"]);
        assert_eq!(problems("Without a grant, a component has `time`.").len(), 1);
        assert_eq!(problems("Nothing.").len(), 1);
    }
}
