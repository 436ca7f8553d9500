//! The log in logfmt on standard error, and the report of panics.
//!
//! This file prevents a value with a line break from forging a log line, and a panic message from
//! leaking a secret into the log (slicing errors quote the sliced text). Log calls of libraries are
//! compiled out, because their text may hold the libraries' input (decision T32).

use bulkhead_access::log::Log;
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic;
use std::sync::Arc;

const _: () = assert!(matches!(::log::STATIC_MAX_LEVEL, ::log::LevelFilter::Off));
const _: () = assert!(tracing::level_filters::STATIC_MAX_LEVEL.into_level().is_none());

/// A log that writes each line to standard error with a single write.
#[derive(Clone, Copy, Debug)]
pub struct StderrLog;

impl Log for StderrLog {
    fn line(&self, level: &str, event: &str, pairs: &[(&str, String)]) {
        let line = logfmt(level, event, pairs);
        // If standard error is closed, there is no reader left.
        std::io::stderr().lock().write_all(line.as_bytes()).unwrap_or_default();
    }
}

/// A log like [`StderrLog`] without `info` lines, for commands that print a result.
#[derive(Clone, Copy, Debug)]
pub struct QuietLog;

impl Log for QuietLog {
    fn line(&self, level: &str, event: &str, pairs: &[(&str, String)]) {
        if level != "info" {
            StderrLog.line(level, event, pairs);
        }
    }
}

/// Installs a panic hook that logs the place of a panic and not its message.
pub fn report_panics(log: Arc<dyn Log>) {
    panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        log.line("error", "panic", &[("at", place)]);
    }));
}

fn logfmt(level: &str, event: &str, pairs: &[(&str, String)]) -> String {
    let mut line = format!("level={level} event={event}");
    for (name, value) in pairs {
        line.push(' ');
        line.push_str(name);
        line.push('=');
        push_value(&mut line, value);
    }
    line.push('\n');
    line
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

/// A log for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::Log;
    use std::sync::Mutex;

    /// A log that stores the events of its lines.
    #[derive(Default)]
    pub(crate) struct RecordingLog(Mutex<Vec<String>>);

    impl RecordingLog {
        /// Returns the events in order.
        pub(crate) fn events(&self) -> Vec<String> {
            self.0.lock().unwrap().clone()
        }
    }

    impl Log for RecordingLog {
        fn line(&self, _: &str, event: &str, _: &[(&str, String)]) {
            self.0.lock().unwrap().push(event.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pairs: &[(&str, &str)]) -> String {
        let owned: Vec<(&str, String)> =
            pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        logfmt("warn", "rotation-delayed", &owned)
    }

    #[test]
    fn ordinary_values_are_bare() {
        assert_eq!(
            line(&[("mount", "directory/"), ("attempt", "3")]),
            "level=warn event=rotation-delayed mount=directory/ attempt=3\n"
        );
    }

    #[test]
    fn values_that_could_be_misread_are_quoted() {
        assert_eq!(
            line(&[("cause", "no route to host")]),
            "level=warn event=rotation-delayed cause=\"no route to host\"\n"
        );
        assert!(line(&[("cause", "")]).ends_with("cause=\"\"\n"));
        assert!(line(&[("cause", "a=b")]).ends_with("cause=\"a=b\"\n"));
        assert!(line(&[("cause", "say \"no\"\\")]).ends_with("cause=\"say \\\"no\\\"\\\\\"\n"));
    }

    #[test]
    fn log_value_cannot_forge_line_or_control_terminal() {
        let forged =
            line(&[("name", "x\nlevel=error event=forged"), ("title", "\u{1b}[31mred\u{9b}0m\r")]);
        assert_eq!(forged.matches('\n').count(), 1, "{forged}");
        assert!(!forged.trim_end().chars().any(char::is_control), "{forged:?}");
    }
}
