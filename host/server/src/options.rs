//! The command line of `bulkhead server`.
//!
//! The mistake this file stops: an option of one mode that the other would ignore, so that a server
//! is not where, or not as safe as, its operator believes.

use crate::config::LISTEN;
use bulkhead_cli::double_dashes;
use bulkhead_wire::secret::Secret;
use lexopt::ValueExt;
use std::ffi::OsString;
use std::path::PathBuf;

/// What `bulkhead server --help` prints.
pub const USAGE: &str = "\
Usage: bulkhead server --config FILE [--check]
       bulkhead server [--data-dir DIR] [--listen-address ADDR]
       bulkhead server --dev [options]

Without --dev: a server that keeps its data sealed. It starts sealed every time and
opens with the keys of `bulkhead operator init`, by `bulkhead operator unseal`.

  --config FILE                everything that the server is told, in HCL: listener, storage,
                               audit, lifetimes; instead of the two options below
  --check                      say what a server with that file would do, and do nothing:
                               exit code 0 if the file is valid, 1 if it is not
  --data-dir DIR               where the data stay; default ./bulkhead-data
                               (or BULKHEAD_DATA_DIR)
  --listen-address ADDR        default 127.0.0.1:8200; port 0 takes a free one
                               (or BULKHEAD_LISTEN_ADDRESS)

With --dev: an open server for trying things out: plain HTTP, and the key that
opens its data lies beside the data. Not for real secrets.

  --dev-root-token-id TOKEN    the root token, instead of a random one
                               (or BULKHEAD_DEV_ROOT_TOKEN_ID, which no process list shows)
  --dev-listen-address ADDR    default 127.0.0.1:8200; port 0 takes a free one
                               (or BULKHEAD_DEV_LISTEN_ADDRESS)
  --data-dir DIR               keep the data in DIR, and open it again next time;
                               without it they go to a directory that is removed at the end
";

/// Longest root token id, in characters.
const TOKEN_MAX: usize = 128;

/// Says in the environment what `--listen-address` says.
const LISTEN_VARIABLE: &str = "BULKHEAD_LISTEN_ADDRESS";

/// Says in the environment what `--data-dir` says.
const DATA_VARIABLE: &str = "BULKHEAD_DATA_DIR";

/// Where a server without dev mode keeps its data unless told: in the folder it was started in.
const DATA: &str = "./bulkhead-data";

/// What the command line asks for.
#[derive(Debug)]
pub enum Ask {
    /// Print [`USAGE`].
    Help,
    /// Say what a server with this file would do, and end.
    Check(PathBuf),
    /// Run a server.
    Serve(Mode),
}

/// The two kinds of server.
#[derive(Debug)]
pub enum Mode {
    /// Open at once, for trying things out.
    Dev(DevOptions),
    /// Sealed until its operators open it.
    Production(Source),
}

/// Where a server that is not in dev mode is told what to do: in one of two places, never in both,
/// because then neither would show it.
#[derive(Debug)]
pub enum Source {
    /// Options, and what they leave open in the environment.
    Options(ProductionOptions),
    /// A configuration file, and nothing else.
    File(PathBuf),
}

/// A dev server's settings.
#[derive(Debug)]
pub struct DevOptions {
    /// `host:port`; port 0 takes a free one.
    pub listen: String,
    /// The root token asked for; without one it is random.
    pub root_token: Option<Secret>,
    /// Where the data stay; without one they go with the process.
    pub data: Option<PathBuf>,
}

/// The settings of a server that is neither in dev mode nor has a configuration file.
#[derive(Debug)]
pub struct ProductionOptions {
    /// `host:port`; port 0 takes a free one.
    pub listen: String,
    /// Where the data stay.
    pub data: PathBuf,
}

/// Looks an environment variable up.
type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Reads the arguments after `server`; `env` looks an environment variable up.
///
/// # Errors
/// What is wrong, for standard error; the process ends with code 2.
pub fn parse(args: impl Iterator<Item = OsString>, env: Env<'_>) -> Result<Ask, String> {
    use lexopt::Arg::{Long, Short};
    let mut asked = Asked::default();
    let mut parser = lexopt::Parser::from_args(double_dashes(args));
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Long("help") | Short('h') => return Ok(Ask::Help),
            Long("dev") => asked.dev = true,
            Long("dev-root-token-id") => asked.token = Some(text(&mut parser)?),
            Long("dev-listen-address") => asked.dev_listen = Some(text(&mut parser)?),
            Long("listen-address") => asked.listen = Some(text(&mut parser)?),
            Long("data-dir") => {
                asked.data =
                    Some(path(&mut parser, "--data-dir", "the folder that keeps the data")?)
            }
            Long("config") if asked.config.is_some() => {
                return Err("--config is given twice: name one file".to_owned());
            }
            Long("config") => {
                asked.config =
                    Some(path(&mut parser, "--config", "the file with the configuration")?)
            }
            Long("check") => asked.check = true,
            other => return Err(format!("{}; see `bulkhead server --help`", other.unexpected())),
        }
    }
    asked.whole(env)
}

fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())
}

fn path(parser: &mut lexopt::Parser, option: &str, meant: &str) -> Result<PathBuf, String> {
    let value = parser.value().map_err(|error| error.to_string())?;
    if value.is_empty() {
        return Err(format!("{option} is empty: name {meant}"));
    }
    Ok(value.into())
}

/// What was typed, before anybody asked whether it fits together.
#[derive(Default)]
struct Asked {
    dev: bool,
    token: Option<String>,
    dev_listen: Option<String>,
    listen: Option<String>,
    data: Option<PathBuf>,
    config: Option<PathBuf>,
    check: bool,
}

impl Asked {
    fn whole(self, env: Env<'_>) -> Result<Ask, String> {
        if self.dev {
            return self.dev_mode(env).map(|options| Ask::Serve(Mode::Dev(options)));
        }
        self.refuse_dev_options()?;
        match (&self.config, self.check) {
            (None, true) => {
                Err("--check is about a configuration file: add --config FILE".to_owned())
            }
            // The environment of this shell need not be that of the server that the file is for.
            (Some(_), true) => self.file(&|_| None).map(Ask::Check),
            (Some(_), false) => {
                self.file(env).map(|file| Ask::Serve(Mode::Production(Source::File(file))))
            }
            (None, false) => self
                .options(env)
                .map(|options| Ask::Serve(Mode::Production(Source::Options(options)))),
        }
    }

    /// What the command line leaves open comes from the environment, our own names first.
    fn dev_mode(self, env: Env<'_>) -> Result<DevOptions, String> {
        if self.listen.is_some() {
            return Err(
                "--listen-address is for a server without --dev; with --dev write --dev-listen-address".to_owned()
            );
        }
        if self.config.is_some() || self.check {
            return Err(
                "--config and --check are for a server without --dev; leave --dev out".to_owned()
            );
        }
        let either = |name: &str| [format!("BULKHEAD_DEV_{name}"), format!("VAULT_DEV_{name}")];
        let token = typed_or_set(self.token, env, &either("ROOT_TOKEN_ID"))?;
        let listen = typed_or_set(self.dev_listen, env, &either("LISTEN_ADDRESS"))?;
        Ok(DevOptions {
            listen: listen.unwrap_or_else(|| LISTEN.to_owned()),
            root_token: token.map(usable_token).transpose()?,
            data: self.data,
        })
    }

    /// The environment's dev settings are left alone: they are there for another server of the same
    /// user.
    fn refuse_dev_options(&self) -> Result<(), String> {
        if self.token.is_some() {
            return Err("--dev-root-token-id is for dev mode: add --dev, or leave it out and get the root token from \
                        `bulkhead operator init`"
                .to_owned());
        }
        if self.dev_listen.is_some() {
            return Err(
                "--dev-listen-address is for dev mode: add --dev, or write --listen-address"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// The configuration file, when nothing else says what it says.
    fn file(self, env: Env<'_>) -> Result<PathBuf, String> {
        let is_set = |name: &str| env(name).is_some_and(|value| !value.is_empty());
        for (typed, option, name, place) in [
            (
                self.listen.is_some(),
                "--listen-address",
                LISTEN_VARIABLE,
                "listener \"tcp\" { address = … }",
            ),
            (self.data.is_some(), "--data-dir", DATA_VARIABLE, "storage \"sqlite\" { path = … }"),
        ] {
            if typed || is_set(name) {
                let given = if typed { option } else { name };
                return Err(format!(
                    "{given} is not read beside --config; write {place} into the file and leave it out"
                ));
            }
        }
        self.config.ok_or_else(|| "--config names no file".to_owned())
    }

    fn options(self, env: Env<'_>) -> Result<ProductionOptions, String> {
        let listen = typed_or_set(self.listen, env, &[LISTEN_VARIABLE.to_owned()])?;
        let set = || env(DATA_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        Ok(ProductionOptions {
            listen: listen.unwrap_or_else(|| LISTEN.to_owned()),
            data: self.data.or_else(set).unwrap_or_else(|| PathBuf::from(DATA)),
        })
    }
}

/// What was typed, else the first of the variables that is set to something. One that is not text
/// is refused: passed over, it would look as if it had worked.
fn typed_or_set(
    typed: Option<String>,
    env: Env<'_>,
    names: &[String],
) -> Result<Option<String>, String> {
    if typed.is_some() {
        return Ok(typed);
    }
    let set =
        names.iter().find_map(|name| Some((name, env(name).filter(|value| !value.is_empty())?)));
    let Some((name, value)) = set else { return Ok(None) };
    value.into_string().map(Some).map_err(|_| format!("the value of {name} is not UTF-8"))
}

/// Only characters that every shell and header takes as they are, because the token is printed in a
/// command to copy.
fn usable_token(text: String) -> Result<Secret, String> {
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || text.len() > TOKEN_MAX || !text.chars().all(usable) {
        return Err(format!(
            "the root token id must be 1 to {TOKEN_MAX} of the characters A-Z a-z 0-9 . - _"
        ));
    }
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn mode(args: &[&str], env: &[(&str, &str)]) -> Result<Mode, String> {
        let look = |name: &str| {
            env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        };
        match parse(args.iter().map(OsString::from), &look)? {
            Ask::Serve(mode) => Ok(mode),
            Ask::Help | Ask::Check(_) => Err("no server".to_owned()),
        }
    }

    fn parsed(args: &[&str], env: &[(&str, &str)]) -> Result<DevOptions, String> {
        match mode(args, env)? {
            Mode::Dev(options) => Ok(options),
            Mode::Production(_) => Err("not dev mode".to_owned()),
        }
    }

    fn production(args: &[&str], env: &[(&str, &str)]) -> Result<(String, PathBuf), String> {
        match mode(args, env)? {
            Mode::Production(Source::Options(options)) => Ok((options.listen, options.data)),
            Mode::Production(Source::File(_)) | Mode::Dev(_) => Err("another mode".to_owned()),
        }
    }

    fn token(options: &DevOptions) -> Option<&str> {
        options.root_token.as_ref().map(Secret::expose)
    }

    #[test]
    fn dev_mode_has_defaults() {
        let options = parsed(&["--dev"], &[]).unwrap();
        assert_eq!(options.listen, "127.0.0.1:8200");
        assert!(options.root_token.is_none() && options.data.is_none());
    }

    #[test]
    fn one_dash_or_two_and_a_space_or_an_equals_sign() {
        for args in [
            vec![
                "--dev",
                "--dev-root-token-id",
                "root",
                "--dev-listen-address=127.0.0.1:0",
                "--data-dir",
                "d",
            ],
            vec![
                "-dev",
                "-dev-root-token-id=root",
                "-dev-listen-address",
                "127.0.0.1:0",
                "-data-dir=d",
            ],
        ] {
            let options = parsed(&args, &[]).unwrap();
            assert_eq!((token(&options), options.listen.as_str()), (Some("root"), "127.0.0.1:0"));
            assert_eq!(options.data, Some(PathBuf::from("d")));
        }
    }

    #[test]
    fn without_dev_a_server_is_sealed_and_keeps_its_data() {
        assert_eq!(
            production(&[], &[]).unwrap(),
            ("127.0.0.1:8200".to_owned(), PathBuf::from("./bulkhead-data"))
        );
        let typed = production(&["-data-dir=d", "--listen-address", "127.0.0.1:0"], &[]).unwrap();
        assert_eq!(typed, ("127.0.0.1:0".to_owned(), PathBuf::from("d")));
        let env = [("BULKHEAD_DATA_DIR", "/var/lib/b"), ("BULKHEAD_LISTEN_ADDRESS", "127.0.0.1:1")];
        assert_eq!(
            production(&[], &env).unwrap(),
            ("127.0.0.1:1".to_owned(), PathBuf::from("/var/lib/b"))
        );
        assert_eq!(production(&["--data-dir=d"], &env).unwrap().1, PathBuf::from("d"));
        assert_eq!(
            production(&[], &[("BULKHEAD_DATA_DIR", "")]).unwrap().1,
            PathBuf::from("./bulkhead-data")
        );
    }

    #[test]
    fn an_option_of_the_other_mode_is_refused_with_the_right_one() {
        for (args, right) in [
            (&["--dev-listen-address=127.0.0.1:0"][..], "--listen-address"),
            (&["--dev-root-token-id=canary"], "operator init"),
            (&["--dev", "--listen-address=127.0.0.1:0"], "--dev-listen-address"),
        ] {
            let error = mode(args, &[]).unwrap_err();
            assert!(
                error.contains("--dev") && error.contains(right) && !error.contains("canary"),
                "{error}"
            );
        }
        assert!(mode(&["--data-dir="], &[]).unwrap_err().contains("--data-dir"));
    }

    #[test]
    fn the_environment_of_one_mode_means_nothing_to_the_other() {
        let dev = [
            ("BULKHEAD_DEV_LISTEN_ADDRESS", "127.0.0.1:1"),
            ("BULKHEAD_DEV_ROOT_TOKEN_ID", "root"),
        ];
        assert_eq!(production(&[], &dev).unwrap().0, "127.0.0.1:8200");
        let lasting =
            [("BULKHEAD_LISTEN_ADDRESS", "127.0.0.1:1"), ("BULKHEAD_DATA_DIR", "/var/lib/b")];
        let options = parsed(&["--dev"], &lasting).unwrap();
        assert!(options.listen == "127.0.0.1:8200" && options.data.is_none(), "{options:?}");
    }

    #[test]
    fn a_configuration_file_is_served_or_checked() {
        for args in [&["--config", "f"][..], &["-config=f"]] {
            let Mode::Production(Source::File(file)) = mode(args, &[]).unwrap() else {
                panic!("{args:?}")
            };
            assert_eq!(file, PathBuf::from("f"));
        }
        for args in [["--config=f", "--check"], ["-check", "-config=f"]] {
            let set = |_: &str| Some(OsString::from("x"));
            let ask = parse(args.iter().map(OsString::from), &set).unwrap();
            assert!(matches!(ask, Ask::Check(file) if file == Path::new("f")), "{args:?}");
        }
    }

    #[test]
    fn what_a_configuration_file_says_is_said_nowhere_else() {
        for (args, env, says) in [
            (&["--config=f", "--data-dir=d"][..], &[][..], "--data-dir"),
            (&["--listen-address=127.0.0.1:0", "--config=f"], &[], "--listen-address"),
            (&["--check", "--config=f", "--data-dir=d"], &[], "--data-dir"),
            (&["--config=f"], &[("BULKHEAD_DATA_DIR", "d")], "BULKHEAD_DATA_DIR"),
            (
                &["--config=f"],
                &[("BULKHEAD_LISTEN_ADDRESS", "127.0.0.1:0")],
                "BULKHEAD_LISTEN_ADDRESS",
            ),
            (&["--config=f", "--config=g"], &[], "twice"),
            (&["--config="], &[], "empty"),
            (&["--check"], &[], "--config FILE"),
            (&["--dev", "--config=f"], &[], "without --dev"),
            (&["--dev", "--check"], &[], "without --dev"),
            (&["--config=f", "--dev-listen-address=127.0.0.1:0"], &[], "--dev"),
        ] {
            let error = mode(args, env).expect_err(says);
            assert!(error.contains(says), "{args:?} {env:?}: {error}");
        }
        assert!(
            mode(&["--config=f"], &[("BULKHEAD_DATA_DIR", "")]).is_ok(),
            "an empty variable says nothing"
        );
    }

    #[test]
    fn a_variable_that_is_not_text_is_named() {
        use std::os::unix::ffi::OsStringExt;
        let look = |name: &str| {
            (name == "BULKHEAD_LISTEN_ADDRESS").then(|| OsString::from_vec(vec![0xff]))
        };
        assert!(parse(std::iter::empty(), &look).unwrap_err().contains("BULKHEAD_LISTEN_ADDRESS"));
    }

    #[test]
    fn the_environment_fills_in_with_our_names_before_the_others() {
        let both = [("VAULT_DEV_ROOT_TOKEN_ID", "theirs"), ("BULKHEAD_DEV_ROOT_TOKEN_ID", "ours")];
        assert_eq!(token(&parsed(&["--dev"], &both).unwrap()), Some("ours"));
        assert_eq!(token(&parsed(&["--dev"], &both[..1]).unwrap()), Some("theirs"));
        assert_eq!(
            token(&parsed(&["--dev", "--dev-root-token-id=typed"], &both).unwrap()),
            Some("typed")
        );
        let address = [("VAULT_DEV_LISTEN_ADDRESS", "127.0.0.1:1234")];
        assert_eq!(parsed(&["--dev"], &address).unwrap().listen, "127.0.0.1:1234");
    }

    #[test]
    fn wrong_arguments_are_named_and_tokens_are_not_repeated() {
        assert!(parsed(&["--dev", "--confog=x"], &[]).unwrap_err().contains("--confog"));
        assert!(parsed(&["--dev", "extra"], &[]).unwrap_err().contains("extra"));
        for bad in ["", "canary'; rm -rf", "canary two", &"canary".repeat(40)] {
            let error = parsed(&["--dev", "--dev-root-token-id", bad], &[]).unwrap_err();
            assert!(error.contains("root token id") && !error.contains("canary"), "{error}");
        }
    }
}
