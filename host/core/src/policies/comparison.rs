//! Whether a value of a request is one that a policy lists.
//!
//! The attacks this file stops: a value in another form than the policy wrote it (`"1h"` and
//! `3600`), a forbidden value hidden among others in a list, and a request that is slow to compare:
//! what a value may be read as is found once, and [`effort`] tells beforehand what all comparisons
//! take. What is allowed is read narrowly, what is denied widely.

use bulkhead_wire::duration;
use serde_json::Value;
use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;

/// Bytes of a text that count as one comparison more.
const TEXT_BYTES_A_COMPARISON: u64 = 1024;

/// Whether everything in `asked` is listed. An empty list is not: it often means "no restriction"
/// to its endpoint.
pub(super) fn holds_only(asked: &Value, list: &[Value]) -> bool {
    if is_listed(asked, list) {
        return true;
    }
    match asked {
        Value::Array(items) => !items.is_empty() && items.iter().all(|item| is_listed(item, list)),
        Value::Object(entries) => {
            !entries.is_empty() && entries.iter().all(|entry| is_listed(&pair(entry), list))
        }
        _ => false,
    }
}

/// Whether anything in `asked` is listed, or could be read as something listed, however deep it
/// stands.
pub(super) fn holds_any(asked: &Value, list: &[Written<'_>]) -> bool {
    let read = Read::of(asked);
    if list.iter().any(|written| may_mean(&read, written)) {
        return true;
    }
    match asked {
        Value::Array(items) => items.iter().any(|item| holds_any(item, list)),
        Value::Object(entries) => entries.iter().any(|entry| {
            let pair = pair(entry);
            let is_listed = list.iter().any(|written| is_same(&pair, written.read.value));
            is_listed || holds_any(entry.1, list)
        }),
        _ => false,
    }
}

/// What comparing `asked` with one value of a policy takes, in comparisons: one for each value
/// inside of it, and more for long texts.
pub(super) fn effort(asked: &Value) -> u64 {
    let of_text = |text: &str| 1 + text.len() as u64 / TEXT_BYTES_A_COMPARISON;
    match asked {
        Value::String(text) => of_text(text),
        Value::Array(items) => 1 + items.iter().map(effort).sum::<u64>(),
        Value::Object(entries) => {
            1 + entries.iter().map(|(key, value)| of_text(key) + effort(value)).sum::<u64>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// A value in every way in which an endpoint may read it, found once for all comparisons with it.
struct Read<'a> {
    value: &'a Value,
    /// As [`folded`] leaves it; `None` for what is no scalar.
    folded: Option<String>,
    seconds: Option<u64>,
    flag: Option<bool>,
}

impl<'a> Read<'a> {
    fn of(value: &'a Value) -> Self {
        let folded = scalar(value).map(|text| folded(&text));
        Self { value, folded, seconds: seconds_of(value), flag: flag_of(value) }
    }
}

/// A value as a policy wrote it.
pub(super) struct Written<'a> {
    read: Read<'a>,
    /// Whether it is written as a flag, so that every way to send that flag is meant.
    is_flag: bool,
}

impl<'a> Written<'a> {
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
        Self { read: Read::of(value), is_flag }
    }
}

/// An entry of a map as policies and clients also write it: `key=value`.
fn pair((key, value): (&String, &Value)) -> Value {
    scalar(value).map_or(Value::Null, |text| format!("{key}={text}").into())
}

fn is_listed(asked: &Value, list: &[Value]) -> bool {
    list.iter().any(|written| is_same(asked, written))
}

/// Whether a value of a request is what a policy wrote.
pub(super) fn is_same(asked: &Value, written: &Value) -> bool {
    match (asked, written) {
        (_, Value::String(any)) if any == "*" => true,
        (Value::Bool(flag), _) if flag_of(written) == Some(*flag) => true,
        (Value::Number(asked), Value::Number(written)) => {
            let fractional = asked.is_f64() || written.is_f64();
            asked == written || fractional && asked.as_f64() == written.as_f64()
        }
        (Value::Number(number), Value::String(text)) => {
            // A duration reaches policy as seconds, in any form that it was sent in.
            matches_glob(text, &number.to_string())
                || seconds_of(written).is_some() && seconds_of(written) == number.as_u64()
        }
        _ => match (scalar(asked), scalar(written)) {
            (Some(asked), Some(written)) => matches_glob(&written, &asked),
            _ => asked == written,
        },
    }
}

/// Whether the endpoint could read a value as what a policy forbids. Values of fields without a
/// kind come as they were sent, so that `"TRUE"` may be a flag and `"60m"` the 3600 of the policy.
fn may_mean(asked: &Read<'_>, written: &Written<'_>) -> bool {
    let Written { read, is_flag } = written;
    let is_like = match (&asked.folded, &read.folded) {
        (Some(asked), Some(written)) => matches_glob(written, asked),
        _ => false,
    };
    is_same(asked.value, read.value)
        || is_like
        || *is_flag && asked.flag.is_some() && asked.flag == read.flag
        || asked.seconds.is_some() && asked.seconds == read.seconds
}

/// A text without what endpoints drop from names and paths: case, white space around it, slashes at
/// its ends.
fn folded(text: &str) -> String {
    let text: String = text.nfc().collect();
    text.trim().trim_matches('/').to_lowercase()
}

/// The seconds that a number or a text may stand for.
fn seconds_of(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) if text.trim().is_empty() => None,
        _ => duration::seconds(value).ok(),
    }
}

/// The flag that a value means, in any form in which a client may send it.
fn flag_of(value: &Value) -> Option<bool> {
    let text = scalar(value).filter(|text| text.len() <= "false".len())?;
    match text.to_lowercase().as_str() {
        "1" | "t" | "true" => Some(true),
        "0" | "f" | "false" | "" => Some(false),
        _ => None,
    }
}

/// Text, number or flag written out.
fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(flag) => Some(Cow::Owned(flag.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A `*` in front and at the end stands for any text; elsewhere it is a star.
fn matches_glob(pattern: &str, text: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(middle), Some(_)) => text.contains(middle.strip_suffix('*').unwrap_or(middle)),
        (Some(end), None) => text.ends_with(end),
        (None, Some(start)) => text.starts_with(start),
        (None, None) => text == pattern,
    }
}
