//! The repository's files as text, as far as they are ours: tracked, or new and not ignored.

use bulkhead_tests::paths::repository;
use std::process::Command;

/// One text file.
pub struct Source {
    /// From the root, with `/`.
    pub path: String,
    pub text: String,
}

impl Source {
    /// Whether it holds tests only: a file of its own beside the code, or one below `tests/`.
    pub fn is_of_tests(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }

    /// Lines with their numbers from 1, without those that are comments as a whole.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

/// Every text file of ours.
pub fn all() -> Vec<Source> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(repository())
        .output()
        .expect("git can be started");
    assert!(listed.status.success(), "git does not know this repository");
    let listed = String::from_utf8(listed.stdout).expect("paths are text");
    let read = |path: &str| {
        let text = std::fs::read_to_string(repository().join(path)).ok()?;
        Some(Source { path: path.to_owned(), text })
    };
    let found: Vec<Source> = listed.lines().filter_map(read).collect();
    assert!(
        found.len() > 50,
        "only {} files were found; the rules would hold of nothing",
        found.len()
    );
    found
}

/// Every Rust file below one of the folders.
pub fn rust_below(folders: &[&str]) -> Vec<Source> {
    let is_below =
        |path: &str| folders.iter().any(|folder| path.starts_with(&format!("{folder}/")));
    let found: Vec<_> = all()
        .into_iter()
        .filter(|file| file.path.ends_with(".rs") && is_below(&file.path))
        .collect();
    assert!(!found.is_empty(), "no Rust file below {folders:?}");
    found
}

/// Fails with all offences at once, and what to do about them.
#[track_caller]
pub fn assert_none(offences: Vec<String>, advice: &str) {
    assert!(offences.is_empty(), "{advice}:\n  {}", offences.join("\n  "));
}
