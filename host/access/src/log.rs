//! The sink for log lines for the operator. The server decides the format.
//!
//! This file prevents the disclosure of a value from a request or a component's storage in the log.
//! A failure's message may contain such values, so no line prints a message. Use [`cause`] to log
//! the reason of a failure; `tests/tidy` refuses any other form.

use bulkhead_store::StoreFault;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::io;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A sink for log lines. Lines must not contain secrets.
pub trait Log: Send + Sync {
    /// Writes a line. `event` is a fixed word. The sink adds the time and the id of the current
    /// request.
    fn line(&self, level: LogLevel, event: &str, pairs: &[(&str, String)]);
}

/// A reason that a log line may show.
pub trait LogCause {
    /// Returns the loggable words: nothing from requests, storage or answers except names and
    /// paths.
    fn words(&self) -> String;
}

/// The recordable part of the message, or the code of the failure's kind.
impl LogCause for Failure {
    fn words(&self) -> String {
        self.recorded_or_code().to_owned()
    }
}

impl LogCause for StoreFault {
    fn words(&self) -> String {
        self.to_string()
    }
}

impl LogCause for io::Error {
    fn words(&self) -> String {
        self.to_string()
    }
}

impl LogCause for &'static str {
    fn words(&self) -> String {
        (*self).to_owned()
    }
}

/// Returns the `cause` pair of a log line.
pub fn cause(why: &impl LogCause) -> (&'static str, String) {
    ("cause", why.words())
}

/// Formats store time (milliseconds since 1970). A time outside of the calendar stays a number.
pub(crate) fn format_store_time(milliseconds: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(milliseconds) * 1_000_000);
    let text = moment.ok().and_then(|moment| moment.format(&Rfc3339).ok());
    text.unwrap_or_else(|| format!("{milliseconds}ms"))
}
