//! The command line of `bulkhead server`.

use bulkhead_cli::options::double_dashes;
use bulkhead_wire::secret::Secret;
use lexopt::ValueExt;
use std::ffi::OsString;
use std::path::PathBuf;

/// What `bulkhead server --help` prints.
pub const USAGE: &str = "\
Usage: bulkhead server --dev [options]

Starts an unsealed server for trying things out: plain HTTP, and the key that
seals its data lies beside the data. Not for real secrets.

  --dev                        needed: this version has no other mode
  --dev-root-token-id TOKEN    the root token, instead of a random one
                               (or BULKHEAD_DEV_ROOT_TOKEN_ID, which no process list shows)
  --dev-listen-address ADDR    default 127.0.0.1:8200; port 0 takes a free one
                               (or BULKHEAD_DEV_LISTEN_ADDRESS)
  --data-dir DIR               keep the data in DIR, and open it again next time;
                               without it they go to a directory that is removed at the end
";

/// Longest root token id, in characters.
const TOKEN_MAX: usize = 128;

/// What the command line asks for.
#[derive(Debug)]
pub enum Ask {
    /// Print [`USAGE`].
    Help,
    /// A dev server.
    Dev(DevOptions),
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

/// Reads the arguments after `server`; `env` looks an environment variable up.
///
/// # Errors
/// What is wrong, for standard error; the process ends with code 2.
pub fn parse(args: impl Iterator<Item = OsString>, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Ask, String> {
    use lexopt::Arg::{Long, Short};
    let mut dev = false;
    let mut asked = Asked::default();
    let mut parser = lexopt::Parser::from_args(double_dashes(args));
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Long("help") | Short('h') => return Ok(Ask::Help),
            Long("dev") => dev = true,
            Long("dev-root-token-id") => asked.token = Some(text(&mut parser)?),
            Long("dev-listen-address") => asked.listen = Some(text(&mut parser)?),
            Long("data-dir") => asked.data = Some(parser.value().map_err(|error| error.to_string())?.into()),
            other => return Err(format!("{}; see `bulkhead server --help`", other.unexpected())),
        }
    }
    if !dev {
        return Err("this version has dev mode only: start it with `bulkhead server --dev`".to_owned());
    }
    asked.completed_from(env).map(Ask::Dev)
}

fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())
}

#[derive(Default)]
struct Asked {
    token: Option<String>,
    listen: Option<String>,
    data: Option<PathBuf>,
}

impl Asked {
    /// What the command line leaves open comes from the environment, our own names first.
    fn completed_from(self, env: &dyn Fn(&str) -> Option<OsString>) -> Result<DevOptions, String> {
        let from_env = |name: &str| {
            let ours = env(&format!("BULKHEAD_DEV_{name}")).or_else(|| env(&format!("VAULT_DEV_{name}")));
            ours.and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty())
        };
        let token = self.token.or_else(|| from_env("ROOT_TOKEN_ID"));
        let listen = self.listen.or_else(|| from_env("LISTEN_ADDRESS"));
        Ok(DevOptions {
            listen: listen.unwrap_or_else(|| "127.0.0.1:8200".to_owned()),
            root_token: token.map(usable_token).transpose()?,
            data: self.data,
        })
    }
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

    fn parsed(args: &[&str], env: &[(&str, &str)]) -> Result<DevOptions, String> {
        let look = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        match parse(args.iter().map(OsString::from), &look)? {
            Ask::Dev(options) => Ok(options),
            Ask::Help => Err("help".to_owned()),
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
    fn without_dev_the_text_says_what_to_type() {
        for args in [&[][..], &["--data-dir", "d"]] {
            assert!(parsed(args, &[]).unwrap_err().contains("bulkhead server --dev"));
        }
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
