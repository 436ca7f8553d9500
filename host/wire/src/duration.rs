//! Durations as people and clients write them, parsed to whole seconds.
//!
//! Durations are limited to the range of clients (nanoseconds in 63 bits), so adding a duration to
//! a time never overflows.

use crate::failure::quoted;
use serde_json::Value;

/// Maximum duration, in seconds: about 292 years.
pub const MAX_DURATION_SECONDS: u64 = 9_223_372_036;

/// The accepted forms, as the end of a message.
pub(crate) const FORMS: &str = "a duration: give whole seconds, such as 3600, \
     or a text such as \"45s\", \"1h30m\" or \"2d\"; at most 292 years";

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Parses `text` to seconds: `""` is 0, digits alone are seconds, otherwise a sequence of numbers
/// with units (`ns us ms s m h d`): `1h30m`, `1.5h`, `2d`. Fractions of a second are dropped.
pub fn parse(text: &str) -> Result<u64, String> {
    read(text.trim()).ok_or_else(|| format!("{} is not {FORMS}", quoted(text)))
}

/// Parses a JSON value to seconds: a whole number (also `300.0`) or a text for [`parse`]. `null` is
/// refused here.
pub fn seconds(value: &Value) -> Result<u64, String> {
    let got = match value {
        Value::String(text) => return parse(text),
        Value::Number(number) => {
            if let Some(seconds) = number
                .as_u64()
                .or_else(|| integer_of(number.as_f64()?))
                .filter(|s| *s <= MAX_DURATION_SECONDS)
            {
                return Ok(seconds);
            }
            number.to_string()
        }
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    Err(format!("{got} is not {FORMS}"))
}

/// Formats `seconds` for people, in days, hours, minutes and seconds: `32d`, `1h30m`, `45s`, `0s`.
/// [`parse`] accepts the result.
#[must_use]
pub fn show(seconds: u64) -> String {
    let parts = [
        (seconds / 86_400, 'd'),
        (seconds / 3600 % 24, 'h'),
        (seconds / 60 % 60, 'm'),
        (seconds % 60, 's'),
    ];
    let text: String = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

fn read(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return if text.is_empty() {
            Some(0)
        } else {
            text.parse().ok().filter(|seconds| *seconds <= MAX_DURATION_SECONDS)
        };
    }
    let mut nanos: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (part, after) = leading_quantity(rest)?;
        nanos = nanos.checked_add(part)?;
        rest = after;
    }
    u64::try_from(nanos / NANOS_PER_SECOND).ok().filter(|seconds| *seconds <= MAX_DURATION_SECONDS)
}

/// Returns the first number with its unit, in nanoseconds, and the rest of the text.
fn leading_quantity(text: &str) -> Option<(u128, &str)> {
    let (integer, rest) = digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
    if integer.is_empty() && fraction.is_empty() {
        return None;
    }
    let (unit, rest) =
        rest.split_at(rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len()));
    let unit = nanos_of(unit)?;
    let integer: u128 = if integer.is_empty() { 0 } else { integer.parse().ok()? };
    Some((integer.checked_mul(unit)?.checked_add(fraction_nanos(unit, fraction))?, rest))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn nanos_of(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3600 * NANOS_PER_SECOND,
        "d" => 86_400 * NANOS_PER_SECOND,
        _ => return None,
    })
}

/// Returns `0.<fraction>` of `unit`. For every unit, digits after the eighteenth are below a
/// nanosecond.
fn fraction_nanos(unit: u128, fraction: &str) -> u128 {
    let (sum, scale) = fraction.bytes().take(18).fold((0_u128, 1_u128), |(sum, scale), digit| {
        (sum * 10 + u128::from(digit.saturating_sub(b'0')), scale * 10)
    });
    unit * sum / scale
}

/// Returns a float without a fraction as an integer, if small enough to be exact.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked first"
)]
fn integer_of(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..=9_223_372_036.0).contains(&number)).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_with_and_without_units_are_whole_seconds() {
        let expected = [
            ("", 0),
            ("0", 0),
            ("3600", 3600),
            (" 60 ", 60),
            ("5400s", 5400),
            ("1h30m", 5400),
            ("1.5h", 5400),
            (".5h", 1800),
            ("1.h", 3600),
            ("2d", 172_800),
            ("1d12h", 129_600),
            ("100ms", 0),
            ("999999us1ns", 0),
            ("1999ms", 1),
            ("500ms500ms", 1),
            ("9223372036", MAX_DURATION_SECONDS),
            ("9223372036s", MAX_DURATION_SECONDS),
            ("0.000000000000000000000000000000000000001d", 0),
        ];
        for (text, seconds) in expected {
            assert_eq!(parse(text), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn invalid_duration_refusal_shows_value_and_accepted_forms() {
        let overflow = "9".repeat(60);
        let hostile = [
            "-5", "-5s", "+5s", "5x", "s", ".", ".s", "1.5", "1.2.3s", "1 h", "1h 30m", "1e3",
            "0x10", "٣s", "5S",
        ];
        for text in hostile.into_iter().chain(["9223372037", "292y", "107000d", overflow.as_str()])
        {
            let why = parse(text).unwrap_err();
            assert!(why.starts_with(&quoted(text)), "{why}");
            assert!(why.contains("1h30m"), "{why}");
        }
        assert!(parse(&format!("{overflow}h")).is_err());
        assert!(parse("100000d100000d").is_err());
    }

    #[test]
    fn duration_number_must_be_whole_and_not_negative() {
        assert_eq!(seconds(&json!(300)), Ok(300));
        assert_eq!(seconds(&json!(300.0)), Ok(300));
        assert_eq!(seconds(&json!(-0.0)), Ok(0));
        assert_eq!(seconds(&json!("2d")), Ok(172_800));
        for (value, got) in [
            (json!(-5), "-5 is not"),
            (json!(1.5), "1.5 is not"),
            (json!(1e30), "1e+30 is not"),
            (json!(u64::MAX), "18446744073709551615 is not"),
            (json!(null), "null is not"),
            (json!(true), "true is not"),
            (json!([5]), "a list is not"),
            (json!({"ttl": 5}), "an object is not"),
        ] {
            let why = seconds(&value).unwrap_err();
            assert!(why.starts_with(got), "{why}");
        }
    }

    #[test]
    fn shown_values_are_read_back() {
        for (seconds, text) in
            [(0, "0s"), (45, "45s"), (5400, "1h30m"), (2_764_800, "32d"), (90_061, "1d1h1m1s")]
        {
            assert_eq!(show(seconds), text);
        }
        for seconds in [0, 1, 59, 60, 3599, 3600, 86_399, 86_400, 86_460, MAX_DURATION_SECONDS] {
            assert_eq!(parse(&show(seconds)), Ok(seconds));
        }
    }
}
