//! The secrets of a root call, and how texts that leave it are cleaned of them.
//!
//! Two attacks pull in opposite directions. In the first, a database repeats the statement that the
//! database could not parse, lower-cased and cut, and a piece of a password reaches an error or a
//! log. In the second, a caller guesses: the caller sends pieces of text that a message quotes, and
//! the answer shows which pieces were hidden. The host therefore cleans texts by these rules
//! (decision P23):
//!
//! - A secret of 12 characters or more is hidden, and so is each piece of 12 characters, in any
//!   case, in plain spelling and as SQL, URLs, JSON, base64, hexadecimal and lists of decimal bytes
//!   spell the secret.
//! - In a log, a piece is hidden in spite of blanks, line ends and commas between the characters: a
//!   panic prints the bytes of a value as a list, with a number in each line, and a long line is
//!   broken. In an answer such a piece stays: two words of the caller are not one word.
//! - A shorter secret is hidden where the whole secret stands as a separate word. A short secret of
//!   letters alone is an ordinary word, and a value of less than four characters is not secret.
//! - The lines that begin and end PEM are not secret, although they stand in one: their words are
//!   the same in every key, and messages about keys need them.
//! - A text for the caller keeps the caller's own words: the fields of the request except fields
//!   that are marked secret, and the claims of tokens in the request. A log has no such exception.
//!
//! Guarantee: an answer that consists of the caller's words and of the component's constant texts
//! does not depend on a secret that the caller does not know. No rule stops a component that spells
//! a secret in another way on purpose.
//!
//! The third attack is on memory: a component adds secrets without end. When the set is full, the
//! host hides every text.
//!
//! Most calls add secrets, many write names, and few have a text to clean. The set therefore only
//! keeps what a call adds, and spells all secrets out before the first text.

mod caller_words;
mod runs;
mod spelling;

#[cfg(test)]
mod tests;

use crate::bindings::secrets_engine::bulkhead::plugin::types::Call;
use crate::limits;
use bulkhead_wire::sync;
use caller_words::CallerWords;
use runs::{CharacterMatch, RUN_LENGTH, SecretRuns, letters};
use spelling::DenseText;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, OnceLock};
use zeroize::Zeroizing;

/// Replacement for a piece of a secret.
const REDACTION: &str = "[secret]";
/// Characters of the shortest secret, and of the shortest piece between two of the caller's words.
const SHORTEST_SECRET: usize = 4;
/// Bytes of a piece of a secret that is too short to be found: 11 characters, and the blanks
/// between the numbers of an indented list.
pub(crate) const PIECE_BYTES: usize = 128;

/// The secrets of a root call. The root call shares the set with its nested calls.
#[derive(Default)]
pub struct SecretSet {
    known: Mutex<KnownSecrets>,
    caller: OnceLock<CallerWords>,
}

#[derive(Default)]
struct KnownSecrets {
    /// Secrets that are not in any runs yet.
    added: Vec<Zeroizing<String>>,
    /// Secrets with runs of the plain spelling in `plain`, but without runs in `spelled`.
    unspelled: Vec<Zeroizing<String>>,
    /// Values of fields of the request that are marked secret.
    told: Vec<Zeroizing<String>>,
    /// Hashes of all secrets: a repeated secret takes no room.
    seen: HashSet<u64>,
    hashing: RandomState,
    plain: SecretRuns,
    /// Runs of all other spellings.
    spelled: SecretRuns,
    /// Runs of the spellings that have blanks or commas, without the blanks and commas.
    dense: SecretRuns,
    /// Bytes of all secrets.
    size: usize,
    /// More secrets were added than the set keeps: any text may hold a piece of a secret.
    is_full: bool,
}

impl SecretSet {
    /// Adds a secret.
    pub fn add(&self, value: &str) {
        self.lock().add(value);
    }

    /// Adds the value of a field that is marked secret. Answers hide the value, although the caller
    /// knows the value.
    pub fn add_sensitive_field(&self, value: &str) {
        let mut secrets = self.lock();
        secrets.told.push(value.to_owned().into());
        secrets.add(value);
    }

    /// Remembers the caller's words.
    pub(crate) fn set_caller_words(&self, call: &Call) {
        self.caller.get_or_init(|| CallerWords::of(call));
    }

    /// Returns whether `name` holds a piece of 12 characters of a secret that is not among the
    /// caller's words. A name may equal a shorter secret: an operator may call a connection like
    /// its password.
    pub(crate) fn reveals_secret(&self, name: &str) -> bool {
        let mut secrets = self.lock();
        if secrets.is_full {
            return true;
        }
        secrets.index_plain();
        if name.len() < RUN_LENGTH || secrets.plain.is_empty() {
            return false;
        }
        let name = letters(name);
        let found =
            secrets.plain.find(&name).into_iter().map(|found| found == CharacterMatch::InRun);
        secrets.exclude_caller_words(&name, found.collect(), self.caller.get()).contains(&true)
    }

    /// Returns `text` for a log: without secrets, and cut at `limit` bytes.
    #[must_use]
    pub fn scrub(&self, text: &str, limit: usize) -> String {
        self.clean(text, limit, None)
    }

    /// Returns `text` for the caller: without secrets except the caller's own words, and cut at
    /// `limit` bytes.
    #[must_use]
    pub(crate) fn scrub_for_caller(&self, text: &str, limit: usize) -> String {
        self.clean(text, limit, self.caller.get())
    }

    fn clean(&self, text: &str, limit: usize, caller: Option<&CallerWords>) -> String {
        let shown = truncate(text, limit);
        let mut secrets = self.lock();
        if secrets.is_full {
            return REDACTION.to_owned();
        }
        secrets.index_spellings();
        if secrets.plain.is_empty() {
            return shown.to_owned();
        }
        // Beyond the cut, too: a secret is found although the cut goes through the secret.
        let looked_at = letters(truncate(text, limit.saturating_add(PIECE_BYTES)));
        let hidden = secrets.hidden_positions(&looked_at, caller);
        replace(shown, &hidden)
    }

    fn lock(&self) -> MutexGuard<'_, KnownSecrets> {
        sync::lock(&self.known)
    }
}

impl KnownSecrets {
    fn add(&mut self, value: &str) {
        if self.is_full
            || value.len() < SHORTEST_SECRET
            || !self.seen.insert(self.hashing.hash_one(value))
        {
            return;
        }
        let value: String = value.chars().take(limits::SECRET_CHARACTERS).collect();
        self.size = self.size.saturating_add(value.len());
        self.added.push(value.into());
        if self.size > limits::SECRETS_BYTES {
            *self = Self { is_full: true, ..Self::default() };
        }
    }

    /// Adds new secrets to the runs in plain spelling.
    fn index_plain(&mut self) {
        for value in self.added.drain(..) {
            self.plain.add_secret(&letters(&value));
            self.unspelled.push(value);
        }
    }

    /// Adds new secrets to the runs in all spellings.
    fn index_spellings(&mut self) {
        self.index_plain();
        for value in self.unspelled.drain(..) {
            self.dense.add_dense(&letters(&value));
            for spelled in spelling::others(&value) {
                let spelled = letters(&spelled);
                self.spelled.add_secret(&spelled);
                self.dense.add_dense(&spelled);
            }
        }
    }

    /// Returns for each character of `text` whether the character is to be hidden.
    fn hidden_positions(&self, text: &[char], caller: Option<&CallerWords>) -> Vec<bool> {
        let found = self.plain.find(text).into_iter().zip(self.spelled.find(text));
        let is_found = |(plain, spelled)| {
            plain != CharacterMatch::Nowhere || spelled != CharacterMatch::Nowhere
        };
        let mut hidden: Vec<bool> = found.map(is_found).collect();
        if caller.is_none() {
            self.hide_stretched(text, &mut hidden);
        }
        self.exclude_caller_words(text, hidden, caller)
    }

    /// Hides the pieces that blanks, line ends or commas stretch, with the separators inside.
    fn hide_stretched(&self, text: &[char], hidden: &mut [bool]) {
        let DenseText { letters, positions } = DenseText::of(text);
        if letters.len() == text.len() {
            return;
        }
        let mut found = vec![CharacterMatch::Nowhere; letters.len()];
        for runs in [&self.plain, &self.spelled, &self.dense] {
            runs.mark_runs(&letters, &mut found);
        }
        let found: Vec<(usize, CharacterMatch)> = positions.into_iter().zip(found).collect();
        for piece in found.chunk_by(|(_, one), (_, next)| one == next) {
            if let [(start, CharacterMatch::InRun), .., (end, _)] = piece {
                hidden.iter_mut().take(end.saturating_add(1)).skip(*start).for_each(|hide| {
                    *hide = true;
                });
            }
        }
    }

    /// Returns `hidden` without the positions of the caller's words.
    fn exclude_caller_words(
        &self,
        text: &[char],
        mut hidden: Vec<bool>,
        caller: Option<&CallerWords>,
    ) -> Vec<bool> {
        let Some(caller) = caller.filter(|_| hidden.contains(&true)) else { return hidden };
        let own = caller.runs(&self.told).find(text);
        let mut own = own.as_slice();
        for stretch in hidden.chunk_by_mut(|one, next| one == next) {
            let (of_stretch, rest) = own.split_at_checked(stretch.len()).unwrap_or_default();
            own = rest;
            if stretch.first() == Some(&true) {
                let shown = shown_again(of_stretch);
                stretch.iter_mut().zip(shown).for_each(|(hide, shown)| *hide = !shown);
            }
        }
        hidden
    }
}

/// Returns for each character of a piece of a secret whether the character is shown all the same,
/// because the caller's words are found in the piece.
///
/// One to three characters between two words of the caller are the component's punctuation, even if
/// they continue a secret. Around a longer remainder, a short word is in the secret by chance.
fn shown_again(own: &[CharacterMatch]) -> Vec<bool> {
    let is_said = |found: &CharacterMatch| *found != CharacterMatch::Nowhere;
    let mut others = own.split(is_said);
    if others.all(|other| other.len() < SHORTEST_SECRET) {
        return vec![true; own.len()];
    }
    own.iter().map(|found| *found == CharacterMatch::InRun).collect()
}

/// Returns the longest beginning of `text` that has at most `limit` bytes.
fn truncate(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or_default()
}

fn replace(text: &str, hidden: &[bool]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for (c, hide) in text.chars().zip(hidden) {
        match (hide, inside) {
            (true, false) => out.push_str(REDACTION),
            (true, true) => {}
            (false, _) => out.push(c),
        }
        inside = *hide;
    }
    out
}
