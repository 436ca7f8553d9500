//! The three measures of `docs/style.md` for the comments of each crate and of each folder of
//! tests: first sentences that name their subject, few relative clauses without a noun, few
//! pronouns.
//!
//! A ceiling per crate finds a comment style that spreads. The ceiling is not a goal: a stranger
//! must understand each comment at first reading.

use crate::sources::{Source, assert_none, rust_below};
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

/// Highest counts for the comments of a crate.
#[derive(Clone, Copy)]
struct Ceiling {
    /// Percent of comments.
    headless: usize,
    /// Per 1,000 words.
    relative: usize,
    /// Per 1,000 words.
    pronouns: usize,
}

const USUAL: Ceiling = Ceiling { headless: 3, relative: 5, pronouns: 40 };

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
        let pairs = lower.windows(2);
        let prepositional =
            pairs.filter(|pair| pair[1] == "which" && is_in(&PREPOSITIONS, &pair[0])).count();
        self.comments += 1;
        self.words += words;
        self.headless += usize::from(tokens.first().is_some_and(|first| HEADLESS.contains(first)));
        self.relative += lower.iter().filter(|token| is_in(&RELATIVE, token)).count();
        self.relative += prepositional;
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

/// The folder of a crate: the first two parts of the path.
fn crate_of(file: &Source) -> Option<String> {
    let mut parts = file.path.split('/');
    let (top, name) = (parts.next()?, parts.next()?);
    (!name.ends_with(".rs")).then(|| format!("{top}/{name}"))
}

#[test]
fn comments_are_plain() {
    let mut crates: BTreeMap<String, Figures> = BTreeMap::new();
    for file in &rust_below(&["host", "plugins", "tests"]) {
        let Some(name) = crate_of(file) else { continue };
        let figures = crates.entry(name).or_default();
        comments(&file.text).iter().for_each(|comment| figures.count(comment));
    }
    assert!(crates.len() >= 20, "only {:?} were found; the rule would hold of less", crates.keys());
    let too_high = crates.iter().flat_map(|(name, figures)| {
        let above = figures.above(USUAL);
        above.into_iter().map(move |measure| format!("{name}: {measure}"))
    });
    assert_none(too_high.collect(), "name the subject and repeat the noun: see docs/style.md");
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
