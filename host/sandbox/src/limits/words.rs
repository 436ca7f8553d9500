//! The limits that grants set: their words, their forms, and which of several lines holds.
//!
//! A mount's line counts before what its component asks for, that before the default; the catalog's
//! ceiling, and the one that nobody is granted more than, are above all of them.

use super::Limits;
use crate::component::Maker;
use crate::grants::{Ask, Grant, Rights};
use bulkhead_wire::failure::quoted;
use bulkhead_wire::{duration, size, spelling};
use std::fmt;
use std::time::Duration;

/// One limit and what it is set to: the target of a line such as `limit:memory=64MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitLine {
    word: Word,
    value: u64,
}

/// A limit that a line can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Deadline,
    Memory,
    HostCalls,
    HostBytes,
    Answer,
    Handles,
    Storage,
    Log,
    HttpCalls,
    HttpBytes,
    Connections,
    Concurrency,
    Rate,
    Cache,
}

/// How the value of a limit is written.
#[derive(Clone, Copy)]
enum Form {
    Time,
    Size,
    Count,
    Rate,
}

const WORDS: [(Word, &str, Form); 14] = [
    (Word::Deadline, "deadline", Form::Time),
    (Word::Memory, "memory", Form::Size),
    (Word::HostCalls, "host-calls", Form::Count),
    (Word::HostBytes, "host-bytes", Form::Size),
    (Word::Answer, "answer", Form::Size),
    (Word::Handles, "handles", Form::Count),
    (Word::Storage, "storage", Form::Size),
    (Word::Log, "log", Form::Size),
    (Word::HttpCalls, "http-calls", Form::Count),
    (Word::HttpBytes, "http-bytes", Form::Size),
    (Word::Connections, "connections", Form::Count),
    (Word::Concurrency, "concurrency", Form::Count),
    (Word::Rate, "rate", Form::Rate),
    (Word::Cache, "cache", Form::Size),
];

/// Of a limit that there is none.
const NONE: u64 = u64::MAX;

impl Limits {
    /// The limits of a mount whose lines are `rights`. A component that somebody brought raises
    /// nothing above the default by asking for it: the catalog's entry, or where that has no
    /// ceiling the mount, has to allow it.
    #[must_use]
    pub fn of(rights: &Rights<'_>) -> Self {
        let mut limits = Self::default();
        for (word, ..) in WORDS {
            let (usual, most) = (word.get(&limits), word.get(&Self::CEILING));
            let line = |asks: &[Ask]| asks.iter().find_map(|ask| word.in_line(ask.grant()?));
            let unsaid = if rights.maker == Maker::Official { most } else { usual };
            let ceiling = rights.ceiling.map(|ceiling| line(ceiling).unwrap_or(unsaid));
            let granted =
                rights.granted.unwrap_or_default().iter().find_map(|grant| word.in_line(grant));
            let value = match (granted, line(rights.asked)) {
                (Some(granted), _) => granted.min(ceiling.unwrap_or(most)),
                (None, Some(asked)) => asked.min(ceiling.unwrap_or(unsaid)),
                (None, None) => usual.min(ceiling.unwrap_or(NONE)),
            };
            word.set(&mut limits, value);
        }
        limits
    }

    /// The line that doubles the limit of that name; `None` where nobody is granted more, and of
    /// what no line sets.
    pub(crate) fn raised(&self, name: &str) -> Option<Grant> {
        let (word, ..) = WORDS.iter().find(|(_, word, _)| *word == name)?;
        let (value, most) = (word.get(self), word.get(&Self::CEILING));
        let doubled = LimitLine { word: *word, value: value.saturating_mul(2).min(most) };
        (value < most).then_some(Grant::Limit(doubled))
    }
}

impl LimitLine {
    /// Reads what stands behind `limit:`.
    ///
    /// # Errors
    /// What is wrong with it, and the forms that there are.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| format!("{} has no value; write limit:memory=64MiB", quoted(text)))?;
        let Some((word, _, form)) = WORDS.iter().find(|(_, word, _)| *word == name) else {
            let hint = spelling::hint(name, &WORDS.map(|(_, word, _)| word));
            return Err(format!("there is no limit {}{hint}", quoted(name)));
        };
        let value = form.parse(value)?;
        let most = word.get(&Limits::CEILING);
        if value == 0 {
            return Err(format!("{name} of 0 lets nothing run; give more, or leave the line out"));
        }
        if value > most {
            let (asked, most) = (form.show(value), form.show(most));
            return Err(format!(
                "{name}={asked} is more than anybody is granted; the most is {name}={most}"
            ));
        }
        Ok(Self { word: *word, value })
    }

    /// What a ceiling of those lines allows of this limit: of one that it does not name, the
    /// default.
    pub(crate) fn most_below(&self, ceiling: &[Ask]) -> Self {
        let named = ceiling.iter().find_map(|ask| self.word.in_line(ask.grant()?));
        Self { word: self.word, value: named.unwrap_or_else(|| self.word.get(&Limits::default())) }
    }

    /// Whether it gives no more than another line of the same limit.
    pub(crate) fn is_at_most(&self, other: &Self) -> bool {
        self.is_of_same_limit(other) && self.value <= other.value
    }

    /// Whether both set the same limit.
    #[must_use]
    pub fn is_of_same_limit(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl fmt::Display for LimitLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = WORDS.iter().find(|(word, ..)| *word == self.word);
        named.map_or(Ok(()), |(_, name, form)| write!(f, "{name}={}", form.show(self.value)))
    }
}

impl Form {
    fn parse(self, text: &str) -> Result<u64, String> {
        match self {
            Self::Time if text.is_empty() => {
                Err(format!("{} is not a duration: give one such as 30s", quoted(text)))
            }
            Self::Time => duration::parse(text),
            Self::Size => size::parse(text),
            Self::Count => {
                count(text).ok_or_else(|| format!("{} is not a whole number", quoted(text)))
            }
            Self::Rate => text
                .strip_suffix("/s")
                .and_then(count)
                .ok_or_else(|| format!("{} is not a rate: give one such as 200/s", quoted(text))),
        }
    }

    fn show(self, value: u64) -> String {
        match self {
            Self::Time => duration::show(value),
            Self::Size => size::show(value),
            Self::Count => value.to_string(),
            Self::Rate => format!("{value}/s"),
        }
    }
}

fn count(text: &str) -> Option<u64> {
    Some(text)
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
}

impl Word {
    /// What `grant` sets this limit to.
    fn in_line(self, grant: &Grant) -> Option<u64> {
        match grant {
            Grant::Limit(line) if line.word == self => Some(line.value),
            _ => None,
        }
    }

    fn get(self, limits: &Limits) -> u64 {
        match self {
            Self::Deadline => limits.deadline.map_or(NONE, |time| time.as_secs()),
            Self::Memory => limits.memory_bytes as u64,
            Self::HostCalls => limits.host_calls.into(),
            Self::HostBytes => limits.host_bytes as u64,
            Self::Answer => limits.answer_bytes as u64,
            Self::Handles => limits.handles as u64,
            Self::Storage => limits.storage_bytes as u64,
            Self::Log => limits.log_bytes as u64,
            Self::HttpCalls => limits.http_calls.into(),
            Self::HttpBytes => limits.http_bytes as u64,
            Self::Connections => limits.connections.into(),
            Self::Concurrency => limits.concurrency.into(),
            Self::Rate => limits.rate.map_or(NONE, u64::from),
            Self::Cache => limits.cache_bytes as u64,
        }
    }

    fn set(self, limits: &mut Limits, value: u64) {
        let size = usize::try_from(value).unwrap_or(usize::MAX);
        let count = u32::try_from(value).unwrap_or(u32::MAX);
        match self {
            Self::Deadline => limits.deadline = (value != NONE).then(|| Duration::from_secs(value)),
            Self::Memory => limits.memory_bytes = size,
            Self::HostCalls => limits.host_calls = count,
            Self::HostBytes => limits.host_bytes = size,
            Self::Answer => limits.answer_bytes = size,
            Self::Handles => limits.handles = size,
            Self::Storage => limits.storage_bytes = size,
            Self::Log => limits.log_bytes = size,
            Self::HttpCalls => limits.http_calls = count,
            Self::HttpBytes => limits.http_bytes = size,
            Self::Connections => limits.connections = count,
            Self::Concurrency => limits.concurrency = count,
            Self::Rate => limits.rate = (value != NONE).then_some(count),
            Self::Cache => limits.cache_bytes = size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// The memory of a mount whose lines those are; an empty one is none.
    fn memory(maker: Maker, asked: &str, ceiling: Option<&str>, granted: &str) -> usize {
        let lines = |text: &str| -> Vec<Ask> {
            text.split_whitespace().map(|line| line.parse().unwrap()).collect()
        };
        let granted: Vec<Grant> =
            granted.split_whitespace().map(|line| line.parse().unwrap()).collect();
        let (asked, ceiling) = (lines(asked), ceiling.map(lines));
        let rights = Rights {
            mount: "m/",
            maker,
            asked: &asked,
            ceiling: ceiling.as_deref(),
            granted: (!granted.is_empty()).then_some(&granted),
        };
        Limits::of(&rights).memory_bytes / MIB
    }

    #[test]
    fn a_mount_narrows_and_widens_up_to_its_ceiling_and_an_ask_alone_widens_officials_only() {
        use Maker::{Official, Uploaded};
        let table = [
            (Official, "", None, "", 64),
            (Official, "limit:memory=128MiB", None, "", 128),
            (Official, "limit:memory=128MiB", None, "limit:memory=16MiB", 16),
            (Official, "", None, "limit:memory=256MiB", 256),
            (Uploaded, "", None, "", 64),
            (Uploaded, "limit:memory=128MiB", None, "", 64),
            (Uploaded, "limit:memory=32MiB", None, "", 32),
            (Uploaded, "limit:memory=128MiB", None, "limit:memory=128MiB", 128),
            (Uploaded, "limit:memory=128MiB", Some("limit:memory=96MiB"), "", 96),
            (Uploaded, "", Some("limit:memory=96MiB"), "limit:memory=128MiB", 96),
            (Uploaded, "", Some("sql"), "limit:memory=128MiB", 64),
            (Uploaded, "", Some("limit:memory=8MiB"), "", 8),
        ];
        for (row, (maker, asked, ceiling, granted, expected)) in table.into_iter().enumerate() {
            assert_eq!(memory(maker, asked, ceiling, granted), expected, "row {row}");
        }
    }

    #[test]
    fn without_lines_the_limits_are_the_defaults() {
        let rights = Rights {
            mount: "m/",
            maker: Maker::Official,
            asked: &[],
            ceiling: None,
            granted: None,
        };
        assert_eq!(Limits::of(&rights), Limits::default());
    }

    #[test]
    fn every_limit_is_set_by_its_word_and_printed_as_it_was_written() {
        for (word, name, form) in WORDS {
            let text = format!("{name}={}", form.show(word.get(&Limits::CEILING)));
            let line = LimitLine::parse(&text).unwrap();
            assert_eq!(line.to_string(), text);
            let granted = [Grant::Limit(line)];
            let rights = Rights {
                mount: "m/",
                maker: Maker::Uploaded,
                asked: &[],
                ceiling: None,
                granted: Some(&granted),
            };
            let limits = Limits::of(&rights);
            assert_eq!(word.get(&limits), word.get(&Limits::CEILING), "{name}");
            let others = WORDS.iter().filter(|(other, ..)| *other != word);
            assert!(
                others
                    .into_iter()
                    .all(|(other, ..)| other.get(&limits) == other.get(&Limits::default())),
                "{name}"
            );
        }
    }

    #[test]
    fn the_readme_has_every_limit_with_its_default_and_the_most() {
        let readme = include_str!("../../../../README.md");
        for (word, name, form) in WORDS {
            let default = match word.get(&Limits::default()) {
                NONE => String::new(),
                value => format!(" `{}` ", form.show(value)),
            };
            let row =
                readme.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
            let most = format!("| `{}` |", form.show(word.get(&Limits::CEILING)));
            assert!(
                row.contains(&default) && row.contains(&most),
                "{row}: default {default}, most {most}"
            );
        }
    }

    #[test]
    fn a_limit_is_doubled_up_to_what_anybody_is_granted() {
        let raised = |limits: &Limits, name: &str| limits.raised(name).map(|line| line.to_string());
        let usual = Limits::default();
        assert_eq!(raised(&usual, "host-calls").as_deref(), Some("limit:host-calls=200000"));
        assert_eq!(raised(&usual, "answer").as_deref(), Some("limit:answer=7MiB"));
        assert_eq!(
            raised(&Limits { memory_bytes: 3 * MIB, ..usual }, "memory").as_deref(),
            Some("limit:memory=6MiB")
        );
        assert_eq!(raised(&usual, "deadline"), None, "there is none");
        assert_eq!(raised(&usual, "warnings"), None, "no line sets it");
        assert!(WORDS.iter().all(|(_, name, _)| Limits::CEILING.raised(name).is_none()));
    }

    #[test]
    fn what_is_no_limit_is_refused_with_its_value_and_what_to_write() {
        for (text, says) in [
            ("memory", "limit:memory=64MiB"),
            ("memry=1MiB", "did you mean \"memory\"?"),
            ("memory=1GiB", "the most is memory=256MiB"),
            ("memory=64MB", "\"64MB\""),
            ("memory=0", "0 lets nothing run"),
            ("deadline=", "30s"),
            ("deadline=2h", "the most is deadline=1h"),
            ("rate=200", "200/s"),
            ("rate=-1/s", "200/s"),
            ("http-calls=+5", "\"+5\""),
            ("host-calls=99999999999999999999", "not a whole number"),
        ] {
            let why = LimitLine::parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
