//! How refusals are made, and what a failure of the database becomes.
//!
//! The attack this file stops: a password that travels in an error. A refusal names settings,
//! positions, SQLSTATEs and objects; it has no room for a setting's value or the database's own
//! words.

use crate::codes::CODES;
pub(crate) use crate::codes::Code;
use bulkhead_sdk::database_plugin::{Refusal, SqlFailure, Target};

impl Code {
    /// The kebab-case word that travels.
    pub(crate) fn word(self) -> &'static str {
        CODES.iter().find(|(code, ..)| *code == self).map_or("", |(_, word, _)| word)
    }

    /// A refusal with nothing but this code.
    pub(crate) fn refusal(self) -> Refusal {
        Refusal { code: self.word().to_owned(), ..Refusal::default() }
    }

    /// A refusal of one setting.
    pub(crate) fn about(self, setting: &str) -> Refusal {
        Refusal { setting: Some(setting.to_owned()), ..self.refusal() }
    }
}

/// `refusal` with one more pair for its sentence.
pub(crate) fn with(mut refusal: Refusal, name: &str, value: impl Into<String>) -> Refusal {
    refusal.ext.push((name.to_owned(), value.into()));
    refusal
}

/// What a failure of the `sql` import means to whoever called the plugin. Its message stays behind.
pub(crate) fn of_sql(failure: SqlFailure, target: &Target) -> Refusal {
    let what = failure
        .statement
        .map_or_else(|| "a statement".to_owned(), |at| format!("statement {}", u64::from(at) + 1));
    let code = match (failure.code.as_str(), failure.sqlstate.as_deref()) {
        ("unreachable", _) => Code::Unreachable,
        ("refused", _) => Code::Refused,
        ("timed-out", _) => Code::TimedOut,
        ("conflict", _) => Code::Conflict,
        ("permission-denied", _) => Code::PermissionDenied,
        ("forbidden-address", _) => Code::ForbiddenAddress,
        ("invalid-request", _) => Code::InvalidConfig,
        (_, Some("54000")) => Code::TooManyDirectGrants,
        (_, Some("42501")) => Code::InsufficientPrivilege,
        _ => Code::StatementFailed,
    };
    let mut refusal =
        Refusal { statement: failure.statement, vendor_code: failure.sqlstate, ..code.refusal() };
    refusal.ext = vec![
        ("targets".to_owned(), crate::target::written(target).join(", ")),
        ("user".to_owned(), target.username.clone()),
        ("what".to_owned(), what),
    ];
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{failure, settings};
    use crate::settings::Connection;

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
            "bytes",
            "parameter",
            "accepted",
        ];
        for (_, word, sentence) in CODES {
            for asked in sentence.split('{').skip(1) {
                let name = asked.split('}').next().unwrap();
                assert!(carried.contains(&name), "{word} asks for {name:?}");
            }
        }
    }

    #[test]
    fn the_words_of_the_database_stay_behind() {
        let target =
            Connection::read(&settings("host=db user=root password=rootpass")).unwrap().target;
        for code in [
            "unreachable",
            "refused",
            "timed-out",
            "conflict",
            "statement-failed",
            "invalid-request",
            "new",
        ] {
            let refusal = of_sql(failure(code, Some("XX000")), &target);
            assert!(!format!("{refusal:?}").contains("canary"), "{code}");
            assert!(!format!("{refusal:?}").contains("rootpass"), "{code}");
        }
    }

    #[test]
    fn codes_that_the_host_acts_on_keep_their_word() {
        let target = Connection::read(&settings("host=db user=root")).unwrap().target;
        for code in [
            "unreachable",
            "refused",
            "timed-out",
            "conflict",
            "statement-failed",
            "permission-denied",
        ] {
            assert_eq!(of_sql(failure(code, None), &target).code, code);
        }
    }

    #[test]
    fn a_row_that_is_too_big_is_told_as_too_many_grants() {
        let target = Connection::read(&settings("host=db user=root")).unwrap().target;
        assert_eq!(
            of_sql(failure("statement-failed", Some("54000")), &target).code,
            "too-many-direct-grants"
        );
    }
}
