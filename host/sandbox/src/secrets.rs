//! The secret set of a root call: what no text that leaves a plugin may show.
//!
//! The attack: a database echoes the statement it could not parse, lower-cased and cut, and the
//! piece of password in it travels through an error into a log. So not whole values are looked for
//! but every run of four characters of any of them, ignoring case; and of the spellings in which
//! URLs and SQL write them. What is encoded in another way passes: a component that means to tell a
//! secret to its caller can.
//!
//! The other attack is on memory: a component that hands in secrets for ever. When the set is full,
//! no text leaves at all.

use crate::limits;
use bulkhead_wire::sync;
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

/// Shortest run that is taken for a piece of a secret.
const RUN: usize = 4;
/// What stands where a piece of a secret stood.
const HIDDEN: &str = "[secret]";
/// How many values are known by themselves: a token goes with each request of a call, and is taken
/// apart once.
const RECENT: usize = 8;

/// Grows while the root call and its nested calls run; shared between them.
#[derive(Default)]
pub struct SecretSet {
    runs: Mutex<Runs>,
}

#[derive(Default)]
struct Runs {
    known: HashSet<[char; RUN]>,
    /// The values that were added last.
    recent: VecDeque<Box<str>>,
    /// There were more than are kept: anything may be a piece of a secret.
    is_full: bool,
}

impl SecretSet {
    /// Adds a value. Shorter than four characters it cannot be told from ordinary text and is left
    /// out.
    pub fn add(&self, value: &str) {
        let mut runs = self.lock();
        if runs.is_recent(value) {
            return;
        }
        runs.add(value);
        if value.contains('\'') {
            runs.add(&value.replace('\'', "''"));
        }
        if value.bytes().any(|byte| !is_plain_in_urls(byte)) {
            runs.add(&escape_for_urls(value));
        }
    }

    /// Does `text` hold so long a piece of a secret that it is no coincidence?
    pub(crate) fn shows(&self, text: &str) -> bool {
        let runs = self.lock();
        if runs.is_full {
            return true;
        }
        if runs.known.is_empty() {
            return false;
        }
        let hidden = hidden_positions(&lower(text.chars()), &runs.known);
        hidden.split(|hidden| !hidden).any(|stretch| stretch.len() >= limits::SECRET_STRETCH)
    }

    /// `text` with every run that may come from a secret replaced by `[secret]`, and cut at `limit`
    /// bytes.
    #[must_use]
    pub fn scrub(&self, text: &str, limit: usize) -> String {
        let mut end = limit.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = text.get(..end).unwrap_or_default();
        let runs = self.lock();
        if runs.is_full {
            return HIDDEN.to_owned();
        }
        if runs.known.is_empty() {
            return text.to_owned();
        }
        let hidden = hidden_positions(&lower(text.chars()), &runs.known);
        replace(text, &hidden)
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        sync::lock(&self.runs)
    }
}

impl Runs {
    /// Whether it was among the values that were added last; from now on it is.
    fn is_recent(&mut self, value: &str) -> bool {
        if self.recent.iter().any(|recent| **recent == *value) {
            return true;
        }
        if value.len() <= limits::SECRET_CHARACTERS {
            self.recent.truncate(RECENT - 1);
            self.recent.push_front(value.into());
        }
        false
    }

    fn add(&mut self, value: &str) {
        let lowered = lower(value.chars().take(limits::SECRET_CHARACTERS));
        self.known.reserve(lowered.len());
        for window in lowered.windows(RUN) {
            if self.known.len() >= limits::SECRET_RUNS {
                self.is_full = true;
                return;
            }
            self.known.extend(<[char; RUN]>::try_from(window));
        }
    }
}

/// Bytes that are never escaped in a URL.
fn is_plain_in_urls(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn escape_for_urls(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len() * 3);
    for byte in value.bytes() {
        if is_plain_in_urls(byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// One lower-case character for each character, so that positions stay the same.
fn lower(text: impl Iterator<Item = char>) -> Vec<char> {
    text.map(|c| c.to_lowercase().next().unwrap_or(c)).collect()
}

fn hidden_positions(text: &[char], runs: &HashSet<[char; RUN]>) -> Vec<bool> {
    let mut hidden = vec![false; text.len()];
    for (start, window) in text.windows(RUN).enumerate() {
        if <[char; RUN]>::try_from(window).is_ok_and(|run| runs.contains(&run)) {
            hidden.iter_mut().skip(start).take(RUN).for_each(|mark| *mark = true);
        }
    }
    hidden
}

fn replace(text: &str, hidden: &[bool]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for (c, hide) in text.chars().zip(hidden) {
        match (hide, inside) {
            (true, false) => out.push_str(HIDDEN),
            (true, true) => {}
            (false, _) => out.push(c),
        }
        inside = *hide;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(values: &[&str]) -> SecretSet {
        let set = SecretSet::default();
        values.iter().for_each(|value| set.add(value));
        set
    }

    #[test]
    fn a_lower_cased_and_cut_piece_is_hidden() {
        let scrubbed = set(&["ab'cSECRETd"]).scrub("unrecognized role option \"csecretd\"", 4096);
        assert_eq!(scrubbed, "unrecognized role option \"[secret]\"");
    }

    #[test]
    fn text_without_a_run_of_a_secret_stays_as_it_is() {
        assert_eq!(
            set(&["hunter2-hunter2"]).scrub("role \"app\" does not exist", 4096),
            "role \"app\" does not exist"
        );
    }

    #[test]
    fn values_shorter_than_a_run_hide_nothing() {
        assert_eq!(set(&["abc"]).scrub("abc", 4096), "abc");
    }

    #[test]
    fn what_urls_and_sql_make_of_a_secret_is_hidden_too() {
        let set = set(&["it's 100% säcret"]);
        for spelling in ["it's 100% säcret", "it''s 100% säcret", "it%27s%20100%25%20s%C3%A4cret"]
        {
            assert_eq!(set.scrub(spelling, 4096), "[secret]", "{spelling}");
        }
    }

    #[test]
    fn a_full_set_hides_everything() {
        let set = SecretSet::default();
        set.add("hunter2-hunter2");
        assert_eq!(set.scrub("an ordinary word", 4096), "an ordinary word");
        // Four letters out of a thousand each: no two of these runs are the same.
        let letters: Vec<char> = (0..1_000).filter_map(|n| char::from_u32(0x4e00 + n)).collect();
        for pair in letters.chunks(2).take(100) {
            let value: String =
                letters.iter().flat_map(|letter| pair.iter().chain([letter])).collect();
            set.add(&value);
        }
        assert_eq!(set.scrub("an ordinary word", 4096), "[secret]");
        assert!(set.shows("role/reader"));
        assert_eq!(set.lock().known.len(), limits::SECRET_RUNS);
    }

    #[test]
    fn a_value_is_hidden_however_many_others_are_added_and_added_again() {
        let values: Vec<String> =
            (0..3 * RECENT).map(|number| format!("{number}-secret-{number}")).collect();
        let values: Vec<&str> = values.iter().chain(&values).map(String::as_str).collect();
        let set = set(&values);
        assert_eq!(set.lock().recent.len(), RECENT);
        for value in values {
            assert_eq!(set.scrub(value, 4096), "[secret]", "{value}");
        }
    }

    #[test]
    fn a_name_shows_a_secret_only_by_a_long_piece_of_it() {
        let set = set(&["Reader-4711-Horse-Battery"]);
        assert!(!set.shows("role/reader"));
        assert!(set.shows("role/x-4711-hORSE-bat"));
    }

    #[test]
    fn cutting_respects_characters_of_several_bytes() {
        assert_eq!(set(&[]).scrub("aé", 2), "a");
        assert_eq!(set(&["ÄÖÜß"]).scrub("x äöüß y", 4096), "x [secret] y");
    }
}
