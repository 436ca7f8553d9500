//! Comparison of a request's values with the values that a policy lists.
//!
//! This file prevents three attacks: a value in a form other than the policy's (`"1h"` and `3600`),
//! a forbidden value hidden among others in a list, and a request that is slow to compare. Each
//! value's possible readings are computed once, and [`comparison_cost`] estimates the cost of all
//! comparisons in advance. Allowed values are matched narrowly, denied values widely.

use bulkhead_wire::duration;
use serde_json::Value;
use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;

/// Length of text that counts as an additional comparison, in bytes.
const TEXT_BYTES_A_COMPARISON: u64 = 1024;

/// Returns true if everything in `parameter` is listed. An empty list or map must itself be listed,
/// because many endpoints read an empty list as "no restriction".
pub(super) fn holds_only(parameter: &Value, list: &[Value]) -> bool {
    if is_listed(parameter, list) {
        return true;
    }
    match parameter {
        Value::Array(items) => !items.is_empty() && items.iter().all(|item| is_listed(item, list)),
        Value::Object(entries) => {
            !entries.is_empty() && entries.iter().all(|entry| is_listed(&format_pair(entry), list))
        }
        _ => false,
    }
}

/// Returns true if `parameter`, or any value nested in `parameter`, is listed or could be read as a
/// listed value.
pub(super) fn holds_any(parameter: &Value, list: &[PolicyValue<'_>]) -> bool {
    let read = ComparedValue::of(parameter);
    if list.iter().any(|written| may_mean(&read, written)) {
        return true;
    }
    match parameter {
        Value::Array(items) => items.iter().any(|item| holds_any(item, list)),
        Value::Object(entries) => entries.iter().any(|entry| {
            let pair = format_pair(entry);
            let is_listed = list.iter().any(|written| is_same(&pair, written.read.value));
            is_listed || holds_any(entry.1, list)
        }),
        _ => false,
    }
}

/// Returns the cost of comparing `parameter` with a single policy value, in comparisons: 1 for each
/// nested value, and more for long texts.
pub(super) fn comparison_cost(parameter: &Value) -> u64 {
    let of_text = |text: &str| 1 + text.len() as u64 / TEXT_BYTES_A_COMPARISON;
    match parameter {
        Value::String(text) => of_text(text),
        Value::Array(items) => 1 + items.iter().map(comparison_cost).sum::<u64>(),
        Value::Object(entries) => {
            1 + entries
                .iter()
                .map(|(key, value)| of_text(key) + comparison_cost(value))
                .sum::<u64>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// A value with every reading that an endpoint may give the value, computed once for all
/// comparisons.
struct ComparedValue<'a> {
    value: &'a Value,
    /// The value as text after [`folded`]; `None` if the value is not a scalar.
    folded: Option<String>,
    seconds: Option<u64>,
    flag: Option<bool>,
}

impl<'a> ComparedValue<'a> {
    fn of(value: &'a Value) -> Self {
        let folded = scalar(value).map(|text| fold_text(&text));
        Self { value, folded, seconds: seconds_of(value), flag: flag_of(value) }
    }
}

/// A value as written in a policy.
pub(super) struct PolicyValue<'a> {
    read: ComparedValue<'a>,
    /// True if the policy value is a boolean or its text, so that every spelling of the boolean
    /// matches.
    is_flag: bool,
}

impl<'a> PolicyValue<'a> {
    pub(super) fn all(list: &'a [Value]) -> Vec<Self> {
        list.iter().map(Self::of).collect()
    }

    fn of(value: &'a Value) -> Self {
        let is_flag = match value {
            Value::Bool(_) => true,
            Value::String(text) => {
                text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
            }
            _ => false,
        };
        Self { read: ComparedValue::of(value), is_flag }
    }
}

/// Returns a map entry in the other form that policies and clients use: `key=value`.
fn format_pair((key, value): (&String, &Value)) -> Value {
    scalar(value).map_or(Value::Null, |text| format!("{key}={text}").into())
}

fn is_listed(parameter: &Value, list: &[Value]) -> bool {
    list.iter().any(|written| is_same(parameter, written))
}

/// Returns true if a request value equals a policy value.
pub(super) fn is_same(parameter: &Value, written: &Value) -> bool {
    #[cfg(test)]
    tally::count();
    match (parameter, written) {
        (_, Value::String(any)) if any == "*" => true,
        (Value::Bool(flag), _) if flag_of(written) == Some(*flag) => true,
        (Value::Number(parameter), Value::Number(written)) => {
            let fractional = parameter.is_f64() || written.is_f64();
            parameter == written || fractional && parameter.as_f64() == written.as_f64()
        }
        (Value::Number(number), Value::String(text)) => {
            // Durations arrive here in seconds, in every form that a client may send.
            matches_glob(text, &number.to_string())
                || seconds_of(written).is_some() && seconds_of(written) == number.as_u64()
        }
        _ => match (scalar(parameter), scalar(written)) {
            (Some(parameter), Some(written)) => matches_glob(&written, &parameter),
            _ => parameter == written,
        },
    }
}

/// Returns true if the endpoint could read a request value as the forbidden value. Values of fields
/// without a declared kind arrive as sent: `"TRUE"` may be a flag, and `"60m"` may be the policy's
/// 3600.
fn may_mean(parameter: &ComparedValue<'_>, written: &PolicyValue<'_>) -> bool {
    let PolicyValue { read, is_flag } = written;
    let is_like = match (&parameter.folded, &read.folded) {
        (Some(parameter), Some(written)) => matches_glob(written, parameter),
        _ => false,
    };
    is_same(parameter.value, read.value)
        || is_like
        || *is_flag && parameter.flag.is_some() && parameter.flag == read.flag
        || parameter.seconds.is_some() && parameter.seconds == read.seconds
}

/// Removes the differences that endpoints ignore in names and paths: case, surrounding white space,
/// and slashes at both ends.
fn fold_text(text: &str) -> String {
    let text: String = text.nfc().collect();
    text.trim().trim_matches('/').to_lowercase()
}

/// Returns the number of seconds that a number or text may mean.
fn seconds_of(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) if text.trim().is_empty() => None,
        _ => duration::seconds(value).ok(),
    }
}

/// Returns the flag that a value means, in any form that a client may send.
fn flag_of(value: &Value) -> Option<bool> {
    let text = scalar(value).filter(|text| text.len() <= "false".len())?;
    match text.to_lowercase().as_str() {
        "1" | "t" | "true" => Some(true),
        "0" | "f" | "false" | "" => Some(false),
        _ => None,
    }
}

/// Returns the text of a string, number or flag.
fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(flag) => Some(Cow::Owned(flag.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Matches a pattern in which a `*` at the start or end stands for any text. A `*` elsewhere is a
/// literal star.
fn matches_glob(pattern: &str, text: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(middle), Some(_)) => text.contains(middle.strip_suffix('*').unwrap_or(middle)),
        (Some(end), None) => text.ends_with(end),
        (None, Some(start)) => text.starts_with(start),
        (None, None) => text == pattern,
    }
}

/// The number of comparisons of the running thread, for tests of the cost in advance.
#[cfg(test)]
pub(super) mod tally {
    use std::cell::Cell;

    thread_local! {
        static COMPARISONS: Cell<u64> = const { Cell::new(0) };
    }

    /// Counts a comparison.
    pub(super) fn count() {
        COMPARISONS.set(COMPARISONS.get() + 1);
    }

    /// Returns the number of comparisons that `work` makes.
    pub(in crate::policies) fn of(work: impl FnOnce()) -> u64 {
        let before = COMPARISONS.get();
        work();
        COMPARISONS.get() - before
    }
}
