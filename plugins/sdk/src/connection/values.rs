//! Readers for the value of a setting, one for each type.
//!
//! Operators and other programs write settings, so a flag or number may come as text. A refusal
//! names the setting, never its value.

use super::faults::Fault;
use crate::database_plugin::{ConnectionSettings, Refusal};
use bulkhead_wire::duration;
use serde_json::Value;

/// Returns a setting's text; `null` counts as absent.
///
/// # Errors
/// For a value that is not text.
pub fn text<'a>(
    settings: &'a ConnectionSettings,
    setting: &str,
) -> Result<Option<&'a str>, Refusal> {
    match settings.get(setting) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Fault::TextExpected.about(setting)),
    }
}

/// Returns a setting's flag; an absent setting is false.
///
/// # Errors
/// For a value that is neither true nor false.
pub fn flag(settings: &ConnectionSettings, setting: &str) -> Result<bool, Refusal> {
    match settings.get(setting) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "1" => Ok(true),
            "false" | "f" | "0" | "" => Ok(false),
            _ => Err(Fault::FlagExpected.about(setting)),
        },
        Some(_) => Err(Fault::FlagExpected.about(setting)),
    }
}

/// Returns a setting's whole number; an empty text counts as absent.
///
/// # Errors
/// For a value that is not a whole number.
pub fn whole_number(settings: &ConnectionSettings, setting: &str) -> Result<Option<i64>, Refusal> {
    let number = match settings.get(setting) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_i64(),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(_) => None,
    };
    number.map(Some).ok_or_else(|| Fault::NumberExpected.about(setting))
}

/// Returns a setting's duration in milliseconds; an absent setting is 0.
///
/// # Errors
/// For a value that is not a duration.
pub fn milliseconds(settings: &ConnectionSettings, setting: &str) -> Result<u64, Refusal> {
    match settings.get(setting) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => {
            let seconds =
                duration::seconds(value).map_err(|_| Fault::DurationExpected.about(setting))?;
            Ok(seconds.saturating_mul(1000))
        }
    }
}

/// Returns a setting's PEM text; an empty text counts as absent.
///
/// # Errors
/// For a text that does not begin as PEM: a path is not accepted, no file is ever read.
pub fn pem(settings: &ConnectionSettings, setting: &str) -> Result<Option<String>, Refusal> {
    match text(settings, setting)?.filter(|text| !text.is_empty()) {
        Some(text) if text.trim_start().starts_with("-----BEGIN ") => Ok(Some(text.to_owned())),
        Some(_) => Err(Fault::PemExpected.about(setting)),
        None => Ok(None),
    }
}

/// Returns the settings without the settings that are `null`.
#[must_use]
pub fn without_nulls(settings: &ConnectionSettings) -> ConnectionSettings {
    let mut values = settings.clone();
    values.retain(|_, value| !value.is_null());
    values
}
