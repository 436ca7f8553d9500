//! The secret set of a root call: what no text that leaves a plugin may show.
//!
//! The attack: a database echoes the statement it could not parse, lower-cased and cut, and the piece
//! of password in it travels through an error into a log. So not whole values are looked for but every
//! run of four characters of any of them, ignoring case.

use crate::limits;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Shortest run that is taken for a piece of a secret.
const RUN: usize = 4;

/// Grows while the root call and its nested calls run; shared between them.
#[derive(Default)]
pub struct SecretSet {
    runs: Mutex<BTreeSet<[char; RUN]>>,
}

impl SecretSet {
    /// Adds a value. Shorter than four characters it cannot be told from ordinary text and is left out.
    pub fn add(&self, value: &str) {
        let lowered = lower(value.chars().take(limits::SECRET_CHARACTERS));
        let mut runs = self.runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        runs.extend(lowered.windows(RUN).filter_map(|window| <[char; RUN]>::try_from(window).ok()));
    }

    /// `text` with every run that may come from a secret replaced by `[secret]`, and cut at `limit` bytes.
    #[must_use]
    pub fn scrub(&self, text: &str, limit: usize) -> String {
        let mut end = limit.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = text.get(..end).unwrap_or_default();
        let runs = self.runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if runs.is_empty() {
            return text.to_owned();
        }
        let hidden = hidden_positions(&lower(text.chars()), &runs);
        replace(text, &hidden)
    }
}

/// One lower-case character for each character, so that positions stay the same.
fn lower(text: impl Iterator<Item = char>) -> Vec<char> {
    text.map(|c| c.to_lowercase().next().unwrap_or(c)).collect()
}

fn hidden_positions(text: &[char], runs: &BTreeSet<[char; RUN]>) -> Vec<bool> {
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
            (true, false) => out.push_str("[secret]"),
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
        assert_eq!(set(&["hunter2-hunter2"]).scrub("role \"app\" does not exist", 4096), "role \"app\" does not exist");
    }

    #[test]
    fn values_shorter_than_a_run_hide_nothing() {
        assert_eq!(set(&["abc"]).scrub("abc", 4096), "abc");
    }

    #[test]
    fn cutting_respects_characters_of_several_bytes() {
        assert_eq!(set(&[]).scrub("aé", 2), "a");
        assert_eq!(set(&["ÄÖÜß"]).scrub("x äöüß y", 4096), "x [secret] y");
    }
}
