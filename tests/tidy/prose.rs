//! The three measures of `docs/style.md` for the comments of each crate and of each folder of
//! tests, and for the texts that the product shows to people: first sentences that name their
//! subject, few relative clauses without a noun, few pronouns.
//!
//! A ceiling per crate finds a style that spreads. The ceiling is not a goal: a stranger must
//! understand each comment and each text at first reading.

use crate::rust_text;
use crate::sources::{EVERYWHERE, Source, assert_none, rust_below};
use std::collections::BTreeMap;

/// Words that begin a sentence without a subject.
const HEADLESS: [&str; 15] = [
    "What", "Whatever", "Who", "Whom", "Whose", "How", "Where", "When", "Of", "By", "In", "Until",
    "That", "Which", "Whether",
];
/// Words that stand for a noun outside of the sentence.
const RELATIVE: [&str; 6] = ["what", "whatever", "who", "whoever", "whom", "whose"];
/// Prepositions that make "which" such a word.
const PREPOSITIONS: [&str; 8] = ["of", "by", "in", "for", "to", "from", "with", "on"];
const PRONOUNS: [&str; 7] = ["it", "its", "one", "ones", "those", "that", "them"];

/// Highest counts for the comments or the texts of a crate.
#[derive(Clone, Copy)]
struct Ceiling {
    /// Percent of comments or texts.
    headless: usize,
    /// Per 1,000 words.
    relative: usize,
    /// Per 1,000 words.
    pronouns: usize,
}

const COMMENTS: Ceiling = Ceiling { headless: 3, relative: 5, pronouns: 40 };
const TEXTS: Ceiling = Ceiling { headless: 3, relative: 2, pronouns: 20 };
/// Smallest number of words of a literal that counts as a text for people.
const WORDS_OF_A_TEXT: usize = 5;
/// Smallest measured number of words of a crate's texts: in fewer words, a single word decides.
const WORDS_OF_A_CRATE: usize = 250;

#[derive(Default)]
struct Figures {
    comments: usize,
    words: usize,
    headless: usize,
    relative: usize,
    pronouns: usize,
}

impl Figures {
    fn count(&mut self, comment: &str) {
        let words = comment.split_whitespace().count();
        if words == 0 {
            return;
        }
        let tokens: Vec<&str> = comment
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|token| !token.is_empty())
            .collect();
        let lower: Vec<String> = tokens.iter().map(|token| token.to_lowercase()).collect();
        let is_in = |words: &[&str], token: &String| words.contains(&token.as_str());
        self.comments += 1;
        self.words += words;
        self.headless += usize::from(tokens.first().is_some_and(|first| HEADLESS.contains(first)));
        self.relative += lower.iter().filter(|token| is_in(&RELATIVE, token)).count();
        let words: Vec<&str> = lower.iter().map(String::as_str).collect();
        self.relative += prepositional(&words);
        self.pronouns += lower.iter().filter(|token| is_in(&PRONOUNS, token)).count();
    }

    /// The measures that are above the ceiling.
    fn above(&self, ceiling: Ceiling) -> Vec<String> {
        let per_1000 = |count: usize| (count * 1_000).div_ceil(self.words.max(1));
        let measures = [
            ("headless %", (self.headless * 100).div_ceil(self.comments.max(1)), ceiling.headless),
            ("relative/1000", per_1000(self.relative), ceiling.relative),
            ("pronouns/1000", per_1000(self.pronouns), ceiling.pronouns),
        ];
        let above = measures.into_iter().filter(|(_, found, most)| found > most);
        above.map(|(name, found, most)| format!("{name} {found}, at most {most}")).collect()
    }
}

/// Returns how often "which" follows a preposition in the words.
pub fn prepositional(words: &[&str]) -> usize {
    let pairs = words.windows(2);
    pairs.filter(|pair| pair[1] == "which" && PREPOSITIONS.contains(&pair[0])).count()
}

/// The comments of a file: runs of lines with the same mark, without blocks of code.
fn comments(text: &str) -> Vec<String> {
    let mark_of =
        |line: &str| ["///", "//!", "// "].into_iter().find(|mark| line.starts_with(mark));
    let (mut found, mut before, mut is_code) = (Vec::<String>::new(), None, false);
    for line in text.lines().map(str::trim) {
        let mark = mark_of(line);
        if mark.is_some() && mark != before {
            found.push(String::new());
            is_code = false;
        }
        before = mark;
        let Some((mark, comment)) = mark.zip(found.last_mut()) else { continue };
        let said = line.strip_prefix(mark).unwrap_or_default().trim();
        if said.starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            comment.push_str(said);
            comment.push(' ');
        }
    }
    found
}

/// The texts for people in the product's literals: words in lower case, and neither paths of Rust
/// nor SQL.
fn texts(text: &str) -> Vec<String> {
    let product = rust_text::without_tests(text, &rust_text::code(text));
    rust_text::literals(&product).into_iter().filter(|literal| is_for_people(literal)).collect()
}

fn is_for_people(literal: &str) -> bool {
    let words: Vec<&str> = literal.split_whitespace().collect();
    let is_word =
        |word: &str| word.len() > 1 && word.chars().all(|letter| letter.is_ascii_lowercase());
    let has_prose = words.windows(2).any(|pair| is_word(pair[0]) && is_word(pair[1]));
    let is_sql = ["SELECT", "INSERT", "UPDATE "].iter().any(|word| literal.contains(word));
    words.len() >= WORDS_OF_A_TEXT && has_prose && !literal.contains("::") && !is_sql
}

/// The folder of a crate: the first two parts of the path.
fn crate_of(file: &Source) -> Option<String> {
    let mut parts = file.path.split('/');
    let (top, name) = (parts.next()?, parts.next()?);
    (!name.ends_with(".rs")).then(|| format!("{top}/{name}"))
}

/// Returns the figures of each crate below `folders`, over the pieces of text in each file.
fn measured(
    folders: &[&str],
    pieces: impl Fn(&Source) -> Vec<String>,
) -> BTreeMap<String, Figures> {
    let mut crates: BTreeMap<String, Figures> = BTreeMap::new();
    for file in &rust_below(folders) {
        let Some(name) = crate_of(file) else { continue };
        let figures = crates.entry(name).or_default();
        pieces(file).iter().for_each(|piece| figures.count(piece));
    }
    assert!(crates.len() >= 20, "only {:?} were found; the rule would hold of less", crates.keys());
    crates
}

/// Returns the measures of crates that are above the ceiling.
fn too_high(crates: &BTreeMap<String, Figures>, ceiling: Ceiling) -> Vec<String> {
    let above = |(name, figures): (&String, &Figures)| {
        let above = figures.above(ceiling);
        above.into_iter().map(|measure| format!("{name}: {measure}")).collect::<Vec<_>>()
    };
    crates.iter().flat_map(above).collect()
}

#[test]
fn comments_are_plain() {
    let crates = measured(&EVERYWHERE, |file| comments(&file.text));
    assert_none(
        too_high(&crates, COMMENTS),
        "name the subject and repeat the noun: see docs/style.md",
    );
}

#[test]
fn file_heads_name_the_subject_of_prevents() {
    let sources = rust_below(&EVERYWHERE);
    let begins = |line: &&str| {
        let said = line.strip_prefix("//! ").unwrap_or_default();
        said.starts_with("Prevents ") || said.contains(". Prevents ")
    };
    let found = sources.iter().flat_map(|file| {
        let lines = file.text.lines().filter(begins);
        lines.map(|line| format!("{}: {line}", file.path)).collect::<Vec<_>>()
    });
    assert_none(found.collect(), "write \"This file prevents …\", or name the subject");
}

#[test]
fn texts_for_people_are_plain() {
    let of_product = |file: &Source| if file.is_of_tests() { vec![] } else { texts(&file.text) };
    let mut crates = measured(&["host", "plugins"], of_product);
    crates.retain(|_, figures| figures.words >= WORDS_OF_A_CRATE);
    assert!(crates.len() >= 15, "only {:?} have texts", crates.keys());
    assert_none(
        too_high(&crates, TEXTS),
        "name the subject and repeat the noun in errors, help and log lines: see docs/style.md",
    );
}

#[test]
fn texts_are_literals_of_five_words() {
    let text = "fn a() { e(\"give it the name of one role\"); f(\"it is short\"); }\n\
                // \"what it is is not of the product\"\n\
                #[cfg(test)]\nmod t { const A: &str = \"what it says is of tests alone\"; }";
    assert_eq!(texts(text), ["give it the name of one role"]);
    let code = "g(\"SELECT what it is from there\", \"a::b is what it calls here\")";
    assert_eq!(texts(code), Vec::<String>::new());
}

#[test]
fn the_measures_count_comments_alone() {
    let figures = |text: &str| {
        let mut figures = Figures::default();
        comments(text).iter().for_each(|comment| figures.count(comment));
        (figures.comments, figures.headless, figures.relative, figures.pronouns)
    };
    assert_eq!(figures("let what = \"Who of which it\";"), (0, 0, 0, 0));
    assert_eq!(figures("/// What it holds.\nstruct A;"), (1, 1, 1, 1));
    assert_eq!(figures("/// Returns the\n/// role of which one.\n//! Of it."), (2, 1, 1, 2));
    assert_eq!(figures("/// Fits.\n/// ```\n/// what\n/// ```\nfn a() {}\n// It.\n"), (2, 0, 0, 1));
    assert_eq!(figures("/// The role which the caller asks for.\n"), (1, 0, 0, 0));
}
