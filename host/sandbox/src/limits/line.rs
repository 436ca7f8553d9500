//! A limit in a grant line: its name, the format of its value, and its field in [`MountLimits`].

use super::of_mount::MountLimits;
use bulkhead_wire::failure::quoted;
use bulkhead_wire::{duration, size, spelling};
use std::fmt;
use std::time::Duration;

/// A limit and its value: the target of a line such as `limit:memory=64MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitLine {
    word: LimitWord,
    value: u64,
}

/// A limit that a grant line can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitWord {
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
    Stored,
}

/// The format of a limit's value.
#[derive(Clone, Copy)]
enum ValueFormat {
    Time,
    Size,
    Count,
    Rate,
}

const WORDS: [(LimitWord, &str, ValueFormat); 15] = [
    (LimitWord::Deadline, "deadline", ValueFormat::Time),
    (LimitWord::Memory, "memory", ValueFormat::Size),
    (LimitWord::HostCalls, "host-calls", ValueFormat::Count),
    (LimitWord::HostBytes, "host-bytes", ValueFormat::Size),
    (LimitWord::Answer, "answer", ValueFormat::Size),
    (LimitWord::Handles, "handles", ValueFormat::Count),
    (LimitWord::Storage, "storage", ValueFormat::Size),
    (LimitWord::Log, "log", ValueFormat::Size),
    (LimitWord::HttpCalls, "http-calls", ValueFormat::Count),
    (LimitWord::HttpBytes, "http-bytes", ValueFormat::Size),
    (LimitWord::Connections, "connections", ValueFormat::Count),
    (LimitWord::Concurrency, "concurrency", ValueFormat::Count),
    (LimitWord::Rate, "rate", ValueFormat::Rate),
    (LimitWord::Cache, "cache", ValueFormat::Size),
    (LimitWord::Stored, "stored", ValueFormat::Size),
];

/// Value of a limit without a bound.
pub(crate) const UNBOUNDED: u64 = u64::MAX;

impl LimitLine {
    /// Parses the text after `limit:`.
    ///
    /// # Errors
    /// The fault of the text, with the valid formats.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| format!("{} has no value; write limit:memory=64MiB", quoted(text)))?;
        let Some((word, _, form)) = WORDS.iter().find(|(_, word, _)| *word == name) else {
            let hint = spelling::hint(name, &WORDS.map(|(_, word, _)| word));
            return Err(format!("there is no limit {}{hint}", quoted(name)));
        };
        let value = form.parse(value)?;
        let most = word.get(&MountLimits::CEILING);
        if value == 0 {
            return Err(format!("{name} of 0 lets nothing run; give more, or leave the line out"));
        }
        if value > most {
            let (requested, most) = (form.show(value), form.show(most));
            return Err(format!(
                "{name}={requested} is more than anybody is granted; the most is {name}={most}"
            ));
        }
        Ok(Self { word: *word, value })
    }

    /// Makes a line that sets `word` to `value`.
    pub(crate) fn new(word: LimitWord, value: u64) -> Self {
        Self { word, value }
    }

    /// Returns the limit that the line sets.
    pub(crate) fn word(&self) -> LimitWord {
        self.word
    }

    /// Returns the value, if the line sets the limit `word`.
    pub(crate) fn value_of(&self, word: LimitWord) -> Option<u64> {
        (self.word == word).then_some(self.value)
    }

    /// Returns true if both lines set the same limit, and this value is at most the other value.
    pub(crate) fn is_at_most(&self, other: &Self) -> bool {
        self.is_of_same_limit(other) && self.value <= other.value
    }

    /// Returns true if both lines set the same limit.
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

impl ValueFormat {
    fn parse(self, text: &str) -> Result<u64, String> {
        match self {
            Self::Time if text.is_empty() => {
                Err(format!("{} is not a duration: give a value such as 30s", quoted(text)))
            }
            Self::Time => duration::parse(text),
            Self::Size => size::parse(text),
            Self::Count => {
                count(text).ok_or_else(|| format!("{} is not a whole number", quoted(text)))
            }
            Self::Rate => text.strip_suffix("/s").and_then(count).ok_or_else(|| {
                format!("{} is not a rate: give a value such as 200/s", quoted(text))
            }),
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

impl LimitWord {
    /// Returns all limits that a line can set.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        WORDS.into_iter().map(|(word, ..)| word)
    }

    /// Returns the limit with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        WORDS.iter().find(|(_, word, _)| *word == name).map(|(word, ..)| *word)
    }

    /// Returns the limit's value, in the limit's own unit.
    pub(crate) fn get(self, limits: &MountLimits) -> u64 {
        match self {
            Self::Deadline => limits.deadline.map_or(UNBOUNDED, |time| time.as_secs()),
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
            Self::Rate => limits.rate.map_or(UNBOUNDED, u64::from),
            Self::Cache => limits.cache_bytes as u64,
            Self::Stored => limits.stored_bytes,
        }
    }

    /// Sets the limit to a value in the limit's own unit.
    pub(crate) fn set(self, limits: &mut MountLimits, value: u64) {
        let size = usize::try_from(value).unwrap_or(usize::MAX);
        let count = u32::try_from(value).unwrap_or(u32::MAX);
        match self {
            Self::Deadline => {
                limits.deadline = (value != UNBOUNDED).then(|| Duration::from_secs(value))
            }
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
            Self::Rate => limits.rate = (value != UNBOUNDED).then_some(count),
            Self::Cache => limits.cache_bytes = size,
            Self::Stored => limits.stored_bytes = value,
        }
    }
}

#[cfg(test)]
mod tests;
