//! Typed access to values. A value of the wrong type is refused with its line.

use super::{ConfigError, SourceText};
use bulkhead_wire::failure::quoted;
use bulkhead_wire::{duration, size};
use hcl::edit::Span;
use hcl::edit::expr::Expression;
use hcl::edit::structure::Attribute;
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;

/// The value of a key, or an element of its list.
pub(crate) struct ConfigValue<'a> {
    lines: SourceText<'a>,
    key: &'static str,
    line: usize,
    expression: &'a Expression,
}

impl<'a> ConfigValue<'a> {
    pub(super) fn of(lines: SourceText<'a>, key: &'static str, attribute: &'a Attribute) -> Self {
        Self { lines, key, line: lines.of(attribute.key.span()), expression: &attribute.value }
    }

    /// Reads a quoted text.
    pub(crate) fn text(&self) -> Result<&'a str, ConfigError> {
        match self.expression {
            Expression::String(text) => Ok(text.as_str()),
            other => Err(self.wrong_type("text in quotes", other)),
        }
    }

    /// Reads `true` or `false`.
    pub(crate) fn flag(&self) -> Result<bool, ConfigError> {
        match self.expression {
            Expression::Bool(flag) => Ok(*flag.value()),
            other => Err(self.wrong_type("true or false", other)),
        }
    }

    /// Reads a duration between `least` and `most` seconds.
    pub(crate) fn seconds(&self, least: u64, most: u64) -> Result<u64, ConfigError> {
        let seconds = match self.expression {
            Expression::String(text) => duration::parse(text),
            Expression::Number(number) => duration::seconds(&json(number.value())),
            other => return Err(self.wrong_type("a duration such as \"90s\"", other)),
        };
        self.within(seconds, (least, most), duration::show)
    }

    /// Reads a size between `least` and `most` bytes.
    pub(crate) fn bytes(&self, least: u64, most: u64) -> Result<u64, ConfigError> {
        let bytes = match self.expression {
            Expression::String(text) => size::parse(text),
            Expression::Number(number) => size::parse(&number.to_string()),
            other => return Err(self.wrong_type("a size such as \"32MiB\"", other)),
        };
        self.within(bytes, (least, most), size::show)
    }

    /// Reads a whole number between `least` and `most`.
    pub(crate) fn count(&self, least: u64, most: u64) -> Result<u64, ConfigError> {
        let Expression::Number(number) = self.expression else {
            return Err(self.wrong_type("a whole number such as 1024", self.expression));
        };
        let whole =
            number.value().as_u64().ok_or_else(|| format!("{} is no whole number", number.value()));
        self.within(whole, (least, most), |count| count.to_string())
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
        let Expression::Array(list) = self.expression else {
            return Err(self.wrong_type("a list such as [\"a\", \"b\"]", self.expression));
        };
        let element = |expression: &'a Expression| {
            let line = expression.span().map_or(self.line, |place| self.lines.of(Some(place)));
            ConfigValue { lines: self.lines, key: self.key, line, expression }
        };
        Ok(list.iter().map(element).collect())
    }

    /// Reads an absolute path. A relative path is refused, because the file does not name a base
    /// directory.
    pub(crate) fn path(&self) -> Result<PathBuf, ConfigError> {
        let text = self.text()?;
        let path = PathBuf::from(text);
        if path.is_absolute() && !text.contains('\0') {
            return Ok(path);
        }
        Err(self.error(format!("{} is no whole path; begin it with /", quoted(text))))
    }

    /// Error about this value.
    pub(crate) fn error(&self, message: impl fmt::Display) -> ConfigError {
        ConfigError::at(self.line, format!("{}: {message}", self.key))
    }

    fn wrong_type(&self, wanted: &str, got: &Expression) -> ConfigError {
        self.error(format!("{}; write {wanted}", describe(got)))
    }
}

fn json(number: &hcl::Number) -> Json {
    let whole = number.as_u64().map(Json::from).or_else(|| number.as_i64().map(Json::from));
    whole.or_else(|| number.as_f64().map(Json::from)).unwrap_or_default()
}

/// Describes a value for an error message.
fn describe(expression: &Expression) -> String {
    match expression {
        Expression::Null(_) => "null is no value".to_owned(),
        Expression::Bool(_) => "true and false have no meaning here".to_owned(),
        Expression::Number(_) => "a number has no meaning here".to_owned(),
        Expression::String(_) => "text in quotes has no meaning here".to_owned(),
        Expression::Array(_) => "a list has no meaning here".to_owned(),
        Expression::Object(_) => "{ … } has no meaning here".to_owned(),
        Expression::StringTemplate(_) => {
            "${…} and %{…} are not computed here (as text they are $${ and %%{)".to_owned()
        }
        Expression::HeredocTemplate(_) => "a heredoc has no meaning here".to_owned(),
        Expression::Variable(word) => {
            format!("the bare word {} is not known", quoted(word.as_str()))
        }
        _ => "nothing is computed in this file".to_owned(),
    }
}
