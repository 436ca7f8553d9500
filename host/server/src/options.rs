//! The command line of `bulkhead server`.
//!
//! The mistake this file stops: an option of one mode that the other would ignore, so that a server is not
//! where, or not as safe as, its operator believes.

use bulkhead_cli::options::double_dashes;
use bulkhead_wire::secret::Secret;
use lexopt::ValueExt;
use std::ffi::OsString;
use std::path::PathBuf;

/// What `bulkhead server --help` prints.
pub const USAGE: &str = "\
Usage: bulkhead server [--data-dir DIR] [--listen-address ADDR]
       bulkhead server --dev [options]

Without --dev: a server that keeps its data sealed. It starts sealed every time and
opens with the keys of `bulkhead operator init`, by `bulkhead operator unseal`.

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

/// Where a server listens unless told, in either mode.
const LISTEN: &str = "127.0.0.1:8200";

/// Where a server without dev mode keeps its data unless told: in the folder it was started in.
const DATA: &str = "./bulkhead-data";

/// What the command line asks for.
#[derive(Debug)]
pub enum Ask {
    /// Print [`USAGE`].
    Help,
    /// Run a server.
    Serve(Mode),
}

/// The two kinds of server.
#[derive(Debug)]
pub enum Mode {
    /// Open at once, for trying things out.
    Dev(DevOptions),
    /// Sealed until its operators open it.
    Production(ProductionOptions),
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

/// The settings of a server that is not in dev mode.
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
            Long("data-dir") => asked.data = Some(folder(parser.value().map_err(|error| error.to_string())?)?),
            other => return Err(format!("{}; see `bulkhead server --help`", other.unexpected())),
        }
    }
    let mode = if asked.dev { asked.dev_mode(env).map(Mode::Dev) } else { asked.production(env).map(Mode::Production) };
    mode.map(Ask::Serve)
}

fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())
}

fn folder(value: OsString) -> Result<PathBuf, String> {
    if value.is_empty() {
        return Err("--data-dir is empty: name the folder that keeps the data".to_owned());
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
}

impl Asked {
    /// What the command line leaves open comes from the environment, our own names first.
    fn dev_mode(self, env: Env<'_>) -> Result<DevOptions, String> {
        if self.listen.is_some() {
            return Err(
                "--listen-address is for a server without --dev; with --dev write --dev-listen-address".to_owned()
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

    /// The environment's dev settings are left alone: they are there for another server of the same user.
    fn production(self, env: Env<'_>) -> Result<ProductionOptions, String> {
        if self.token.is_some() {
            return Err("--dev-root-token-id is for dev mode: add --dev, or leave it out and get the root token from \
                        `bulkhead operator init`"
                .to_owned());
        }
        if self.dev_listen.is_some() {
            return Err("--dev-listen-address is for dev mode: add --dev, or write --listen-address".to_owned());
        }
        let listen = typed_or_set(self.listen, env, &["BULKHEAD_LISTEN_ADDRESS".to_owned()])?;
        let set = || env("BULKHEAD_DATA_DIR").filter(|value| !value.is_empty()).map(PathBuf::from);
        Ok(ProductionOptions {
            listen: listen.unwrap_or_else(|| LISTEN.to_owned()),
            data: self.data.or_else(set).unwrap_or_else(|| PathBuf::from(DATA)),
        })
    }
}

/// What was typed, else the first of the variables that is set to something. One that is not text is refused: passed
/// over, it would look as if it had worked.
fn typed_or_set(typed: Option<String>, env: Env<'_>, names: &[String]) -> Result<Option<String>, String> {
    if typed.is_some() {
        return Ok(typed);
    }
    let set = names.iter().find_map(|name| Some((name, env(name).filter(|value| !value.is_empty())?)));
    let Some((name, value)) = set else { return Ok(None) };
    value.into_string().map(Some).map_err(|_| format!("the value of {name} is not UTF-8"))
}

/// Only characters that every shell and header takes as they are, because the token is printed in a
/// command to copy.
fn usable_token(text: String) -> Result<Secret, String> {
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || text.len() > TOKEN_MAX || !text.chars().all(usable) {
        return Err(format!("the root token id must be 1 to {TOKEN_MAX} of the characters A-Z a-z 0-9 . - _"));
    }
    Ok(Secret::new(text))
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

    fn mode(args: &[&str], env: &[(&str, &str)]) -> Result<Mode, String> {
        let look = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        match parse(args.iter().map(OsString::from), &look)? {
            Ask::Serve(mode) => Ok(mode),
            Ask::Help => Err("help".to_owned()),
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
            Mode::Production(options) => Ok((options.listen, options.data)),
            Mode::Dev(_) => Err("dev mode".to_owned()),
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
            vec!["--dev", "--dev-root-token-id", "root", "--dev-listen-address=127.0.0.1:0", "--data-dir", "d"],
            vec!["-dev", "-dev-root-token-id=root", "-dev-listen-address", "127.0.0.1:0", "-data-dir=d"],
        ] {
            let options = parsed(&args, &[]).unwrap();
            assert_eq!((token(&options), options.listen.as_str()), (Some("root"), "127.0.0.1:0"));
            assert_eq!(options.data, Some(PathBuf::from("d")));
        }
    }

    #[test]
    fn without_dev_a_server_is_sealed_and_keeps_its_data() {
        assert_eq!(production(&[], &[]).unwrap(), ("127.0.0.1:8200".to_owned(), PathBuf::from("./bulkhead-data")));
        let typed = production(&["-data-dir=d", "--listen-address", "127.0.0.1:0"], &[]).unwrap();
        assert_eq!(typed, ("127.0.0.1:0".to_owned(), PathBuf::from("d")));
        let env = [("BULKHEAD_DATA_DIR", "/var/lib/b"), ("BULKHEAD_LISTEN_ADDRESS", "127.0.0.1:1")];
        assert_eq!(production(&[], &env).unwrap(), ("127.0.0.1:1".to_owned(), PathBuf::from("/var/lib/b")));
        assert_eq!(production(&["--data-dir=d"], &env).unwrap().1, PathBuf::from("d"));
        assert_eq!(production(&[], &[("BULKHEAD_DATA_DIR", "")]).unwrap().1, PathBuf::from("./bulkhead-data"));
    }

    #[test]
    fn an_option_of_the_other_mode_is_refused_with_the_right_one() {
        for (args, right) in [
            (&["--dev-listen-address=127.0.0.1:0"][..], "--listen-address"),
            (&["--dev-root-token-id=canary"], "operator init"),
            (&["--dev", "--listen-address=127.0.0.1:0"], "--dev-listen-address"),
        ] {
            let error = mode(args, &[]).unwrap_err();
            assert!(error.contains("--dev") && error.contains(right) && !error.contains("canary"), "{error}");
        }
        assert!(mode(&["--data-dir="], &[]).unwrap_err().contains("--data-dir"));
    }

    #[test]
    fn the_environment_of_one_mode_means_nothing_to_the_other() {
        let dev = [("BULKHEAD_DEV_LISTEN_ADDRESS", "127.0.0.1:1"), ("BULKHEAD_DEV_ROOT_TOKEN_ID", "root")];
        assert_eq!(production(&[], &dev).unwrap().0, "127.0.0.1:8200");
        let lasting = [("BULKHEAD_LISTEN_ADDRESS", "127.0.0.1:1"), ("BULKHEAD_DATA_DIR", "/var/lib/b")];
        let options = parsed(&["--dev"], &lasting).unwrap();
        assert!(options.listen == "127.0.0.1:8200" && options.data.is_none(), "{options:?}");
    }

    #[test]
    fn a_variable_that_is_not_text_is_named() {
        use std::os::unix::ffi::OsStringExt;
        let look = |name: &str| (name == "BULKHEAD_LISTEN_ADDRESS").then(|| OsString::from_vec(vec![0xff]));
        assert!(parse(std::iter::empty(), &look).unwrap_err().contains("BULKHEAD_LISTEN_ADDRESS"));
    }

    #[test]
    fn the_environment_fills_in_with_our_names_before_the_others() {
        let both = [("VAULT_DEV_ROOT_TOKEN_ID", "theirs"), ("BULKHEAD_DEV_ROOT_TOKEN_ID", "ours")];
        assert_eq!(token(&parsed(&["--dev"], &both).unwrap()), Some("ours"));
        assert_eq!(token(&parsed(&["--dev"], &both[..1]).unwrap()), Some("theirs"));
        assert_eq!(token(&parsed(&["--dev", "--dev-root-token-id=typed"], &both).unwrap()), Some("typed"));
        let address = [("VAULT_DEV_LISTEN_ADDRESS", "127.0.0.1:1234")];
        assert_eq!(parsed(&["--dev"], &address).unwrap().listen, "127.0.0.1:1234");
    }

    #[test]
    fn wrong_arguments_are_named_and_tokens_are_not_repeated() {
        assert!(parsed(&["--dev", "--config=x"], &[]).unwrap_err().contains("--config"));
        assert!(parsed(&["--dev", "extra"], &[]).unwrap_err().contains("extra"));
        for bad in ["", "canary'; rm -rf", "canary two", &"canary".repeat(40)] {
            let error = parsed(&["--dev", "--dev-root-token-id", bad], &[]).unwrap_err();
            assert!(error.contains("root token id") && !error.contains("canary"), "{error}");
        }
    }
}
