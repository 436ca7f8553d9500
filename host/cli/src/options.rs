//! Parsed options and arguments of a command.

use crate::nearest::find_nearest;
use crate::option::{CommandOption, OptionValue, names_in, split_pair};
use crate::problem::CommandProblem;
use lexopt::{Arg, ValueExt};
use serde_json::{Map, Value, json};
use std::ffi::OsString;

/// The output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// A table for people.
    #[default]
    Table,
    /// The answer as JSON, for programs.
    Json,
    /// The answer as YAML.
    Yaml,
    /// The answer as JSON in a single line, as the server sends it.
    Raw,
}

impl OutputFormat {
    /// Parses the name of a format.
    ///
    /// # Errors
    /// An unknown name.
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        match name {
            "table" => Ok(Self::Table),
            "json" | "pretty" => Ok(Self::Json),
            "yaml" | "yml" => Ok(Self::Yaml),
            "raw" => Ok(Self::Raw),
            other => Err(format!("-format is table, json, yaml or raw, and not {other:?}")),
        }
    }
}

/// The parsed command line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ParsedOptions {
    /// `-help` was given.
    pub(crate) help: bool,
    /// `-address`.
    pub(crate) address: Option<String>,
    /// `-format`.
    pub(crate) format: Option<OutputFormat>,
    /// `-field`.
    pub(crate) field: Option<String>,
    /// Arguments other than options, in order.
    pub(crate) words: Vec<String>,
    /// The command's own options, in order.
    named: Vec<(&'static str, String)>,
}

impl ParsedOptions {
    /// Returns the output format.
    #[must_use]
    pub(crate) fn format(&self) -> OutputFormat {
        self.format.unwrap_or_default()
    }

    /// Returns whether the output is tables and sentences, not an answer or a value for programs.
    #[must_use]
    pub(crate) fn is_for_people(&self) -> bool {
        self.format() == OutputFormat::Table && self.field.is_none()
    }

    /// Returns the last value of an option.
    #[must_use]
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values(name).last()
    }

    /// Returns all values of a repeatable option.
    pub(crate) fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.named
            .iter()
            .filter(move |(option, _)| *option == name)
            .map(|(_, value)| value.as_str())
    }

    /// Sets an option, as if it were the last one on the command line.
    pub(crate) fn set(&mut self, name: &'static str, value: String) {
        self.named.push((name, value));
    }

    /// Returns whether a switch is on.
    #[must_use]
    pub(crate) fn switch(&self, name: &str) -> bool {
        self.value(name) == Some("true")
    }

    /// Returns the last value of a number option.
    #[must_use]
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }

    /// Returns the body fields of the options that were given, so that the server's defaults apply
    /// to the rest. Empty values are not list members: `-name=` alone makes an empty list.
    #[must_use]
    pub(crate) fn fields(&self, opts: &[CommandOption]) -> Map<String, Value> {
        let field = |opt: &CommandOption| Some((opt.field?.to_owned(), self.field_value(opt)?));
        opts.iter().filter_map(field).collect()
    }

    fn field_value(&self, opt: &CommandOption) -> Option<Value> {
        let last = self.value(opt.name)?;
        let all = self.values(opt.name).filter(|value| !value.is_empty());
        Some(match opt.takes {
            OptionValue::Nothing => json!(self.switch(opt.name)),
            OptionValue::Text(_) => json!(last),
            OptionValue::Number(_) => json!(self.number(opt.name)?),
            OptionValue::List(_) => json!(all.collect::<Vec<_>>()),
            OptionValue::Names(_) => json!(all.flat_map(names_in).collect::<Vec<_>>()),
            OptionValue::Pairs => Value::Object(
                all.filter_map(split_pair)
                    .map(|(key, value)| (key.to_owned(), json!(value)))
                    .collect(),
            ),
        })
    }

    /// Returns the first of `opts` that was given an empty value, as `-name=$UNSET` does.
    #[must_use]
    pub(crate) fn first_empty<'a>(&self, opts: &'a [CommandOption]) -> Option<&'a CommandOption> {
        opts.iter().find(|opt| self.values(opt.name).any(str::is_empty))
    }
}

/// Changes `-format` to `--format`, for all arguments before a lone `--`. Short options have a
/// single letter.
pub fn double_dashes(args: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut over = false;
    args.map(move |arg| {
        over |= arg == "--";
        let text = arg.to_str().unwrap_or_default();
        let long = text.strip_prefix('-').filter(|name| {
            let mut letters = name.chars();
            letters.next().is_some_and(|first| first.is_ascii_alphabetic())
                && letters.next().is_some()
        });
        if over || long.is_none() { arg } else { OsString::from(format!("-{text}")) }
    })
}

/// Parses the arguments of a command with `known_options`. `called` is the command's name, for the
/// error message.
///
/// # Errors
/// An unknown option, an option without its value, or an argument that is not UTF-8.
pub(crate) fn parse(
    called: &str,
    known_options: &[CommandOption],
    args: impl Iterator<Item = OsString>,
) -> Result<ParsedOptions, CommandProblem> {
    let wrong =
        |why: String| CommandProblem::usage(format!("{why}; see `bulkhead {called} -help`"));
    let mut parser = lexopt::Parser::from_args(double_dashes(args));
    let mut options = ParsedOptions::default();
    while let Some(arg) = parser.next().map_err(|error| wrong(error.to_string()))? {
        let name = match arg {
            Arg::Value(word) => {
                let word =
                    word.into_string().map_err(|_| wrong("an argument is not UTF-8".to_owned()))?;
                options.words.push(word);
                continue;
            }
            Arg::Short('h') => "help".to_owned(),
            Arg::Short('f') => "force".to_owned(),
            // Some options of Vault are written with underscores.
            Arg::Long(name) => name.replace('_', "-"),
            other => return Err(wrong(other.unexpected().to_string())),
        };
        read_option(known_options, &name, &mut parser, &mut options).map_err(wrong)?;
    }
    Ok(options)
}

fn read_option(
    known_options: &[CommandOption],
    name: &str,
    parser: &mut lexopt::Parser,
    options: &mut ParsedOptions,
) -> Result<(), String> {
    let Some(opt) = known_options.iter().find(|opt| opt.name == name) else {
        let near = find_nearest(name, known_options.iter().map(|opt| opt.name));
        let near = near.map(|near| format!("; did you mean -{near}?")).unwrap_or_default();
        return Err(format!("there is no option -{name}{near}"));
    };
    let value = if opt.takes == OptionValue::Nothing {
        parse_switch(name, parser.optional_value())?.to_string()
    } else {
        let text =
            parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())?;
        opt.takes.check(name, text)?
    };
    match opt.name {
        "help" => options.help = true,
        "address" => options.address = Some(value),
        "field" => options.field = Some(value),
        "format" => options.format = Some(OutputFormat::parse(&value)?),
        own => options.named.push((own, value)),
    }
    Ok(())
}

fn parse_switch(name: &str, value: Option<OsString>) -> Result<bool, String> {
    match value.as_deref().map(|value| value.to_str().unwrap_or_default()) {
        None | Some("true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(other) => Err(format!("-{name} is a switch, true or false, and not {other:?}")),
    }
}

/// Options as parsed from a command line.
#[cfg(test)]
pub(crate) fn typed_for_tests(named: &[(&'static str, &str)]) -> ParsedOptions {
    let named = named.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    ParsedOptions { named, ..ParsedOptions::default() }
}

#[cfg(test)]
mod tests;
