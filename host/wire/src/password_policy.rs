//! Password policies in HCL1 or JSON: the length of a password and its required characters.
//!
//! ```text
//! length = 20
//! rule "charset" {
//!   charset   = "abcdefghijklmnopqrstuvwxyz"
//!   min-chars = 1
//! }
//! ```
//!
//! The attacks this file prevents: passwords easier to guess than they look, and a policy that
//! keeps the process busy for ever. Whole candidates are drawn from the characters of all rules,
//! and candidates that break a rule are discarded, so all passwords that satisfy the policy are
//! equally likely. The number of drawn characters is bounded, and a policy that comes near the
//! bound is refused before use.

mod grammar;

use crate::alphabet::{Alphabet, RandomBytes};
use crate::failure::Failure;

/// Minimum length of a password, in characters.
pub const MIN_LENGTH: usize = 4;
/// Maximum length of a password, in characters.
pub const MAX_LENGTH: usize = 100;
/// Maximum size of a policy's text, in bytes.
pub const MAX_TEXT: usize = 64 << 10;
/// Maximum number of rules in a policy.
pub const MAX_RULES: usize = 32;

/// Number of passwords drawn to try a policy.
const TRIALS: u32 = 8;
/// Maximum number of characters drawn for all trials together: some milliseconds of work.
const MAX_TRIAL_CHARACTERS: u32 = 256 << 10;
/// Maximum number of characters drawn for one password: 128 times the average of any accepted
/// policy, so a draw fails with a probability of about e^-128.
const MAX_DRAWN_CHARACTERS: u32 = 4 << 20;

/// The length and required characters of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordPolicy {
    /// Number of characters.
    length: usize,
    /// The characters of all rules.
    alphabet: Alphabet,
    rules: Vec<CharacterRule>,
}

/// A minimum number of characters from an alphabet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CharacterRule {
    alphabet: Alphabet,
    at_least: usize,
}

impl PasswordPolicy {
    /// Reads a policy and tries it with random `bytes`.
    ///
    /// # Errors
    /// Invalid request with the line and the remedy: for invalid text or an unknown key, a length
    /// outside [`MIN_LENGTH`] to [`MAX_LENGTH`], no rule, more required characters than the length,
    /// or rules satisfied by so few texts that drawing a password takes too long.
    pub fn accept(text: &str, bytes: RandomBytes<'_>) -> Result<Self, Failure> {
        let policy = Self::parse(text)?;
        policy.try_policy(bytes)?;
        Ok(policy)
    }

    /// Reads a policy accepted earlier.
    ///
    /// # Errors
    /// As [`accept`](Self::accept), except for rules that take too long.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        grammar::parse(text)
    }

    fn of(length: usize, rules: Vec<CharacterRule>) -> Result<Self, String> {
        if !(MIN_LENGTH..=MAX_LENGTH).contains(&length) {
            return Err(format!(
                "length is {length}; passwords have {MIN_LENGTH} to {MAX_LENGTH} characters"
            ));
        }
        let least = rules.iter().map(|rule| rule.at_least).fold(0, usize::saturating_add);
        if least > length {
            return Err(format!(
                "the rules ask for at least {least} characters, but length is {length}; lower \
                 min-chars or raise length"
            ));
        }
        let alphabet = Alphabet::union(rules.iter().map(|rule| &rule.alphabet))
            .map_err(|why| format!("of all rules together {why}"))?;
        Ok(Self { length, alphabet, rules })
    }

    fn try_policy(&self, bytes: RandomBytes<'_>) -> Result<(), Failure> {
        let mut left = MAX_TRIAL_CHARACTERS;
        for _ in 0..TRIALS {
            if self.draw(&mut left, bytes)?.is_none() {
                return Err(Failure::invalid(format!(
                    "too few texts of {} characters satisfy this password policy, so drawing a \
                     password takes too long; lower min-chars, raise length, or give the rules \
                     more characters",
                    self.length
                )));
            }
        }
        Ok(())
    }

    /// Draws a password. All passwords that satisfy the policy are equally likely.
    ///
    /// # Errors
    /// Internal if the random bytes fail, or are so far from random that no candidate satisfies the
    /// policy.
    pub fn generate(&self, bytes: RandomBytes<'_>) -> Result<String, Failure> {
        let mut left = MAX_DRAWN_CHARACTERS;
        let password = self.draw(&mut left, bytes)?;
        password.ok_or_else(|| Failure::internal("no drawn password satisfies the policy"))
    }

    /// Draws a password, or returns `None` if that takes more than `left` characters.
    fn draw(&self, left: &mut u32, bytes: RandomBytes<'_>) -> Result<Option<String>, Failure> {
        while *left > 0 {
            let candidate = self.candidate(left, bytes)?;
            if candidate.is_some() {
                return Ok(candidate);
            }
        }
        Ok(None)
    }

    /// Draws characters until they are a password or can no longer become a password.
    fn candidate(&self, left: &mut u32, bytes: RandomBytes<'_>) -> Result<Option<String>, Failure> {
        let mut text = String::with_capacity(self.length.saturating_mul(4));
        let mut missing: Vec<usize> = self.rules.iter().map(|rule| rule.at_least).collect();
        for places in (0..self.length).rev() {
            let character = self.alphabet.draw(bytes)?;
            *left = left.saturating_sub(1);
            text.push(character);
            for (missing, rule) in missing.iter_mut().zip(&self.rules) {
                if *missing > 0 && rule.alphabet.contains_character(character) {
                    *missing -= 1;
                }
                if *missing > places {
                    return Ok(None);
                }
            }
        }
        Ok(Some(text))
    }

    /// Returns whether the policy could have produced `password`.
    #[must_use]
    pub fn is_satisfied_by(&self, password: &str) -> bool {
        let of = |alphabet: &Alphabet| {
            password.chars().filter(|one| alphabet.contains_character(*one)).count()
        };
        password.chars().count() == self.length
            && of(&self.alphabet) == self.length
            && self.rules.iter().all(|rule| of(&rule.alphabet) >= rule.at_least)
    }
}

/// 20 letters, digits and dashes, with at least one lower-case letter, one upper-case letter, one
/// digit and one dash.
impl Default for PasswordPolicy {
    fn default() -> Self {
        let kinds = ["abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", "-"];
        let rule = |kind| CharacterRule { alphabet: Alphabet::from_constant(kind), at_least: 1 };
        let rules = kinds.into_iter().map(rule).collect();
        Self { length: 20, alphabet: Alphabet::from_constant(&kinds.concat()), rules }
    }
}

#[cfg(test)]
mod tests;
