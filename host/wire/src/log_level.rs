//! The levels of log lines, as a configuration, a request and a component write them.

use crate::event_counts::CountedEvent;

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Detail for the author of a plugin.
    Debug,
    /// Information.
    Info,
    /// A condition to act on soon.
    Warn,
    /// A failure.
    Error,
}

impl CountedEvent<4> for LogLevel {
    const COUNTED: [Self; 4] = Self::ALL;
}

impl LogLevel {
    /// All levels; each level has the number of its place.
    pub const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// Returns the name of the level in the log.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// Returns the priority of the level for systemd's journal and for syslog (RFC 5424).
    #[must_use]
    pub fn priority(self) -> u8 {
        match self {
            Self::Debug => 7,
            Self::Info => 6,
            Self::Warn => 4,
            Self::Error => 3,
        }
    }

    /// Parses a level by its name, or by another name that Vault and OpenBao accept. `trace` is
    /// `debug`, and `notice` is `info`: the log has no lines of these levels.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "trace" | "debug" => Some(Self::Debug),
            "notice" | "info" => Some(Self::Info),
            "warn" | "warning" => Some(Self::Warn),
            "err" | "error" => Some(Self::Error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_parsed_by_every_published_name() {
        for level in LogLevel::ALL {
            assert_eq!(LogLevel::parse(level.word()), Some(level));
        }
        for (text, level) in [
            ("TRACE", LogLevel::Debug),
            ("notice", LogLevel::Info),
            ("Warning", LogLevel::Warn),
            ("err", LogLevel::Error),
        ] {
            assert_eq!(LogLevel::parse(text), Some(level), "{text}");
        }
        assert_eq!(LogLevel::parse("loud"), None);
        assert_eq!(LogLevel::parse(""), None);
    }

    #[test]
    fn louder_levels_have_lower_priorities() {
        let priorities = LogLevel::ALL.map(LogLevel::priority);
        assert_eq!(priorities, [7, 6, 4, 3]);
    }
}
