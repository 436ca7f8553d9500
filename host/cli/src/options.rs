//! The command line after the command's own words.

use crate::commands::Command;
use crate::output::Format;
use crate::problem::Problem;
use lexopt::{Arg, ValueExt};
use serde_json::{Map, Value, json};
use std::ffi::OsString;

/// An option of one command.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// Without dashes.
    pub name: &'static str,
    /// What is typed behind the equals sign.
    pub takes: Takes,
    /// One line for help.
    pub about: &'static str,
    /// The field of the request's body that it fills, see [`Options::fields`].
    pub field: Option<&'static str>,
}

/// What an option is given. The word is for help: `TIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing, or `true` or `false`.
    Nothing,
    /// A text. Given again, the last one counts.
    Text(&'static str),
    /// A whole number that is not negative. Given again, the last one counts.
    Number(&'static str),
    /// A text, which may be given again and is then one more.
    List(&'static str),
    /// `name=value`, which may be given again.
    Pairs,
}

impl Takes {
    /// The word for help; `None` for a switch.
    #[must_use]
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Text(word) | Self::Number(word) | Self::List(word) => Some(word),
            Self::Pairs => Some("name=value"),
        }
    }

    /// The value that was given, if it can be one. What is refused in a pair may be a secret, and
    /// is not repeated.
    fn checked(self, name: &str, value: String) -> Result<String, String> {
        match self {
            Self::Number(_) if value.parse::<u64>().is_err() => {
                Err(format!("-{name} is a number, and not {value:?}"))
            }
            Self::Pairs if pair(&value).is_none() => Err(format!("-{name} is name=value")),
            _ => Ok(value),
        }
    }
}

impl Opt {
    /// `-name`, or `-name=false`.
    #[must_use]
    pub const fn switch(name: &'static str, about: &'static str) -> Self {
        Self { name, takes: Takes::Nothing, about, field: None }
    }

    /// `-name=TEXT`.
    #[must_use]
    pub const fn text(name: &'static str, word: &'static str, about: &'static str) -> Self {
        Self { name, takes: Takes::Text(word), about, field: None }
    }

    /// `-name=7`.
    #[must_use]
    pub const fn number(name: &'static str, about: &'static str) -> Self {
        Self { name, takes: Takes::Number("N"), about, field: None }
    }

    /// `-name=TEXT`, as often as there are texts.
    #[must_use]
    pub const fn list(name: &'static str, word: &'static str, about: &'static str) -> Self {
        Self { name, takes: Takes::List(word), about, field: None }
    }

    /// `-name=name=value`, as often as there are pairs.
    #[must_use]
    pub const fn pairs(name: &'static str, about: &'static str) -> Self {
        Self { name, takes: Takes::Pairs, about, field: None }
    }

    /// The same, filling a field of the request's body.
    #[must_use]
    pub const fn fills(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }
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

    /// The last value of an option that takes a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }

    /// The fields that `opts` fill, as far as they were typed: the server's defaults are the
    /// server's. An empty value is no member of a list, so that `-name=` alone empties it.
    #[must_use]
    pub fn fields(&self, opts: &[Opt]) -> Map<String, Value> {
        let filled = |opt: &Opt| Some((opt.field?.to_owned(), self.filled(opt)?));
        opts.iter().filter_map(filled).collect()
    }

    fn filled(&self, opt: &Opt) -> Option<Value> {
        let last = self.value(opt.name)?;
        let all = self.values(opt.name).filter(|value| !value.is_empty());
        Some(match opt.takes {
            Takes::Nothing => json!(self.switch(opt.name)),
            Takes::Text(_) => json!(last),
            Takes::Number(_) => json!(self.number(opt.name)?),
            Takes::List(_) => json!(all.collect::<Vec<_>>()),
            Takes::Pairs => Value::Object(
                all.filter_map(pair).map(|(key, value)| (key.to_owned(), json!(value))).collect(),
            ),
        })
    }

    /// The first of `opts` that was typed without a value, as `-name=$UNSET` does.
    #[must_use]
    pub fn empty<'a>(&self, opts: &'a [Opt]) -> Option<&'a Opt> {
        opts.iter().find(|opt| self.values(opt.name).any(str::is_empty))
    }
}

/// The name, which is not empty, and the value, which may hold more equals signs.
fn pair(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, _)| !name.is_empty())
}

/// Turns `-format` into `--format`, as far as a lone `--`. Short options have one letter.
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

/// Reads what follows the words of `command`.
///
/// # Errors
/// An option that the command does not have, or without its value; what is not UTF-8.
pub fn parse(command: &Command, args: impl Iterator<Item = OsString>) -> Result<Options, Problem> {
    let wrong =
        |why: String| Problem::usage(format!("{why}; see `bulkhead {} -help`", command.words));
    let mut parser = lexopt::Parser::from_args(double_dashes(args));
    let mut options = Options::default();
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
            Arg::Long(name) => name.to_owned(),
            other => return Err(wrong(other.unexpected().to_string())),
        };
        take(command, &name, &mut parser, &mut options).map_err(wrong)?;
    }
    Ok(options)
}

fn take(
    command: &Command,
    name: &str,
    parser: &mut lexopt::Parser,
    options: &mut Options,
) -> Result<(), String> {
    let Some(opt) = command.options().find(|opt| opt.name == name) else {
        return Err(format!("there is no option -{name}"));
    };
    let value = if opt.takes == Takes::Nothing {
        switched(name, parser.optional_value())?.to_string()
    } else {
        let given =
            parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())?;
        opt.takes.checked(name, given)?
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
mod tests {
    use super::*;
    use crate::commands;

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
    fn fields_are_what_was_typed_and_nothing_else() {
        const OPTS: [Opt; 6] = [
            Opt::text("ttl", "TIME", "").fills("ttl"),
            Opt::number("use-limit", "").fills("num_uses"),
            Opt::switch("renewable", "").fills("renewable"),
            Opt::list("policy", "NAME", "").fills("policies"),
            Opt::pairs("metadata", "").fills("meta"),
            Opt::text("role", "NAME", ""),
        ];
        let fields =
            |args: &[&str]| Value::Object(parsed("token create", args).unwrap().fields(&OPTS));
        assert_eq!(fields(&[]), json!({}));
        assert_eq!(
            fields(&[
                "-ttl=1h",
                "-ttl=2h",
                "-use-limit=3",
                "-renewable=false",
                "-policy=a",
                "-policy=b",
                "-role=r"
            ]),
            json!({"ttl": "2h", "num_uses": 3, "renewable": false, "policies": ["a", "b"]})
        );
        assert_eq!(
            fields(&["-metadata=k=a=b", "-metadata=e="]),
            json!({"meta": {"k": "a=b", "e": ""}})
        );
        assert_eq!(fields(&["-policy="]), json!({"policies": []}));
        let unset = parsed("token create", &["-policy=a", "-policy="]).unwrap();
        assert_eq!(unset.empty(&OPTS).map(|opt| opt.name), Some("policy"));
    }

    #[test]
    fn a_value_that_cannot_be_one_is_refused_and_a_pair_is_not_repeated() {
        for bad in ["-1", "1.5", "x", "", "18446744073709551616"] {
            let problem = parsed("token create", &[&format!("-use-limit={bad}")]).unwrap_err();
            assert!(
                problem.code == 2 && problem.message.contains("-use-limit is a number"),
                "{problem:?}"
            );
        }
        for bad in ["canary", "=canary"] {
            let problem = parsed("token create", &["-metadata", bad]).unwrap_err();
            assert!(
                problem.message.contains("name=value") && !problem.message.contains("canary"),
                "{problem:?}"
            );
        }
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
            assert!(
                problem.message.contains(part) && problem.message.contains("bulkhead read -help"),
                "{problem:?}"
            );
        }
        assert!(
            parsed("read", &["-f"]).unwrap_err().message.contains("-force"),
            "only write has it"
        );
    }
}
