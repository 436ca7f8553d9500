//! The findings about a configuration: errors, which refuse the file, and settings without effect.
//!
//! This file prevents a file that is repaired one error at a time: reading continues after an
//! error, and [`ConfigFindings::conclude`] alone decides whether there is a configuration.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::Path;

/// Maximum number of errors that are kept, and of settings without effect.
const MOST: usize = 100;

/// An error of a configuration text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// Line number, counted from 1.
    pub(crate) line: usize,
    /// The error and the text to write instead.
    pub(crate) message: String,
}

impl ConfigError {
    pub(super) fn at(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ConfigError {}

/// A setting of another program that has no effect here, and does no harm by that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigNotice {
    /// Line number, counted from 1.
    pub(crate) line: usize,
    /// The word.
    pub(crate) setting: String,
    /// The behaviour of this server, and the advice for the line.
    pub(crate) note: String,
}

impl fmt::Display for ConfigNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.setting, self.note)
    }
}

/// All errors of a refused text, and its settings without effect; both in the order of the lines.
#[derive(Clone, Debug)]
pub(crate) struct ConfigRefusal {
    pub(crate) errors: Vec<ConfigError>,
    pub(crate) notices: Vec<ConfigNotice>,
    /// Number of further errors, of a text with more than are kept.
    more: usize,
}

impl ConfigRefusal {
    /// Returns the message about `file`. Each line of it names the file, as editors read it.
    pub(crate) fn message(&self, file: &Path) -> String {
        let file = file.display();
        let mut lines: Vec<String> =
            self.errors.iter().map(|error| format!("{file}, {error}")).collect();
        let count = lines.len() + self.more;
        if count > 1 {
            lines.insert(0, format!("{file} has {count} errors"));
        }
        if self.more > 0 {
            lines.push(format!("{} more errors are not shown", self.more));
        }
        if !self.notices.is_empty() {
            lines.push("The following lines refuse no start, but have no effect:".to_owned());
        }
        lines.extend(self.notices.iter().map(|notice| format!("{file}, {notice}")));
        lines.join("\n")
    }
}

impl From<ConfigError> for ConfigRefusal {
    fn from(error: ConfigError) -> Self {
        Self { errors: vec![error], notices: Vec::new(), more: 0 }
    }
}

/// The findings so far.
#[derive(Default)]
pub(super) struct ConfigFindings {
    errors: RefCell<Vec<ConfigError>>,
    notices: RefCell<Vec<ConfigNotice>>,
    more: Cell<usize>,
}

impl ConfigFindings {
    pub(super) fn refuse(&self, error: ConfigError) {
        let mut errors = self.errors.borrow_mut();
        if errors.len() < MOST {
            errors.push(error);
        } else {
            self.more.set(self.more.get() + 1);
        }
    }

    pub(super) fn notice(&self, notice: ConfigNotice) {
        let mut notices = self.notices.borrow_mut();
        if notices.len() < MOST {
            notices.push(notice);
        }
    }

    /// Returns the value, or keeps the error.
    pub(super) fn keep<T>(&self, read: Result<T, ConfigError>) -> Option<T> {
        read.map_err(|error| self.refuse(error)).ok()
    }

    /// Returns what was read and the settings without effect, unless there is an error.
    ///
    /// # Errors
    /// All errors.
    pub(super) fn conclude<T>(
        self,
        read: Option<T>,
    ) -> Result<(T, Vec<ConfigNotice>), ConfigRefusal> {
        let (mut errors, mut notices) = (self.errors.into_inner(), self.notices.into_inner());
        errors.sort_by_key(|error| error.line);
        notices.sort_by_key(|notice| notice.line);
        match read {
            Some(read) if errors.is_empty() => Ok((read, notices)),
            _ => Err(ConfigRefusal { errors, notices, more: self.more.get() }),
        }
    }
}
