//! The text of a log line: logfmt or JSON.
//!
//! This file prevents a value with a line break from forging a log line, and a value from
//! controlling the terminal that shows the log.

use bulkhead_wire::log_level::LogLevel;
use serde_json::json;
use std::fmt::Write as _;
use time::OffsetDateTime;

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// `time=… level=… event=… name=value …`.
    Logfmt,
    /// A JSON object in a line, with the same names.
    Json,
}

impl LogFormat {
    /// Returns the name of the format in the configuration.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Logfmt => "logfmt",
            Self::Json => "json",
        }
    }
}

/// The content of a line.
pub(super) struct LogLine<'a> {
    pub(super) time: OffsetDateTime,
    pub(super) level: LogLevel,
    pub(super) event: &'a str,
    /// Id of the request in which the line was written.
    pub(super) request: Option<&'a str>,
    /// Id of the trace in which the line was written, if the trace is sampled.
    pub(super) trace: Option<&'a str>,
    pub(super) pairs: &'a [(&'a str, String)],
}

impl LogLine<'_> {
    /// Returns the line with its line break.
    pub(super) fn text(&self, format: LogFormat) -> String {
        match format {
            LogFormat::Logfmt => self.logfmt(),
            LogFormat::Json => self.json(),
        }
    }

    fn logfmt(&self) -> String {
        let (time, level) = (format_time(self.time), self.level.word());
        let mut line = format!("time={time} level={level} event={}", self.event);
        let request = self.request.map(|request| ("request_id", request));
        let trace = self.trace.map(|trace| ("trace_id", trace));
        let pairs = self.pairs.iter().map(|(name, value)| (*name, value.as_str()));
        for (name, value) in request.into_iter().chain(trace).chain(pairs) {
            line.push(' ');
            line.push_str(name);
            line.push('=');
            push_value(&mut line, value);
        }
        line.push('\n');
        line
    }

    fn json(&self) -> String {
        let time = format_time(self.time);
        let own = [("time", time.as_str()), ("level", self.level.word()), ("event", self.event)];
        let request = self.request.map(|request| ("request_id", request));
        let trace = self.trace.map(|trace| ("trace_id", trace));
        let pairs = self.pairs.iter().map(|(name, value)| (*name, value.as_str()));
        let mut line = String::new();
        let mut names: Vec<&str> = Vec::new();
        for (name, value) in own.into_iter().chain(request).chain(trace).chain(pairs) {
            // The first value of a name counts: no pair replaces a member of the log itself.
            if !names.contains(&name) {
                line.push(if names.is_empty() { '{' } else { ',' });
                push_json(&mut line, name);
                line.push(':');
                push_json(&mut line, value);
                names.push(name);
            }
        }
        line.push_str("}\n");
        line
    }
}

/// Formats a moment as RFC 3339 in UTC, always with three digits of milliseconds, so that lines
/// sort as texts.
fn format_time(time: OffsetDateTime) -> String {
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        time.year(),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.millisecond()
    )
}

/// Appends a JSON string. Control characters above ASCII, which JSON allows and a terminal obeys,
/// are escaped as well.
fn push_json(line: &mut String, text: &str) {
    for c in json!(text).to_string().chars() {
        match c {
            // Writing to a String cannot fail.
            c if c.is_control() => write!(line, "\\u{:04x}", u32::from(c)).unwrap_or_default(),
            c => line.push(c),
        }
    }
}

/// Appends a value: bare if unambiguous, otherwise in quotes. Characters that could end the quotes
/// or the line, or control a terminal, are escaped.
fn push_value(line: &mut String, value: &str) {
    let bare = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '"' | '=' | '\\');
    if !value.is_empty() && value.chars().all(bare) {
        line.push_str(value);
        return;
    }
    line.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => line.extend(['\\', c]),
            '\n' => line.push_str("\\n"),
            c if c.is_control() => {
                // Writing to a String cannot fail.
                write!(line, "\\u{{{:x}}}", u32::from(c)).unwrap_or_default();
            }
            c => line.push(c),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: LogFormat, request: Option<&str>, pairs: &[(&str, &str)]) -> String {
        let pairs: Vec<(&str, String)> =
            pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let time = OffsetDateTime::from_unix_timestamp_nanos(1_795_000_000_007_000_000).unwrap();
        let (level, event) = (LogLevel::Warn, "rotation-delayed");
        LogLine { time, level, event, request, trace: None, pairs: &pairs }.text(format)
    }

    fn line(pairs: &[(&str, &str)]) -> String {
        text(LogFormat::Logfmt, None, pairs)
    }

    #[test]
    fn line_has_time_level_event_and_request() {
        assert_eq!(
            text(LogFormat::Logfmt, Some("5e1c"), &[("mount", "directory/"), ("attempt", "3")]),
            "time=2026-11-18T11:06:40.007Z level=warn event=rotation-delayed request_id=5e1c \
             mount=directory/ attempt=3\n"
        );
        assert_eq!(
            text(LogFormat::Json, Some("5e1c"), &[("cause", "a\n\"b\""), ("level", "info")]),
            "{\"time\":\"2026-11-18T11:06:40.007Z\",\"level\":\"warn\",\
             \"event\":\"rotation-delayed\",\"request_id\":\"5e1c\",\"cause\":\"a\\n\\\"b\\\"\"}\n"
        );
    }

    #[test]
    fn values_that_could_be_misread_are_quoted() {
        assert!(line(&[("cause", "no route")]).ends_with(" cause=\"no route\"\n"));
        assert!(line(&[("cause", "")]).ends_with("cause=\"\"\n"));
        assert!(line(&[("cause", "a=b")]).ends_with("cause=\"a=b\"\n"));
        assert!(line(&[("cause", "say \"no\"\\")]).ends_with("cause=\"say \\\"no\\\"\\\\\"\n"));
    }

    #[test]
    fn log_value_cannot_forge_line_or_control_terminal() {
        let forged =
            [("name", "x\nlevel=error event=forged"), ("title", "\u{1b}[31mred\u{9b}0m\r")];
        for format in [LogFormat::Logfmt, LogFormat::Json] {
            let line = text(format, None, &forged);
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(!line.trim_end().chars().any(char::is_control), "{line:?}");
        }
    }
}
