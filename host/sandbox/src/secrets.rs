//! The secrets of a root call, and how texts that leave it are cleaned of them.
//!
//! Two attacks pull in opposite directions. A database repeats the statement that it could not
//! parse, in other letters and cut, and a piece of a password reaches an error or a log. And a
//! caller guesses: the caller sends pieces of text that a message quotes, and reads off the answer
//! which of them were hidden. So a text is cleaned by these rules (decision P23):
//!
//! - A secret of 12 characters or more is hidden as a whole, and so is each piece of 12 characters,
//!   in any case of letters, as it is and as SQL, URLs, JSON, base64 and hexadecimal write it.
//! - A shorter secret is hidden as a whole, where it stands as a word of its own. A secret of
//!   letters alone is a word like others, and one of less than four characters is no secret.
//! - In a text for the caller, the caller's own words stay. The words are the fields of the request
//!   but for those that are marked secret, and the claims of its tokens. A log has no such exception.
//!
//! It follows that an answer of the caller's words and of the component's own does not depend on a
//! secret that the caller does not know. A component that means to tell a secret can do it in
//! another spelling: no cleaning prevents that.
//!
//! The third attack is on memory: a component that hands in secrets for ever. When the set is full,
//! no text leaves at all.
//!
//! Most calls hand in secrets, and few say anything in which they would be looked for: a secret is
//! only kept when it is added, and spelled out when the first text is to be shown.

mod caller_words;
mod runs;
mod spelling;

#[cfg(test)]
mod tests;

use crate::bindings::secrets_engine::bulkhead::plugin::types::Call;
use crate::limits;
use bulkhead_wire::sync;
use caller_words::CallerWords;
use runs::{Found, RUN, Runs, letters};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, OnceLock};
use zeroize::Zeroizing;

/// What stands where a piece of a secret stood.
const HIDDEN: &str = "[secret]";
/// Shortest secret, and shortest remainder of one between the caller's own words, in characters.
const SHORTEST: usize = 4;

/// Grows while the root call and its nested calls run; shared between them.
#[derive(Default)]
pub struct SecretSet {
    known: Mutex<Known>,
    caller: OnceLock<CallerWords>,
}

#[derive(Default)]
struct Known {
    /// Added, and not looked for yet.
    added: Vec<Zeroizing<String>>,
    /// Those of the caller's own fields that are marked secret.
    told: Vec<Zeroizing<String>>,
    /// What was added before, so that a secret that is handed in again takes no room.
    seen: HashSet<u64>,
    hashing: RandomState,
    runs: Runs,
    /// Characters of all.
    size: usize,
    /// There were more than are kept: anything may be a piece of a secret.
    is_full: bool,
}

impl SecretSet {
    /// Adds a value.
    pub fn add(&self, value: &str) {
        self.lock().add(value);
    }

    /// Adds a value of the request's that its field marks as secret: the caller knows it, and is
    /// not shown it all the same.
    pub fn add_told(&self, value: &str) {
        let mut known = self.lock();
        known.told.push(value.to_owned().into());
        known.add(value);
    }

    /// Remembers what the caller of the root call said.
    pub(crate) fn hear(&self, call: &Call) {
        self.caller.get_or_init(|| CallerWords::of(call));
    }

    /// Does `name` hold a piece of a secret that the caller did not say?
    pub(crate) fn shows(&self, name: &str) -> bool {
        let mut known = self.lock();
        if known.is_full {
            return true;
        }
        // What is shorter would be taken for a word.
        if name.len() < RUN || !known.begin_to_look() {
            return false;
        }
        known.hidden_positions(&letters(name), self.caller.get()).contains(&true)
    }

    /// `text` for a log, without secrets and cut at `limit` bytes.
    #[must_use]
    pub fn scrub(&self, text: &str, limit: usize) -> String {
        self.clean(text, limit, None)
    }

    /// `text` for the caller, without secrets but those that the caller said, and cut at `limit`
    /// bytes.
    #[must_use]
    pub(crate) fn scrub_for_caller(&self, text: &str, limit: usize) -> String {
        self.clean(text, limit, self.caller.get())
    }

    fn clean(&self, text: &str, limit: usize, caller: Option<&CallerWords>) -> String {
        let shown = cut(text, limit);
        let mut known = self.lock();
        if known.is_full {
            return HIDDEN.to_owned();
        }
        if !known.begin_to_look() {
            return shown.to_owned();
        }
        // A little more than is shown, so that what the end cuts through is found.
        let looked_at = letters(cut(text, limit.saturating_add(4 * RUN)));
        let hidden = known.hidden_positions(&looked_at, caller);
        replace(shown, &hidden)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        sync::lock(&self.known)
    }
}

impl Known {
    fn add(&mut self, value: &str) {
        if self.is_full || value.len() < SHORTEST || !self.seen.insert(self.hashing.hash_one(value))
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

    /// Spells out what was added since the last look. `false` where there are no secrets.
    fn begin_to_look(&mut self) -> bool {
        for value in self.added.drain(..) {
            for spelled in spelling::of(&value) {
                self.runs.add_secret(&letters(&spelled));
            }
        }
        !self.runs.is_empty()
    }

    /// For each character of `text` whether it is to be hidden.
    fn hidden_positions(&self, text: &[char], caller: Option<&CallerWords>) -> Vec<bool> {
        let found = self.runs.find(text).into_iter();
        let mut hidden: Vec<bool> = found.map(|found| found != Found::Nowhere).collect();
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

/// For each character of a piece of a secret whether it is shown all the same, where the caller's
/// words are found in the piece. What only joins words of the caller's is the component's, even if
/// a secret goes on so; around more than that, a short word is in the secret by chance.
fn shown_again(own: &[Found]) -> Vec<bool> {
    let is_said = |found: &Found| *found != Found::Nowhere;
    let mut others = own.split(is_said);
    if others.all(|other| other.len() < SHORTEST) {
        return vec![true; own.len()];
    }
    own.iter().map(|found| *found == Found::InRun).collect()
}

/// As much of `text` as `limit` bytes hold.
fn cut(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or_default()
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
