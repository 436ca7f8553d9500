//! One setting's value, read as the kind that it should be.
//!
//! Settings are written by hand and by other programs, so a flag or number may come as text. A
//! refusal names the setting, never its value.

use super::faults::Fault;
use crate::database_plugin::{Refusal, Settings};
use bulkhead_wire::duration;
use serde_json::Value;

/// A setting's text; `null` is absent.
///
/// # Errors
/// For what is no text.
pub fn text<'a>(settings: &'a Settings, setting: &str) -> Result<Option<&'a str>, Refusal> {
    match settings.get(setting) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Fault::TextExpected.about(setting)),
    }
}

/// A setting that is true or false; absent is false.
///
/// # Errors
/// For what is neither.
pub fn flag(settings: &Settings, setting: &str) -> Result<bool, Refusal> {
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

/// A whole number; empty is absent.
///
/// # Errors
/// For what is none.
pub fn whole_number(settings: &Settings, setting: &str) -> Result<Option<i64>, Refusal> {
    let number = match settings.get(setting) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_i64(),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(_) => None,
    };
    number.map(Some).ok_or_else(|| Fault::NumberExpected.about(setting))
}

/// A duration in milliseconds; absent is 0.
///
/// # Errors
/// For what is none.
pub fn milliseconds(settings: &Settings, setting: &str) -> Result<u64, Refusal> {
    match settings.get(setting) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => {
            let seconds =
                duration::seconds(value).map_err(|_| Fault::DurationExpected.about(setting))?;
            Ok(seconds.saturating_mul(1000))
        }
    }
}

/// A setting that holds PEM; empty is absent.
///
/// # Errors
/// For what does not begin as PEM does: a file is never read.
pub fn pem(settings: &Settings, setting: &str) -> Result<Option<String>, Refusal> {
    match text(settings, setting)?.filter(|text| !text.is_empty()) {
        Some(text) if text.trim_start().starts_with("-----BEGIN ") => Ok(Some(text.to_owned())),
        Some(_) => Err(Fault::PemExpected.about(setting)),
        None => Ok(None),
    }
}

/// The settings without those that are `null`.
#[must_use]
pub fn without_nulls(settings: &Settings) -> Settings {
    let mut kept = settings.clone();
    kept.retain(|_, value| !value.is_null());
    kept
}
