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
//!
//! Most calls hand in secrets, and few say anything in which they would be looked for: runs are
//! only written down when a secret is added, and put in order when the first text is to be shown.

use crate::limits;
use bulkhead_wire::sync;
use std::sync::{Mutex, MutexGuard};

/// Shortest run that is taken for a piece of a secret.
const RUN: usize = 4;
/// What stands where a piece of a secret stood.
const HIDDEN: &str = "[secret]";

/// Grows while the root call and its nested calls run; shared between them.
#[derive(Default)]
pub struct SecretSet {
    runs: Mutex<Runs>,
}

#[derive(Default)]
struct Runs {
    /// Each as a number.
    known: Vec<u128>,
    /// The first so many are in order, and each is there once.
    ordered: usize,
    /// There were more than are kept: anything may be a piece of a secret.
    is_full: bool,
}

impl SecretSet {
    /// Adds a value. Shorter than four characters it cannot be told from ordinary text and is left
    /// out.
    pub fn add(&self, value: &str) {
        let mut runs = self.lock();
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
        let mut runs = self.lock();
        if runs.is_full {
            return true;
        }
        if runs.known.is_empty() || text.len() < limits::SECRET_STRETCH {
            return false;
        }
        let hidden = runs.hidden_positions(text);
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
        let mut runs = self.lock();
        if runs.is_full {
            return HIDDEN.to_owned();
        }
        if runs.known.is_empty() {
            return text.to_owned();
        }
        let hidden = runs.hidden_positions(text);
        replace(text, &hidden)
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        sync::lock(&self.runs)
    }
}

impl Runs {
    fn add(&mut self, value: &str) {
        if self.is_full {
            return;
        }
        // The run that ends with each character: the next one pushes its first out of the number.
        let mut run = 0;
        let characters = value.chars().take(limits::SECRET_CHARACTERS);
        self.known.extend(characters.enumerate().filter_map(|(position, c)| {
            run = run << 32 | u128::from(u32::from(lower(c)));
            (position + 1 >= RUN).then_some(run)
        }));
        if self.known.len() > limits::SECRET_RUNS {
            self.order();
        }
        if self.known.len() > limits::SECRET_RUNS {
            *self = Self { is_full: true, ..Self::default() };
        }
    }

    fn order(&mut self) {
        if self.ordered < self.known.len() {
            self.known.sort_unstable();
            self.known.dedup();
            self.ordered = self.known.len();
        }
    }

    /// For each character of `text` whether it is one of a run.
    fn hidden_positions(&mut self, text: &str) -> Vec<bool> {
        self.order();
        let text: Vec<char> = text.chars().map(lower).collect();
        let mut hidden = vec![false; text.len()];
        for (start, window) in text.windows(RUN).enumerate() {
            if self.known.binary_search(&number(window)).is_ok() {
                hidden.iter_mut().skip(start).take(RUN).for_each(|mark| *mark = true);
            }
        }
        hidden
    }
}

/// A run as a number of its own.
fn number(run: &[char]) -> u128 {
    run.iter().fold(0, |number, c| number << 32 | u128::from(u32::from(*c)))
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
fn lower(c: char) -> char {
    match c.is_ascii() {
        true => c.to_ascii_lowercase(),
        false => c.to_lowercase().next().unwrap_or(c),
    }
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
        assert!(set.lock().known.is_empty(), "it costs nothing more");
    }

    #[test]
    fn one_secret_fills_no_set_however_often_it_is_added() {
        let (set, long) = (SecretSet::default(), "0123456789abcdef".repeat(4_096));
        for _ in 0..10 {
            set.add(&long);
            set.add("Reader-4711-Horse-Battery");
        }
        assert_eq!(set.scrub("an ordinary word", 4096), "an ordinary word");
        assert_eq!(set.scrub("4711-horse", 4096), "[secret]");
        assert!(!set.shows("4711-horse") && set.shows("x-4711-horse-battery"));
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
