//! Searches answers, logs and files for secrets.
//!
//! A database may echo a password truncated and in lower case, so a search for the whole secret is
//! not enough. Any 12 consecutive characters count as a leak, in upper or lower case; of a shorter
//! secret, the whole. Redaction guarantees the same (`host/sandbox/src/secrets.rs`).

use crate::paths::files_below;
use crate::storage::assert_rows_sealed;
use std::path::Path;

/// A password that is hard to quote and easy to find.
pub const CANARY: &str = r#"~Zq'9#xW"7^kJ\4$vB%2}nR"#;

/// Number of consecutive characters of a secret that count as a leak.
const LEAK: usize = 12;

/// Returns the runs of `secret` that are in `text`, ignoring case.
pub fn runs_shown(text: &str, secret: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let secret: Vec<char> = secret.to_lowercase().chars().collect();
    secret
        .windows(LEAK.min(secret.len()).max(1))
        .map(|run| run.iter().collect::<String>())
        .filter(|run| text.contains(run.as_str()))
        .collect()
}

/// Fails if `text` has a run of `secret`; `place` describes the text.
#[track_caller]
pub fn assert_silent(place: &str, text: &str, secret: &str) {
    let shown = runs_shown(text, secret);
    assert!(shown.is_empty(), "{place} shows {shown:?} of a secret:\n{text}");
}

/// Fails if a file below `folder`, or a table of this data folder, contains `secret`.
#[track_caller]
pub fn assert_sealed(folder: &Path, secret: &str) {
    for file in files_below(folder) {
        let bytes = std::fs::read(&file).expect("a file of the data folder can be read");
        // The search for a text skips most bytes. A text stays whole beside bytes that are none.
        let found = String::from_utf8_lossy(&bytes).contains(secret);
        assert!(!found, "{} holds a secret in the clear", file.display());
    }
    assert_rows_sealed(folder, secret);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_and_lower_cased_echo_is_found() {
        let echo = format!("unrecognized role option \"{}\"", CANARY[3..15].to_lowercase());
        assert!(!runs_shown(&echo, CANARY).is_empty());
    }

    #[test]
    fn ordinary_text_is_silent() {
        let text =
            "request 018f2c6e-77ab-4c11 of v-root-reader-Zq9xW7kJ4vB2nR-1790000000 was denied";
        assert_silent("a log line", text, CANARY);
    }

    #[test]
    fn coincidences_and_short_secret_parts_are_not_leaks() {
        let secret = "?@09AZx4TNingQ7rb2LkVw8";
        assert_silent("a log line", "listening on http://127.0.0.1:42567", secret);
        assert!(!runs_shown("password: NINGQ7RB2LKV...", secret).is_empty());
        assert!(runs_shown("hunter", "hunter2").is_empty());
        assert!(!runs_shown("Hunter2", "hunter2").is_empty());
    }

    #[test]
    #[should_panic(expected = "holds a secret in the clear")]
    fn a_file_with_the_secret_fails() {
        let folder = crate::paths::Folder::new("leaks");
        // The bytes before and behind begin characters of UTF-8 and do not end them.
        let bytes = [&b"\xff\xe2\x82"[..], CANARY.as_bytes(), &b"\xf0\x9f"[..]].concat();
        std::fs::write(folder.path().join("wal"), bytes).expect("written");
        assert_sealed(folder.path(), CANARY);
    }
}
