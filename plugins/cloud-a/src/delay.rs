//! Delays between retries: parsing of the client's text, and the text shown by reads (decision A5).

use bulkhead_sdk::Failure;
use bulkhead_sdk::wire::failure::quoted;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Units and their length in nanoseconds.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 6e10),
    ("h", 3.6e12),
    ("d", 8.64e13),
];
/// Maximum delay in milliseconds: a day.
const LONGEST: f64 = 86_400_000.0;

/// A delay in milliseconds. A negative `retry_delay` means no delay; a negative `max_retry_delay`
/// means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RetryDelay(pub(crate) i64);

impl RetryDelay {
    /// Parses seconds, or numbers with units: `4`, `4s`, `500ms`, `1m30s`, `-1`.
    ///
    /// # Errors
    /// Invalid request that names the field and the text.
    pub(crate) fn read(field: &str, text: &str) -> Result<Self, Failure> {
        let (sign, digits) = match text.trim().strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text.trim()),
        };
        let read = digits.parse().ok().map(|seconds: f64| seconds * 1e9).or_else(|| nanos(digits));
        let is_number = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
        let milliseconds = read
            .map(|nanos| nanos / 1e6)
            .filter(|read| is_number && (0.0..=LONGEST).contains(read));
        // The cast cannot overflow: the value is at most a day.
        milliseconds.map(|read| Self(sign * read.round() as i64)).ok_or_else(|| {
            Failure::invalid(format!(
                "{field}: {} is not a delay of at most a day: give seconds, or a text such as \
                 \"4s\", \"500ms\" or \"1m30s\"",
                quoted(text)
            ))
        })
    }

    /// Returns the delay as in the API contract, such as `4s` or `800ms`, or in nanoseconds for
    /// mounts of type `azure`.
    pub(crate) fn show(self, in_nanoseconds: bool) -> Value {
        if in_nanoseconds {
            return json!(self.0.saturating_mul(1_000_000));
        }
        match self.0 % 1_000 {
            0 => json!(format!("{}s", self.0 / 1_000)),
            _ => json!(format!("{}ms", self.0)),
        }
    }
}

/// Returns the sum of numbers with units, in nanoseconds.
fn nanos(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, behind) = rest.split_at_checked(end)?;
        let unit = behind
            .find(|letter: char| letter.is_ascii_digit() || letter == '.')
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at_checked(unit)?;
        let (_, each) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum += number.parse::<f64>().ok()? * each;
        rest = behind;
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_seconds_shown_as_text_or_nanoseconds() {
        for (text, milliseconds, shown) in [
            ("4", 4_000, "4s"),
            ("4s", 4_000, "4s"),
            ("1.5", 1_500, "1500ms"),
            ("500ms", 500, "500ms"),
            ("1m30s", 90_000, "90s"),
            ("4000000000ns", 4_000, "4s"),
            ("0", 0, "0s"),
            ("-1", -1_000, "-1s"),
            ("24h", 86_400_000, "86400s"),
        ] {
            let read = RetryDelay::read("retry_delay", text).unwrap();
            assert_eq!(read, RetryDelay(milliseconds), "{text}");
            assert_eq!(read.show(false), json!(shown));
            assert_eq!(read.show(true), json!(milliseconds * 1_000_000));
        }
    }

    #[test]
    fn an_invalid_delay_is_refused() {
        for text in ["", "-", "x", "4x", "s", "4s4", "1e300", "inf", "NaN", "-inf", "2d", "--1"] {
            let why = RetryDelay::read("retry_delay", text).unwrap_err().message;
            assert!(why.starts_with("retry_delay: "), "{text}: {why}");
        }
    }
}
