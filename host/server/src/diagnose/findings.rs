//! The results of the checks, and their report.

use bulkhead_access::log::Log;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::sync::Mutex;

/// Name of the checks of a running server with the same data.
pub(super) const RUNNING: &str = "running server";

/// The result of a check, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CheckStatus {
    /// No problem.
    Ok,
    /// The server starts, with a disadvantage.
    Warn,
    /// The server does not start, or does not work.
    Fail,
}

impl CheckStatus {
    /// Returns the exit code, as Vault's command has it.
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Fail => 1,
            Self::Warn => 2,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// The result of a check.
struct CheckFinding {
    check: &'static str,
    status: CheckStatus,
    message: String,
}

/// The results of all checks, in order.
#[derive(Default)]
pub(crate) struct Diagnosis(Vec<CheckFinding>);

impl Diagnosis {
    /// Adds a result.
    pub(super) fn add(
        &mut self,
        check: &'static str,
        status: CheckStatus,
        message: impl Into<String>,
    ) {
        self.0.push(CheckFinding { check, status, message: message.into() });
    }

    /// Adds a success or a failure.
    pub(super) fn add_result(&mut self, check: &'static str, result: Result<String, String>) {
        match result {
            Ok(message) => self.add(check, CheckStatus::Ok, message),
            Err(message) => self.add(check, CheckStatus::Fail, message),
        }
    }

    /// Returns the messages of all failed checks.
    pub(crate) fn failures(&self) -> Vec<String> {
        let failed = self.0.iter().filter(|finding| finding.status == CheckStatus::Fail);
        failed.map(|finding| finding.message.clone()).collect()
    }

    /// Returns the warnings, and the remarks about a server that runs already.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let lines = self.0.iter().filter_map(|CheckFinding { check, status, message }| {
            match (status, *check) {
                (CheckStatus::Warn, _) => Some(format!("warning: {check}: {message}")),
                (CheckStatus::Ok, RUNNING) => Some(format!("note: {message}")),
                _ => None,
            }
        });
        lines.collect()
    }

    /// Returns the worst status.
    pub(super) fn status(&self) -> CheckStatus {
        self.0.iter().map(|finding| finding.status).max().unwrap_or(CheckStatus::Ok)
    }

    /// Prints a line for each result, and a summary.
    pub(super) fn print_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        for CheckFinding { check, status, message } in &self.0 {
            let mark = format!("[ {} ]", status.word());
            // The further lines of a message stand below its first line.
            let message = message.trim_end().replace('\n', "\n         ");
            writeln!(out, "{mark:<9}{check}: {message}")?;
        }
        let count = |wanted| self.0.iter().filter(|finding| finding.status == wanted).count();
        let (failed, warned) = (count(CheckStatus::Fail), count(CheckStatus::Warn));
        let checks = if self.0.len() == 1 { "check" } else { "checks" };
        writeln!(out, "\n{} {checks}: {failed} failed, {warned} with a warning", self.0.len())
    }

    /// Prints a document with the members of Vault's.
    pub(super) fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let children: Vec<Value> = self
            .0
            .iter()
            .map(|CheckFinding { check, status, message }| {
                json!({ "name": check, "status": status.word(), "message": message })
            })
            .collect();
        let report = json!({
            "name": "Bulkhead Diagnose",
            "status": self.status().word(),
            "children": children,
        });
        writeln!(out, "{report:#}")
    }
}

/// A line that a function of the start logs.
pub(super) struct LoggedLine {
    level: LogLevel,
    event: String,
    pairs: Vec<(String, String)>,
}

impl LoggedLine {
    /// Returns the value of a pair, if the line is about `event`.
    pub(super) fn value(&self, event: &str, name: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|(key, _)| key == name)?;
        (self.event == event).then_some(pair.1.as_str())
    }

    /// Returns a warning in words.
    pub(super) fn warning(&self) -> Option<String> {
        let pairs: Vec<String> =
            self.pairs.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let is_warning = self.level >= LogLevel::Warn;
        is_warning.then(|| format!("{}: {}", self.event.replace('-', " "), pairs.join(", ")))
    }
}

/// A log that keeps its lines, so that warnings of the start become warnings of the diagnosis.
#[derive(Default)]
pub(super) struct CollectedLog(Mutex<Vec<LoggedLine>>);

impl CollectedLog {
    /// Removes and returns the lines.
    pub(super) fn take(&self) -> Vec<LoggedLine> {
        std::mem::take(&mut sync::lock(&self.0))
    }
}

impl Log for CollectedLog {
    fn line(&self, level: LogLevel, event: &str, pairs: &[(&str, String)]) {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let line = LoggedLine { level, event: event.to_owned(), pairs };
        sync::lock(&self.0).push(line);
    }
}
