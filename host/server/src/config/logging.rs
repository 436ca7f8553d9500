//! `log_level`, `log_format` and `log_file`: the log of the server.

use super::section::{ConfigSection, ConfigValue};
use crate::log::{LogFormat, LogSettings};
use bulkhead_wire::failure::quoted;
use bulkhead_wire::log_level::LogLevel;

/// Name of Vault's default format, which has no form of its own here.
const STANDARD: &str = "standard";

/// Reads the settings of the log.
pub(super) fn settings(file: &ConfigSection<'_>) -> LogSettings {
    LogSettings {
        level: level(file),
        format: format(file),
        file: file.read("log_file", ConfigValue::path),
    }
}

fn level(file: &ConfigSection<'_>) -> LogLevel {
    file.read("log_level", |value| parse_level(value.text()?).map_err(|why| value.error(why)))
        .unwrap_or(LogSettings::default().level)
}

fn format(file: &ConfigSection<'_>) -> LogFormat {
    let usual = LogSettings::default().format;
    if let Some(value) = file.value("log_format")
        && value.text().is_ok_and(|format| format == STANDARD)
    {
        file.notice(&value, "the format of this name is logfmt here; leave the line out");
        return usual;
    }
    file.read("log_format", |value| parse_format(value.text()?).map_err(|why| value.error(why)))
        .unwrap_or(usual)
}

/// Parses a level of the configuration or the command line.
///
/// # Errors
/// The unknown level, and the levels.
pub(crate) fn parse_level(text: &str) -> Result<LogLevel, String> {
    let unknown =
        || format!("{} is not a level of the log; write debug, info, warn or error", quoted(text));
    LogLevel::parse(text).ok_or_else(unknown)
}

/// Parses a format of the configuration or the command line.
///
/// # Errors
/// The unknown format, and the formats.
pub(crate) fn parse_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "logfmt" => Ok(LogFormat::Logfmt),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("{} is not a format of the log; write logfmt or json", quoted(other))),
    }
}
