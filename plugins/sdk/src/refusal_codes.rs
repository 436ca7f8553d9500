//! The codes of a database plugin's refusals: each with its word, which travels, and its sentence,
//! which the description fixes.
//!
//! The attack this file stops: a password that travels in an error. The sentences are complete
//! before anything runs: no value of a running system can get into one but the names and numbers
//! that its braces ask for.

/// Declares an enum of codes and the table of its words and sentences, from one list:
///
/// ```
/// bulkhead_sdk::refusal_codes! {
///     /// Why the plugin refused.
///     pub enum Code, CODES {
///         Unreachable = "unreachable": "connection {connection} did not answer",
///         NotAscii = "password-not-ascii": "{setting} must be printable ASCII",
///     }
/// }
/// assert_eq!(Code::NotAscii.about("password").code, "password-not-ascii");
/// assert_eq!(CODES[0], ("unreachable", "connection {connection} did not answer"));
/// ```
#[macro_export]
macro_rules! refusal_codes {
    (
        $(#[$about:meta])*
        $visible:vis enum $name:ident, $table:ident {
            $($code:ident = $word:literal : $sentence:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each has its sentence")]
        $visible enum $name {
            $($code,)+
        }

        /// Each code's word with its sentence, for the description.
        $visible const $table: &[(&str, &str)] = &[$(($word, $sentence),)+];

        impl $name {
            /// The kebab-case word that travels.
            #[must_use]
            $visible const fn word(self) -> &'static str {
                match self {
                    $(Self::$code => $word,)+
                }
            }

            /// A refusal with nothing but this code.
            #[must_use]
            $visible fn refusal(self) -> $crate::database_plugin::Refusal {
                $crate::database_plugin::Refusal::of(self.word())
            }

            /// A refusal of one setting.
            #[must_use]
            $visible fn about(self, setting: &str) -> $crate::database_plugin::Refusal {
                self.refusal().about(setting)
            }
        }
    };
}

/// What refusals of every database plugin may carry.
#[cfg(not(target_family = "wasm"))]
const CARRIED: [&str; 10] = [
    "connection",
    "database",
    "fault",
    "position",
    "setting",
    "statement",
    "targets",
    "user",
    "vendor-code",
    "what",
];

/// What is wrong with a table of codes, for a plugin's test: a word that stands there twice or is
/// no word, a sentence that says nothing, one that asks for what no refusal carries: neither each
/// plugin's nor this one's (`carried`).
#[cfg(not(target_family = "wasm"))]
#[must_use]
pub fn offences(table: &[(&str, &str)], carried: &[&str]) -> Vec<String> {
    let mut offences = Vec::new();
    for (word, sentence) in table {
        if table.iter().filter(|(other, _)| other == word).count() > 1 {
            offences.push(format!("{word} stands there twice"));
        }
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') {
            offences.push(format!("{word:?} is no word"));
        }
        if sentence.len() <= 20 {
            offences.push(format!("{word} says too little"));
        }
        for asked in sentence.split('{').skip(1) {
            let name = asked.split('}').next().unwrap_or_default();
            if !CARRIED.contains(&name) && !carried.contains(&name) {
                offences.push(format!("{word} asks for {name:?}"));
            }
        }
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_table_is_told() {
        let sentence = "a sentence that is long enough";
        assert_eq!(offences(&[("a", sentence), ("b-c", sentence)], &[]), Vec::<String>::new());
        for (table, offence) in [
            (vec![("a", sentence), ("a", sentence)], "a stands there twice"),
            (vec![("A b", sentence)], "\"A b\" is no word"),
            (vec![("a", "short")], "a says too little"),
            (vec![("a", "a sentence that asks for {this}")], "a asks for \"this\""),
        ] {
            assert_eq!(offences(&table, &["that"])[0], offence);
        }
    }
}
