//! Typed access to values. A value of the wrong type is refused with its line.

use super::{ConfigError, ConfigNotice};
use crate::config::tree::ConfigLiteral;
use bulkhead_wire::failure::quoted;
use bulkhead_wire::{duration, size};
use hyper::Uri;
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;

/// The value of a key, or an element of its list.
pub(crate) struct ConfigValue<'a> {
    key: &'static str,
    line: usize,
    literal: &'a ConfigLiteral,
}

impl<'a> ConfigValue<'a> {
    pub(super) fn of(key: &'static str, line: usize, literal: &'a ConfigLiteral) -> Self {
        Self { key, line, literal }
    }

    /// Reads a quoted text.
    pub(crate) fn text(&self) -> Result<&'a str, ConfigError> {
        match self.literal {
            ConfigLiteral::Text(text) => Ok(text),
            _ => Err(self.wrong_type("text in quotes")),
        }
    }

    /// Reads `true` or `false`, and the other forms that Vault reads as one of the two.
    pub(crate) fn flag(&self) -> Result<bool, ConfigError> {
        let number = |number: &serde_json::Number| number.to_string();
        let text = match self.literal {
            ConfigLiteral::Flag(flag) => return Ok(*flag),
            ConfigLiteral::Text(text) => text.clone(),
            ConfigLiteral::Number(value) => number(value),
            _ => return Err(self.wrong_type("true or false")),
        };
        match text.as_str() {
            "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
            "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
            other => Err(self.error(format!("{} is neither; write true or false", quoted(other)))),
        }
    }

    /// Reads a duration between `least` and `most` seconds.
    pub(crate) fn seconds(&self, least: u64, most: u64) -> Result<u64, ConfigError> {
        let seconds = match self.literal {
            ConfigLiteral::Text(text) => duration::parse(text),
            ConfigLiteral::Number(number) => duration::seconds(&Json::Number(number.clone())),
            _ => return Err(self.wrong_type("a duration such as \"90s\"")),
        };
        self.within(seconds, (least, most), duration::show)
    }

    /// Reads a size between `least` and `most` bytes.
    pub(crate) fn bytes(&self, least: u64, most: u64) -> Result<u64, ConfigError> {
        let bytes = match self.literal {
            ConfigLiteral::Text(text) => size::parse(text),
            ConfigLiteral::Number(number) => size::parse(&number.to_string()),
            _ => return Err(self.wrong_type("a size such as \"32MiB\"")),
        };
        self.within(bytes, (least, most), size::show)
    }

    /// Reads a whole number between `least` and `most`, with or without quotes.
    pub(crate) fn count(&self, least: u64, most: u64) -> Result<u64, ConfigError> {
        let number = match self.literal {
            ConfigLiteral::Number(number) => number.to_string(),
            ConfigLiteral::Text(text) => text.clone(),
            _ => return Err(self.wrong_type("a whole number such as 1024")),
        };
        let count = number.parse().map_err(|_| format!("{number} is not a whole number"));
        self.within(count, (least, most), |count| count.to_string())
    }

    /// Reads a number, with or without quotes.
    pub(crate) fn decimal(&self) -> Result<f64, ConfigError> {
        let number = match self.literal {
            ConfigLiteral::Number(number) => number.to_string(),
            ConfigLiteral::Text(text) => text.clone(),
            _ => return Err(self.wrong_type("a number such as 0.01")),
        };
        let decimal = number.parse().ok().filter(|decimal: &f64| decimal.is_finite());
        decimal.ok_or_else(|| self.error(format!("{} is not a number", quoted(&number))))
    }

    fn within(
        &self,
        read: Result<u64, String>,
        (least, most): (u64, u64),
        show: fn(u64) -> String,
    ) -> Result<u64, ConfigError> {
        let value = read.map_err(|why| self.error(why))?;
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        Err(self.error(format!(
            "{} is not between {} and {}",
            show(value),
            show(least),
            show(most)
        )))
    }

    /// Returns the elements of a list, each with its own line.
    pub(crate) fn elements(&self) -> Result<Vec<ConfigValue<'a>>, ConfigError> {
        let ConfigLiteral::List(list) = self.literal else {
            return Err(self.wrong_type("a list such as [\"a\", \"b\"]"));
        };
        let element = |(line, literal): &'a (usize, ConfigLiteral)| ConfigValue {
            key: self.key,
            line: *line,
            literal,
        };
        Ok(list.iter().map(element).collect())
    }

    /// Reads a path. A relative path begins at the working directory of the process, as in Vault;
    /// the configuration keeps the whole path.
    pub(crate) fn path(&self) -> Result<PathBuf, ConfigError> {
        let text = self.text()?;
        if text.is_empty() || text.contains('\0') {
            return Err(self.error(format!("{} is not a path", quoted(text))));
        }
        std::path::absolute(text).map_err(|error| {
            let why = format!("the working directory is not known: {error}");
            self.error(format!("{} is relative, and {why}; begin the path with /", quoted(text)))
        })
    }

    /// Reads a URL: `http` or `https`, a host and an optional port, without path or query.
    pub(crate) fn url(&self) -> Result<String, ConfigError> {
        let text = self.text()?;
        let is_url = text.parse::<Uri>().is_ok_and(|uri| {
            let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
            let host = uri.host().is_some_and(|host| !host.is_empty());
            let is_alone =
                uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
            scheme && host && is_alone && uri.path() == "/" && uri.query().is_none()
        });
        if is_url {
            return Ok(text.trim_end_matches('/').to_owned());
        }
        Err(self.error(format!(
            "{} is not an address of a server; write for example \
             \"https://bulkhead.example.com:8200\"",
            quoted(text)
        )))
    }

    /// Error about this value.
    pub(crate) fn error(&self, message: impl fmt::Display) -> ConfigError {
        ConfigError::at(self.line, format!("{}: {message}", self.key))
    }

    /// Notice that this value has no effect.
    pub(super) fn notice(&self, note: impl Into<String>) -> ConfigNotice {
        ConfigNotice { line: self.line, setting: self.key.to_owned(), note: note.into() }
    }

    fn wrong_type(&self, wanted: &str) -> ConfigError {
        self.error(format!("{}; write {wanted}", describe(self.literal)))
    }
}

/// Describes a value for an error message.
fn describe(literal: &ConfigLiteral) -> &str {
    match literal {
        ConfigLiteral::Flag(_) => "true and false have no meaning here",
        ConfigLiteral::Number(_) => "a number has no meaning here",
        ConfigLiteral::Text(_) => "text in quotes has no meaning here",
        ConfigLiteral::List(_) => "a list has no meaning here",
        ConfigLiteral::Unusable(why) => why,
    }
}
