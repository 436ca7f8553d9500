//! The characters a password is drawn from.
//!
//! The attack this file prevents: guessing passwords of a generator that prefers some characters.
//! Random bytes that would favour the first characters are discarded, and a character written twice
//! counts once. The caller supplies the random bytes.

use crate::failure::Failure;
use std::collections::BTreeSet;

/// Source of random bytes, one per call.
pub type RandomBytes<'a> = &'a mut dyn FnMut() -> Result<u8, Failure>;

/// Maximum number of characters: a single byte chooses a character.
pub const MOST_CHARACTERS: usize = 256;

/// Maximum number of bytes discarded in a row. Fewer than half of all bytes are discarded, so this
/// many mean a broken generator.
const MAX_DISCARDED_BYTES: u32 = 128;

/// 1 to [`MOST_CHARACTERS`] different printable characters, in the order of their code points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alphabet(Vec<char>);

impl Alphabet {
    /// Returns the characters of `text`.
    ///
    /// # Errors
    /// A message if `text` has no characters, too many, or an unprintable one: a control character,
    /// a space other than the ordinary space, or a mark that joins the character before.
    pub fn of(text: &str) -> Result<Self, String> {
        let mut characters = BTreeSet::new();
        for character in text.chars() {
            if !is_printable(character) {
                return Err(format!(
                    "U+{:04X} is not printable; leave this character out",
                    u32::from(character)
                ));
            }
            characters.insert(character);
            if characters.len() > MOST_CHARACTERS {
                return Err(format!("there are more than {MOST_CHARACTERS} characters"));
            }
        }
        if characters.is_empty() {
            return Err("there are no characters; give at least one".to_owned());
        }
        Ok(Self(characters.into_iter().collect()))
    }

    /// Returns the characters of a non-empty constant.
    pub(crate) fn from_constant(text: &str) -> Self {
        let characters: BTreeSet<char> = text.chars().collect();
        Self(characters.into_iter().collect())
    }

    /// Returns the union of several alphabets.
    ///
    /// # Errors
    /// A message if the union is empty or too large.
    pub fn union<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Result<Self, String> {
        let text: String = parts.into_iter().flat_map(Self::characters).collect();
        Self::of(&text)
    }

    /// Returns each character once.
    pub fn characters(&self) -> impl Iterator<Item = char> {
        self.0.iter().copied()
    }

    /// Returns whether the alphabet contains `character`.
    #[must_use]
    pub fn contains_character(&self, character: char) -> bool {
        self.0.binary_search(&character).is_ok()
    }

    /// Draws a character; all characters are equally likely.
    ///
    /// # Errors
    /// Internal if the random bytes fail.
    pub fn draw(&self, bytes: RandomBytes<'_>) -> Result<char, Failure> {
        let most = self.0.len();
        // Bytes from here on would favour the first characters.
        let unbiased = 256 - 256 % most;
        for _ in 0..MAX_DISCARDED_BYTES {
            let byte = usize::from(bytes()?);
            if let Some(character) = (byte < unbiased).then(|| self.0.get(byte % most)).flatten() {
                return Ok(*character);
            }
        }
        Err(Failure::internal("the random generator gives the same few bytes again and again"))
    }

    /// Draws a text of `length` characters.
    ///
    /// # Errors
    /// As [`draw`](Self::draw).
    pub fn password(&self, length: usize, bytes: RandomBytes<'_>) -> Result<String, Failure> {
        // A character takes at most 4 bytes, so the text never reallocates and leaves a copy
        // behind.
        let mut text = String::with_capacity(length.saturating_mul(4));
        for _ in 0..length {
            text.push(self.draw(bytes)?);
        }
        Ok(text)
    }
}

/// Returns whether a character is visible on its own, or the ordinary space.
fn is_printable(character: char) -> bool {
    matches!(character, '\'' | '"' | '\\') || character.escape_debug().len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alphabet(count: usize) -> Alphabet {
        let text: String = ('\u{4e00}'..).take(count).collect();
        Alphabet::of(&text).unwrap()
    }

    #[test]
    fn characters_have_equal_byte_shares_for_any_count() {
        for count in 1..=MOST_CHARACTERS {
            let (alphabet, mut drawn) = (alphabet(count), Vec::new());
            let mut next = 0_u16;
            let mut every_byte_once = || {
                next += 1;
                u8::try_from(next - 1).map_err(|_| Failure::internal("no more"))
            };
            while let Ok(character) = alphabet.draw(&mut every_byte_once) {
                drawn.push(character);
            }
            assert_eq!(drawn.len(), 256 / count * count, "{count}");
            for character in alphabet.characters() {
                let times = drawn.iter().filter(|other| **other == character).count();
                assert_eq!(times, 256 / count, "{character} of {count}");
            }
        }
    }

    #[test]
    fn generator_repeating_one_byte_is_noticed() {
        let stuck = alphabet(200).draw(&mut || Ok(255));
        assert!(stuck.unwrap_err().message.contains("random generator"));
    }

    #[test]
    fn a_character_that_is_written_twice_counts_once() {
        assert_eq!(Alphabet::of("abcabca"), Alphabet::of("cba"));
        assert_eq!(Alphabet::of("a b").unwrap().characters().collect::<String>(), " ab");
        let both = Alphabet::union([&Alphabet::of("ab").unwrap(), &Alphabet::of("bc").unwrap()]);
        assert_eq!(both, Alphabet::of("abc"));
    }

    #[test]
    fn characters_untypable_from_paper_are_refused() {
        for text in ["a\n", "\0", "a\u{a0}b", "e\u{301}", "\u{200b}", "\u{7f}", "\u{e000}"] {
            assert!(Alphabet::of(text).unwrap_err().contains("not printable"), "{text:?}");
        }
        assert!(Alphabet::of("").unwrap_err().contains("no characters"));
        assert!(Alphabet::of(r#"'"\ äß漢"#).is_ok());
    }

    #[test]
    fn alphabet_size_is_bounded_by_byte_values() {
        let text: String = ('\u{4e00}'..).take(MOST_CHARACTERS + 1).collect();
        assert!(Alphabet::of(&text).unwrap_err().contains("more than 256"));
        let halves = text.split_at(text.len() / 2 / 3 * 3);
        let halves = [halves.0, halves.1].map(|half| Alphabet::of(half).unwrap());
        assert!(Alphabet::union(&halves).is_err());
    }
}
