//! Files, decisions and sections cited by comments and documents must exist. Comments cite only
//! documents in `docs/`, which every reader of the repository has.

use crate::decisions::{self, is_number};
use crate::rust_text::comments;
use crate::sources::{Source, all, assert_none};
use crate::tables::quoted;
use std::collections::BTreeSet;

/// Folders at the root. A back-quoted path that begins with such a folder is relative to the root.
const FOLDERS: [&str; 5] = ["host", "plugins", "wit", "tests", "docs"];

/// Endings of file names. A word with such an ending is taken for a file, with or without folders.
const ENDS: [&str; 6] = [".rs", ".wit", ".md", ".sh", ".c", ".toml"];

/// Names of files outside of the repository that comments may mention: files that cargo and
/// generators look for.
const OF_OTHERS: [&str; 1] = ["build.rs"];

/// Contiguous prose: a comment of several lines, or a paragraph of a document.
struct Passage {
    place: String,
    text: String,
}

/// Everything in the repository that a citation can name.
struct CitationTargets {
    paths: BTreeSet<String>,
    decisions: BTreeSet<String>,
    /// `docs/architecture.md §4`, for every numbered heading of a document.
    sections: BTreeSet<String>,
}

impl CitationTargets {
    fn of(files: &[Source]) -> Self {
        let page = files.iter().find(|file| file.path == decisions::PAGE);
        let decisions = page.map(|file| decisions::numbers(&file.text)).unwrap_or_default();
        let documents = files.iter().filter(|file| file.path.ends_with(".md"));
        let sections = documents.flat_map(|file| {
            let headings = file.text.lines().filter(|line| line.starts_with('#'));
            let numbers = headings.filter_map(|line| line.split_whitespace().nth(1));
            numbers.map(|number| format!("{} §{}", file.path, number.trim_end_matches('.')))
        });
        Self {
            paths: files.iter().map(|file| file.path.clone()).collect(),
            decisions: decisions.into_iter().map(str::to_owned).collect(),
            sections: sections.collect(),
        }
    }

    fn has_file_or_folder(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        self.paths.iter().any(|file| file == path || file.starts_with(&below))
    }

    /// Returns `true` if `path` is the end of a path in the repository, or a folder inside such a
    /// path.
    fn has_end_or_middle(&self, path: &str) -> bool {
        let (end, middle) = (format!("/{path}"), format!("/{}/", path.trim_end_matches('/')));
        self.paths.iter().any(|file| file == path || file.ends_with(&end))
            || self.paths.iter().any(|file| file.contains(&middle))
    }
}

fn is_document(file: &Source) -> bool {
    file.path.ends_with(".md")
}

/// Returns the comments of a file, or the prose of a document.
fn passages(file: &Source) -> Vec<Passage> {
    let is_script = [".sh", ".toml", ".hcl", "Makefile", ".ci/run"];
    let shown = if is_document(file) {
        without_fences(&file.text)
    } else if [".rs", ".wit", ".c"].iter().any(|end| file.path.ends_with(end)) {
        comments(&file.text)
    } else if is_script.iter().any(|end| file.path.ends_with(end)) {
        file.text.lines().map(|line| behind_a_hash(line) + "\n").collect()
    } else {
        String::new()
    };
    let mut found: Vec<Passage> = Vec::new();
    let mut goes_on = false;
    for (index, line) in shown.lines().enumerate() {
        let said = line.trim().trim_start_matches(['/', '!', '*', '#']).trim();
        match found.last_mut() {
            Some(passage) if goes_on => passage.text += &format!(" {said}"),
            _ if said.is_empty() => {}
            _ => found.push(Passage {
                place: format!("{}:{}", file.path, index + 1),
                text: said.to_owned(),
            }),
        }
        goes_on = !said.is_empty();
    }
    found
}

fn without_fences(text: &str) -> String {
    let mut inside = false;
    let mut shown = String::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        shown += if inside || is_fence { "" } else { line };
        shown += "\n";
    }
    shown
}

fn behind_a_hash(line: &str) -> String {
    let start = if line.trim_start().starts_with('#') { line.find('#') } else { line.find(" # ") };
    start.map(|start| line[start..].to_owned()).unwrap_or_default()
}

/// Returns back-quoted paths and links that do not exist.
fn lost_paths(file: &Source, targets: &CitationTargets) -> Vec<String> {
    let mut found = Vec::new();
    for passage in passages(file) {
        let lost = quoted(&passage.text).into_iter().filter(|path| !leads_somewhere(path, targets));
        found.extend(lost.map(|path| format!("{}: `{path}`", passage.place)));
        if is_document(file) {
            let lost = links(&passage.text).filter(|link| !is_linked(link, &file.path, targets));
            found.extend(lost.map(|link| format!("{}: ({link})", passage.place)));
        }
    }
    found
}

fn leads_somewhere(quoted: &str, targets: &CitationTargets) -> bool {
    // The compiler checks the items of a file.
    let path = quoted.split("::").next().unwrap_or_default();
    let is_from_the_root =
        path.split_once('/').is_some_and(|(folder, _)| FOLDERS.contains(&folder));
    let names_a_file = ENDS.iter().any(|end| path.ends_with(end) && path.len() > end.len());
    if path.contains(char::is_whitespace) || !(is_from_the_root || names_a_file) {
        return true;
    }
    // Of `imports/<name>.rs`, only the folder can be checked.
    let fixed = match path.find(['<', '*', '…', '{']) {
        Some(open) => path[..open].rsplit_once('/').map_or("", |(folder, _)| folder),
        None => path,
    };
    let built = path.starts_with("target/") || path.starts_with(['~', '/']);
    fixed.is_empty()
        || built
        || OF_OTHERS.contains(&fixed)
        || targets.has_file_or_folder(fixed)
        || targets.has_end_or_middle(fixed)
}

/// Returns the targets of a document's links to other files of the repository.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|link| !link.contains("://") && !link.starts_with('#'))
}

fn is_linked(link: &str, document: &str, targets: &CitationTargets) -> bool {
    let mut at: Vec<&str> = document.split('/').collect();
    at.pop();
    for part in link.split('#').next().unwrap_or_default().split('/') {
        match part {
            ".." => drop(at.pop()),
            "." | "" => {}
            part => at.push(part),
        }
    }
    targets.has_file_or_folder(&at.join("/"))
}

/// Returns the cited decisions that do not exist.
fn lost_decisions(file: &Source, targets: &CitationTargets) -> Vec<String> {
    let mut found = Vec::new();
    for passage in passages(file) {
        let cited = cited_decisions(&passage.text);
        let lost = cited.into_iter().filter(|number| !targets.decisions.contains(*number));
        found.extend(lost.map(|number| format!("{}: decision {number}", passage.place)));
    }
    found
}

/// Returns `F1` and `T4` for "decisions F1 and T4".
fn cited_decisions(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_a_list = false;
    for word in text.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_the_word = ["decision", "decisions"].contains(&bare.to_lowercase().as_str());
        let goes_on = in_a_list && ["and", "or"].contains(&bare);
        if in_a_list && is_number(bare) {
            found.push(bare);
        }
        in_a_list = is_the_word || goes_on || (in_a_list && is_number(bare) && !word.contains(')'));
    }
    found
}

/// Returns the cited documents and sections that are not in `docs/` or do not exist.
fn foreign_documents(file: &Source, targets: &CitationTargets) -> Vec<String> {
    let mut found = Vec::new();
    for passage in passages(file) {
        let words: Vec<&str> = passage.text.split_whitespace().map(trimmed).collect();
        for (at, word) in words.iter().enumerate() {
            let before = at.checked_sub(1).map_or("", |before| words[before]);
            let is_readme = *word == "README.md" || word.ends_with("/README.md");
            let foreign = word.ends_with(".md")
                && !word.contains('<')
                && !(word.starts_with("docs/") || is_readme);
            let section = format!("{before} {word}");
            let is_rfc = at >= 2 && words[at - 2] == "RFC";
            let lost = word.starts_with('§') && !is_rfc && !targets.sections.contains(&section);
            if foreign || lost {
                found.push(format!("{}: {}", passage.place, if lost { &section } else { *word }));
            }
        }
    }
    found
}

/// Removes the punctuation around a word.
fn trimmed(word: &str) -> &str {
    let is_sign = |c: char| "`().,;:'\"[]".contains(c);
    word.trim_end_matches(is_sign).trim_start_matches(|c| is_sign(c) && c != '.')
}

#[test]
fn every_path_in_back_quotes_exists() {
    let files = all();
    let targets = CitationTargets::of(&files);
    let found = files.iter().flat_map(|file| lost_paths(file, &targets)).collect();
    assert_none(found, "write the file's new path, or remove the sentence");
}

#[test]
fn every_cited_decision_exists() {
    let files = all();
    let targets = CitationTargets::of(&files);
    assert!(targets.decisions.len() > 200, "{} was not understood", decisions::PAGE);
    let found = files.iter().flat_map(|file| lost_decisions(file, &targets)).collect();
    assert_none(found, "add the decision with its reason to docs/decisions.md");
}

#[test]
fn comments_cite_only_docs() {
    let files = all();
    let targets = CitationTargets::of(&files);
    let sources = files.iter().filter(|file| !is_document(file));
    let found = sources.flat_map(|file| foreign_documents(file, &targets)).collect();
    assert_none(
        found,
        "cite a decision of docs/decisions.md or a numbered section of a page of docs/, and add \
         missing facts there",
    );
}

#[cfg(test)]
mod of_the_rules_themselves {
    use super::*;

    fn files(text: &str) -> Vec<Source> {
        let file = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        vec![
            file(
                decisions::PAGE,
                "# Decisions\n\n| # | rule |\n|---|---|\n| F1 | a |\n\n### T12. Title\n\nb\n",
            ),
            file("docs/architecture.md", "## 4. Units\n### 4.1 Commit\n"),
            file("host/api/src/pipeline.rs", ""),
            file("host/README.md", ""),
            file("x.rs", text),
        ]
    }

    fn last(
        text: &str,
        path: &str,
        rule: impl Fn(&Source, &CitationTargets) -> Vec<String>,
    ) -> Vec<String> {
        let mut files = files(text);
        let targets = CitationTargets::of(&files);
        let mut file = files.pop().expect("the file in question is the last");
        file.path = path.to_owned();
        rule(&file, &targets)
    }

    #[test]
    fn a_missing_path_is_found() {
        let lost = |text: &str| last(text, "x.rs", lost_paths);
        for there in [
            "// `host/api/src/pipeline.rs`, `host/api`, `pipeline.rs`",
            "// `api/src/pipeline.rs::run`",
            "//! `host/api/src/<noun>.rs` and `api/src/<noun>.rs` and `sys/mounts/:path`",
            "/// `host/api\n/// /src`, `target/plugins/x.wasm`, `build.rs`, `make test`, `.rs`",
            "let gone = \"`host/gone.rs`\";",
        ] {
            assert_eq!(lost(there), Vec::<String>::new(), "{there}");
        }
        assert_eq!(lost("x();\n// see\n// `host/gone.rs`."), ["x.rs:2: `host/gone.rs`"]);
        assert_eq!(lost("// `line.rs`"), ["x.rs:1: `line.rs`"]);
        assert_eq!(lost("// `host/gone/<noun>.rs`"), ["x.rs:1: `host/gone/<noun>.rs`"]);
        // A step of the life of a request.
        let row = "| 7 | step | | `host/api/src/pipeline.rs`, `host/gone.rs` |";
        assert_eq!(last(row, "docs/x.md", lost_paths), ["docs/x.md:1: `host/gone.rs`"]);
    }

    #[test]
    fn a_broken_link_is_found() {
        let lost = |text: &str| last(text, "docs/x.md", lost_paths);
        let there = "[a](architecture.md#4) [b](../host/README.md) [c](https://x.y/z) [d](#e)";
        assert_eq!(lost(there), Vec::<String>::new());
        assert_eq!(lost("[a](gone.md)"), ["docs/x.md:1: (gone.md)"]);
        assert_eq!(lost("```\n`host/gone.rs`\n```"), Vec::<String>::new());
    }

    #[test]
    fn a_missing_decision_is_found() {
        let lost = |text: &str| last(text, "x.rs", lost_decisions);
        assert_eq!(lost("// as decision F1 says (decisions T12 and F1)"), Vec::<String>::new());
        assert_eq!(lost("// (decision\n// F2)"), ["x.rs:1: decision F2"]);
        assert_eq!(
            lost("//! Decisions F1, F3 and T4."),
            ["x.rs:1: decision F3", "x.rs:1: decision T4"]
        );
        assert_eq!(lost("// the decision of T4"), Vec::<String>::new());
        assert_eq!(lost("let x = \"decision F2\";"), Vec::<String>::new());
    }

    #[test]
    fn a_citation_outside_of_docs_is_found() {
        let found = |text: &str| last(text, "x.rs", foreign_documents);
        for fine in [
            "// `docs/architecture.md` §4, and (docs/architecture.md §4.1).",
            "// the commands of README.md; RFC 7230 §3.2; any `<name>.md`",
            "let x = \"spec/core.md §3\";",
        ] {
            assert_eq!(found(fine), Vec::<String>::new(), "{fine}");
        }
        assert_eq!(found("// (`notes/core.md`)"), ["x.rs:1: notes/core.md"]);
        assert_eq!(found("// docs/architecture.md §5"), ["x.rs:1: docs/architecture.md §5"]);
        assert_eq!(found("// architecture §4"), ["x.rs:1: architecture §4"]);
    }

    #[test]
    fn scripts_have_comments_too() {
        let lost = |text: &str| last(text, "Makefile", lost_decisions);
        assert_eq!(
            lost("# decision F9\nx: ## y\n\tz # decision F8"),
            ["Makefile:1: decision F9", "Makefile:3: decision F8"]
        );
    }
}
