//! The decisions of `docs/decisions.md`: their letters, their order and their length.
//!
//! A short decision is a row of a table. A long decision is a heading with paragraphs, because a
//! cell of a table cannot have paragraphs.

use crate::sources::{assert_none, text_of};
use crate::tables::{cells, rows_below};
use std::collections::{BTreeMap, BTreeSet};

/// File with every decision.
pub const PAGE: &str = "docs/decisions.md";

/// Beginning of the head of the table with the meaning of each letter.
const LEGEND: &str = "| letter |";

/// Maximum number of words of a row, without its number.
const LONGEST_ROW: usize = 150;

/// Beginning of the paragraph with the reason of a long decision.
const REASON: &str = "\nReason: ";

/// A decision with its number, such as `F3`.
struct Decision<'a> {
    number: &'a str,
    form: DecisionForm,
}

/// The place of a decision's text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DecisionForm {
    /// A row with this number of words.
    Row { words: usize },
    /// A heading above paragraphs.
    Heading { has_reason: bool },
}

impl Decision<'_> {
    fn letter(&self) -> &str {
        &self.number[..1]
    }

    fn is_row(&self) -> bool {
        matches!(self.form, DecisionForm::Row { .. })
    }

    /// Returns the number behind the letter.
    fn position(&self) -> u32 {
        self.number[1..].parse().unwrap_or_default()
    }
}

/// Returns `true` for a letter and a number, such as `F3`.
pub fn is_number(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|first| first.is_ascii_uppercase())
        && word.len() > 1
        && chars.all(|c| c.is_ascii_digit())
}

/// Returns the numbers of all decisions.
pub fn numbers(page: &str) -> Vec<&str> {
    decisions(page).into_iter().map(|decision| decision.number).collect()
}

/// Returns the decisions in their order on the page.
fn decisions(page: &str) -> Vec<Decision<'_>> {
    let of_line = |(at, line)| row(line).or_else(|| heading(line, &page[at..]));
    let mut at = 0;
    let lines = page.split_inclusive('\n').map(|line| {
        at += line.len();
        (at, line)
    });
    lines.filter_map(of_line).collect()
}

fn row(line: &str) -> Option<Decision<'_>> {
    let cells = cells(line.trim_end());
    let number = cells.first().filter(|_| line.starts_with('|'))?;
    let words = cells.iter().skip(1).map(|cell| cell.split_whitespace().count()).sum();
    is_number(number).then_some(Decision { number, form: DecisionForm::Row { words } })
}

/// `rest` is the text below the line.
fn heading<'a>(line: &'a str, rest: &str) -> Option<Decision<'a>> {
    let (number, _) = line.strip_prefix("### ")?.split_once(". ")?;
    let paragraphs = rest.split("\n#").next().unwrap_or_default();
    let has_reason = paragraphs.contains(REASON);
    is_number(number).then_some(Decision { number, form: DecisionForm::Heading { has_reason } })
}

/// Returns the letters without a meaning in the legend, and the letters without a decision.
fn letter_problems(page: &str) -> Vec<String> {
    let decisions = decisions(page);
    let used: BTreeSet<&str> = decisions.iter().map(Decision::letter).collect();
    let legend: BTreeSet<&str> =
        rows_below(page, LEGEND).iter().filter_map(|row| row.first().copied()).collect();
    let unexplained = used.difference(&legend).map(|letter| format!("no meaning of {letter}"));
    let unused = legend.difference(&used).map(|letter| format!("no decision of {letter}"));
    unexplained.chain(unused).collect()
}

/// Returns the numbers that occur twice, or are not above the number before. Rows and headings have
/// an order each.
fn order_problems(page: &str) -> Vec<String> {
    let (mut seen, mut last) = (BTreeSet::new(), BTreeMap::new());
    let mut found = Vec::new();
    for decision in decisions(page) {
        if !seen.insert(decision.number) {
            found.push(format!("{} twice", decision.number));
        }
        let place = (decision.letter().to_owned(), decision.is_row());
        let before = last.insert(place, decision.position());
        if let Some(before) = before.filter(|before| *before > decision.position()) {
            found.push(format!("{} below {}{before}", decision.number, decision.letter()));
        }
    }
    found
}

/// Returns the rows that are too long, and the headings without a reason.
fn form_problems(page: &str) -> Vec<String> {
    let problem = |decision: &Decision<'_>| match decision.form {
        DecisionForm::Row { words } if words > LONGEST_ROW => {
            Some(format!("{}: a row of {words} words", decision.number))
        }
        DecisionForm::Heading { has_reason: false } => {
            Some(format!("{}: no paragraph begins with \"Reason:\"", decision.number))
        }
        _ => None,
    };
    decisions(page).iter().filter_map(problem).collect()
}

fn page() -> String {
    let page = text_of(PAGE);
    assert!(numbers(&page).len() > 200, "{PAGE} was not understood");
    page
}

#[test]
fn decision_letters_match_the_legend() {
    assert_none(
        letter_problems(&page()),
        "agree the letters of docs/decisions.md with the table at its head",
    );
}

#[test]
fn decision_numbers_are_unique_and_ascending() {
    assert_none(
        order_problems(&page()),
        "give the newer decision the next free number of its letter, and sort each table",
    );
}

#[test]
fn long_decisions_have_a_heading_and_reason() {
    assert_none(
        form_problems(&page()),
        &format!(
            "write a decision of more than {LONGEST_ROW} words as paragraphs below a heading \
             \"### F1. Title\": the rule, then \"Reason: …\", then the cases"
        ),
    );
}

#[cfg(test)]
mod of_the_rules_themselves {
    use super::*;

    const TABLE: &str = "| letter | meaning |\n|---|---|\n| F | a |\n| T | b |\n\n\
        | # | decision | why |\n|---|---|---|\n";

    fn with_rows(rows: &str) -> String {
        format!("{TABLE}{rows}")
    }

    #[test]
    fn rows_and_headings_are_decisions() {
        let page = with_rows("| F1 | a | b |\n| T2 | a | b |\n\n### F12. Title\n\n### Not a one\n");
        assert_eq!(numbers(&page), ["F1", "T2", "F12"]);
    }

    #[test]
    fn letters_outside_of_the_legend_are_found() {
        let problems = |rows: &str| letter_problems(&with_rows(rows));
        assert_eq!(problems("| F1 | a | b |\n\n### T1. A\n"), Vec::<String>::new());
        assert_eq!(
            problems("| F1 | a | b |\n| K1 | a | b |\n"),
            ["no meaning of K", "no decision of T",]
        );
    }

    #[test]
    fn repeated_and_descending_numbers_are_found() {
        let problems = |rows: &str| order_problems(&with_rows(rows)).len();
        assert_eq!(problems("| F1 | a | b |\n| F9 | a | b |\n| T2 | a | b |\n\n### F3. A\n"), 0);
        assert_eq!(problems("| F9 | a | b |\n| F1 | a | b |\n"), 1, "descending");
        assert_eq!(problems("### F9. A\n\n### F10. A\n\n### F9. A\n"), 2, "twice, descending");
    }

    #[test]
    fn long_rows_and_missing_reasons_are_found() {
        let row = |words: usize| with_rows(&format!("| F1 | {} | why |\n", "a ".repeat(words)));
        assert_eq!(form_problems(&row(LONGEST_ROW - 1)), Vec::<String>::new());
        assert_eq!(form_problems(&row(LONGEST_ROW)), ["F1: a row of 151 words"]);
        assert_eq!(form_problems("### F1. A\n\nx\n\nReason: y.\n"), Vec::<String>::new());
        let page = "### F1. A\n\nx\n\n### F2. B\n\nReason: y.\n";
        assert_eq!(form_problems(page), ["F1: no paragraph begins with \"Reason:\""]);
    }
}
