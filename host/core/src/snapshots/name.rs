//! The name of a scheduled snapshot, and the names of its files: `NAME-2026-11-28T03-00-00Z.snap`.
//!
//! This file prevents the deletion of a foreign file: a name counts as a snapshot's only if the
//! name is exactly the name that a snapshot of some second would have.

use bulkhead_wire::failure::quoted;
use std::fmt;
use time::format_description::FormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

/// Maximum length of a name, in bytes.
const LONGEST_SNAPSHOT_NAME: usize = 64;

/// The time of a snapshot in the name of the file, in UTC.
const TIME_FORMAT: &[FormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]-[minute]-[second]Z");

/// End of the name of a complete file.
const COMPLETE_END: &str = ".snap";
/// Addition to the name of a file that is being written.
const UNFINISHED_END: &str = ".unfinished";

/// The name of a scheduled snapshot: letters, digits, `-`, `_` and `.`, beginning with a letter or
/// a digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotName(String);

impl SnapshotName {
    /// Parses a name.
    ///
    /// # Errors
    /// A message for a name that is empty or too long, or has other characters.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if begins && text.bytes().all(is_plain) && text.len() <= LONGEST_SNAPSHOT_NAME {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "{} is not the beginning of a file's name; give at most {LONGEST_SNAPSHOT_NAME} \
             letters, digits, - _ and ., beginning with a letter or a digit",
            quoted(text)
        ))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the complete file of a snapshot of `time`, in milliseconds since 1970.
    /// `None`: the time is outside of the calendar.
    pub(crate) fn file_of(&self, time: u64) -> Option<String> {
        let seconds = i64::try_from(time / 1_000).ok()?;
        let time = OffsetDateTime::from_unix_timestamp(seconds).ok()?;
        // Later years have more than four digits.
        let time = Some(time).filter(|time| time.year() <= 9_999)?.format(TIME_FORMAT).ok()?;
        Some(format!("{}-{time}{COMPLETE_END}", self.0))
    }

    /// Returns the name of the file of a snapshot of `time` while the file is being written.
    pub(crate) fn unfinished_file_of(&self, time: u64) -> Option<String> {
        self.file_of(time).map(|name| format!("{name}{UNFINISHED_END}"))
    }

    /// Returns the time of the snapshot in the complete file `file`, in milliseconds since 1970.
    /// `None`: the file has another name.
    pub(crate) fn time_of(&self, file: &str) -> Option<u64> {
        let time = file.strip_prefix(&self.0)?.strip_prefix('-')?.strip_suffix(COMPLETE_END)?;
        let time = PrimitiveDateTime::parse(time, TIME_FORMAT).ok()?.assume_utc();
        let time = u64::try_from(time.unix_timestamp()).ok()?.checked_mul(1_000)?;
        (self.file_of(time)? == file).then_some(time)
    }

    /// Returns true if `file` is the name of a file of this snapshot that is being written.
    pub(crate) fn is_unfinished(&self, file: &str) -> bool {
        file.strip_suffix(UNFINISHED_END).is_some_and(|file| self.time_of(file).is_some())
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
