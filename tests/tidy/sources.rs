//! The text files of the repository: tracked files, and new files that git does not ignore.

use bulkhead_tests::paths::repository;
use std::process::Command;

/// Folders with code.
pub const EVERYWHERE: [&str; 3] = ["host", "plugins", "tests"];

pub struct Source {
    /// Path from the root, with `/`.
    pub path: String,
    pub text: String,
}

impl Source {
    /// Returns `true` for a separate file of tests beside the code, or a file below `tests/`.
    pub fn is_of_tests(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }

    /// Returns the lines with their numbers from 1, without comment lines.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

/// Returns the text of a file of the repository.
pub fn text_of(path: &str) -> String {
    std::fs::read_to_string(repository().join(path))
        .unwrap_or_else(|error| panic!("{path} cannot be read: {error}"))
}

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

/// Fails with all offences at once, and with the remedy.
#[track_caller]
pub fn assert_none(offences: Vec<String>, advice: &str) {
    assert!(offences.is_empty(), "{advice}:\n  {}", offences.join("\n  "));
}
