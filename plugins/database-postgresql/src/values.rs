//! One setting's value, read as the kind that it should be.
//!
//! Settings are written by hand and by other programs, so a flag or number may come as text. A
//! refusal names the setting, never its value.

use crate::refusal::Code;
use bulkhead_sdk::database_plugin::{Refusal, Settings};
use bulkhead_sdk::wire::duration;
use serde_json::Value;

/// A setting's text; `null` is absent.
pub(crate) fn text<'a>(settings: &'a Settings, setting: &str) -> Result<Option<&'a str>, Refusal> {
    match settings.get(setting) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Code::TextExpected.about(setting)),
    }
}

/// A setting that is true or false; absent is false.
pub(crate) fn flag(settings: &Settings, setting: &str) -> Result<bool, Refusal> {
    match settings.get(setting) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "1" => Ok(true),
            "false" | "f" | "0" | "" => Ok(false),
            _ => Err(Code::FlagExpected.about(setting)),
        },
        Some(_) => Err(Code::FlagExpected.about(setting)),
    }
}

/// A whole number; empty is absent.
pub(crate) fn whole_number(settings: &Settings, setting: &str) -> Result<Option<i64>, Refusal> {
    let number = match settings.get(setting) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_i64(),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(_) => None,
    };
    number.map(Some).ok_or_else(|| Code::NumberExpected.about(setting))
}

/// A duration in milliseconds; absent is 0.
pub(crate) fn milliseconds(settings: &Settings, setting: &str) -> Result<u64, Refusal> {
    match settings.get(setting) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => {
            let seconds =
                duration::seconds(value).map_err(|_| Code::DurationExpected.about(setting))?;
            Ok(seconds.saturating_mul(1000))
        }
    }
}
