//! Codes of a database plugin's refusals. Each code has a word, which travels, and a sentence,
//! which is fixed in the plugin's description.
//!
//! This file prevents a password from leaking in an error message: the sentences are complete
//! before anything runs, and only the names and numbers for their braces are filled in at run time.

/// Declares an enum of codes and the table of their words and sentences from one list:
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

        /// Word and sentence of each code, for the description.
        $visible const $table: &[(&str, &str)] = &[$(($word, $sentence),)+];

        impl $name {
            /// Returns the kebab-case word that travels.
            #[must_use]
            $visible const fn word(self) -> &'static str {
                match self {
                    $(Self::$code => $word,)+
                }
            }

            /// Returns a refusal with only this code.
            #[must_use]
            $visible fn refusal(self) -> $crate::database_plugin::Refusal {
                $crate::database_plugin::Refusal::of(self.word())
            }

            /// Returns a refusal that names a setting.
            #[must_use]
            $visible fn about(self, setting: &str) -> $crate::database_plugin::Refusal {
                self.refusal().about(setting)
            }
        }

        impl From<$name> for $crate::database_plugin::Refusal {
            fn from(code: $name) -> Self {
                code.refusal()
            }
        }
    };
}

/// Names that refusals of every database plugin may carry.
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
    "work",
];

/// Returns the mistakes in a table of codes, for a plugin's test: a duplicate or malformed word, a
/// sentence that is too short, or a placeholder that no refusal carries. `carried` lists the
/// plugin's own placeholders.
#[cfg(not(target_family = "wasm"))]
#[must_use]
pub fn find_mistakes(table: &[(&str, &str)], carried: &[&str]) -> Vec<String> {
    let mut mistakes = Vec::new();
    for (word, sentence) in table {
        if table.iter().filter(|(other, _)| other == word).count() > 1 {
            mistakes.push(format!("{word} stands there twice"));
        }
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') {
            mistakes.push(format!("{word:?} is not a word"));
        }
        if sentence.len() <= 20 {
            mistakes.push(format!("{word} says too little"));
        }
        for part in sentence.split('{').skip(1) {
            let name = part.split('}').next().unwrap_or_default();
            if !CARRIED.contains(&name) && !carried.contains(&name) {
                mistakes.push(format!("{word} asks for {name:?}"));
            }
        }
    }
    mistakes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_a_table_are_reported() {
        let sentence = "a sentence that is long enough";
        assert_eq!(find_mistakes(&[("a", sentence), ("b-c", sentence)], &[]), Vec::<String>::new());
        for (table, offence) in [
            (vec![("a", sentence), ("a", sentence)], "a stands there twice"),
            (vec![("A b", sentence)], "\"A b\" is not a word"),
            (vec![("a", "short")], "a says too little"),
            (vec![("a", "a sentence that asks for {this}")], "a asks for \"this\""),
        ] {
            assert_eq!(find_mistakes(&table, &["that"])[0], offence);
        }
    }
}
