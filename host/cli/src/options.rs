//! The command line after the command's own words.

use crate::commands::{self, Command};
use crate::output::Format;
use crate::problem::Problem;
use lexopt::{Arg, ValueExt};
use std::ffi::OsString;

/// An option of one command.
pub struct Opt {
    /// Without dashes.
    pub name: &'static str,
    /// What stands behind the equals sign, for help; `None` is a switch.
    pub takes: Option<&'static str>,
    /// One line for help.
    pub about: &'static str,
}

/// What was typed.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    /// `-help` was among it.
    pub help: bool,
    /// `-address`.
    pub address: Option<String>,
    /// `-format`.
    pub format: Format,
    /// `-field`.
    pub field: Option<String>,
    /// What is no option, in order.
    pub words: Vec<String>,
    /// The command's own options, in order.
    named: Vec<(&'static str, String)>,
}

impl Options {
    /// The last value of an option of the command.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values(name).last()
    }

    /// Every value of an option that may be repeated.
    pub fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.named.iter().filter(move |(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Whether a switch is on.
    #[must_use]
    pub fn switch(&self, name: &str) -> bool {
        self.value(name) == Some("true")
    }
}

/// Turns `-format` into `--format`, as far as a lone `--`. Short options have one letter.
pub fn double_dashes(args: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut over = false;
    args.map(move |arg| {
        over |= arg == "--";
        let text = arg.to_str().unwrap_or_default();
        let long = text.strip_prefix('-').filter(|name| {
            let mut letters = name.chars();
            letters.next().is_some_and(|first| first.is_ascii_alphabetic()) && letters.next().is_some()
        });
        if over || long.is_none() { arg } else { OsString::from(format!("-{text}")) }
    })
}

/// Reads what follows the words of `command`.
///
/// # Errors
/// An option that the command does not have, or without its value; what is not UTF-8.
pub fn parse(command: &Command, args: impl Iterator<Item = OsString>) -> Result<Options, Problem> {
    let wrong = |why: String| Problem::usage(format!("{why}; see `bulkhead {} -help`", command.words));
    let mut parser = lexopt::Parser::from_args(double_dashes(args));
    let mut options = Options::default();
    while let Some(arg) = parser.next().map_err(|error| wrong(error.to_string()))? {
        let name = match arg {
            Arg::Value(word) => {
                let word = word.into_string().map_err(|_| wrong("an argument is not UTF-8".to_owned()))?;
                options.words.push(word);
                continue;
            }
            Arg::Short('h') => "help".to_owned(),
            Arg::Short('f') => "force".to_owned(),
            Arg::Long(name) => name.to_owned(),
            other => return Err(wrong(other.unexpected().to_string())),
        };
        take(command, &name, &mut parser, &mut options).map_err(wrong)?;
    }
    Ok(options)
}

fn take(command: &Command, name: &str, parser: &mut lexopt::Parser, options: &mut Options) -> Result<(), String> {
    let known = |opt: &&Opt| opt.name == name;
    let Some(opt) = command.options.iter().find(known).or_else(|| commands::COMMON.iter().find(known)) else {
        return Err(format!("there is no option -{name}"));
    };
    let value = if opt.takes.is_some() {
        parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())?
    } else {
        switched(name, parser.optional_value())?.to_string()
    };
    match opt.name {
        "help" => options.help = true,
        "address" => options.address = Some(value),
        "field" => options.field = Some(value),
        "format" => options.format = Format::named(&value)?,
        own => options.named.push((own, value)),
    }
    Ok(())
}

fn switched(name: &str, value: Option<OsString>) -> Result<bool, String> {
    match value.as_deref().map(|value| value.to_str().unwrap_or_default()) {
        None | Some("true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(other) => Err(format!("-{name} is a switch, true or false, and not {other:?}")),
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]
mod tests {
    use super::*;

    fn parsed(command: &str, args: &[&str]) -> Result<Options, Problem> {
        let words: Vec<OsString> = command.split(' ').map(OsString::from).collect();
        let (command, _) = commands::find(&words).unwrap();
        parse(command, args.iter().map(OsString::from))
    }

    #[test]
    fn one_dash_or_two_mean_the_same() {
        let expected = Options {
            format: Format::Json,
            field: Some("ttl".to_owned()),
            address: Some("http://a:1".to_owned()),
            words: vec!["p".to_owned()],
            ..Options::default()
        };
        for args in [
            ["-format=json", "-field=ttl", "-address=http://a:1", "p"],
            ["--format=json", "p", "--field=ttl", "--address=http://a:1"],
        ] {
            assert_eq!(parsed("read", &args).unwrap(), expected, "{args:?}");
        }
        assert_eq!(parsed("read", &["p", "-format", "json"]).unwrap().format, Format::Json);
    }

    #[test]
    fn a_lone_dash_is_a_word_and_after_two_everything_is() {
        assert_eq!(parsed("write", &["p", "-", "k=-x"]).unwrap().words, ["p", "-", "k=-x"]);
        assert_eq!(parsed("write", &["--", "-format=json"]).unwrap().words, ["-format=json"]);
    }

    #[test]
    fn switches_and_repeated_options_are_kept() {
        assert!(parsed("write", &["-f", "p"]).unwrap().switch("force"));
        assert!(parsed("write", &["-force=true", "p"]).unwrap().switch("force"));
        assert!(!parsed("write", &["-force=false", "p"]).unwrap().switch("force"));
        let options = parsed("token create", &["-policy=a", "--policy", "b", "-ttl=1h"]).unwrap();
        assert_eq!(options.values("policy").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((options.value("ttl"), options.value("display-name")), (Some("1h"), None));
    }

    #[test]
    fn what_the_command_does_not_have_is_named_with_where_to_look() {
        for (args, part) in [
            (&["-ttl=1"][..], "-ttl"),
            (&["-x"], "-x"),
            (&["-format=yaml"], "yaml"),
            (&["-field"], "--field"),
            (&["-help=no"], "-help"),
        ] {
            let problem = parsed("read", args).unwrap_err();
            assert_eq!(problem.code, 2);
            assert!(problem.message.contains(part) && problem.message.contains("bulkhead read -help"), "{problem:?}");
        }
        assert!(parsed("read", &["-f"]).unwrap_err().message.contains("-force"), "only write has it");
    }
}
