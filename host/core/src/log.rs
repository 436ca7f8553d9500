//! Where lines for the operator go. The server decides how they look.
//!
//! The attack this file stops: a value that was sent, or that a component keeps, read in the log. A
//! failure's message may repeat any of them, so that no line prints one: why something was not done
//! is the pair that [`cause`] makes, and `tests/tidy` lets no other stand in a line.

use bulkhead_store::StoreFault;
use bulkhead_wire::failure::Failure;
use std::io;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A sink for log lines. What is written is already free of secrets.
pub trait Log: Send + Sync {
    /// One line. `level` is `debug`, `info`, `warn` or `error`; `event` a fixed word.
    fn line(&self, level: &str, event: &str, pairs: &[(&str, String)]);
}

/// What a line may give as its cause.
pub trait Cause {
    /// The words: what of it repeats nothing that was sent, stored or answered but names and paths.
    fn words(&self) -> String;
}

/// What of it may be recorded, or else the code of its kind.
impl Cause for Failure {
    fn words(&self) -> String {
        self.recorded_or_code().to_owned()
    }
}

impl Cause for StoreFault {
    fn words(&self) -> String {
        self.to_string()
    }
}

impl Cause for io::Error {
    fn words(&self) -> String {
        self.to_string()
    }
}

impl Cause for &'static str {
    fn words(&self) -> String {
        (*self).to_owned()
    }
}

/// The pair that says why.
pub fn cause(why: &impl Cause) -> (&'static str, String) {
    ("cause", why.words())
}

/// Formats a moment of store time (milliseconds since 1970). A moment outside of the calendar stays
/// a number.
pub(crate) fn moment(milliseconds: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(milliseconds) * 1_000_000);
    let text = moment.ok().and_then(|moment| moment.format(&Rfc3339).ok());
    text.unwrap_or_else(|| format!("{milliseconds}ms"))
}
