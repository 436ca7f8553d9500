//! How refusals are made.
//!
//! The attack this file stops: a password that travels in an error. A refusal names settings,
//! positions, SQLSTATEs and objects; it has no room for a setting's value.

use crate::codes::CODES;
pub(crate) use crate::codes::Code;
use bulkhead_sdk::database_plugin::Refusal;

impl Code {
    /// The kebab-case word that travels.
    pub(crate) fn word(self) -> &'static str {
        CODES.iter().find(|(code, ..)| *code == self).map_or("", |(_, word, _)| word)
    }

    /// A refusal with nothing but this code.
    pub(crate) fn refusal(self) -> Refusal {
        Refusal::of(self.word())
    }

    /// A refusal of one setting.
    pub(crate) fn about(self, setting: &str) -> Refusal {
        self.refusal().about(setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_in_the_table_under_its_own_word() {
        for (place, (code, word, sentence)) in CODES.iter().enumerate() {
            assert_eq!(*code as usize, place, "{word}");
            assert_eq!(code.word(), *word);
            assert!(sentence.len() > 20, "{word}");
            assert_eq!(CODES.iter().filter(|(_, other, _)| other == word).count(), 1, "{word}");
        }
        assert_eq!(Code::AuthType as usize + 1, CODES.len());
    }

    #[test]
    fn sentences_ask_only_for_what_refusals_carry() {
        let carried = [
            "setting",
            "statement",
            "vendor-code",
            "connection",
            "targets",
            "user",
            "what",
            "position",
            "fault",
            "objects",
            "held",
            "placeholder",
            "parameter",
        ];
        for (_, word, sentence) in CODES {
            for asked in sentence.split('{').skip(1) {
                let name = asked.split('}').next().unwrap();
                assert!(carried.contains(&name), "{word} asks for {name:?}");
            }
        }
    }
}
