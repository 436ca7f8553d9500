//! Settings of the client: server, TLS, namespace and token. The order is options, `BULKHEAD_`
//! variables, `VAULT_` variables, token file.

use crate::client::Server;
use crate::options::Options;
use crate::problem::Problem;
use crate::tls::Trust;
use bulkhead_wire::secret::Secret;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Token file in the home directory. Only its owner may have access.
const TOKEN_FILE: &str = ".bulkhead-token";

/// Maximum number of bytes read from the token file.
const TOKEN_FILE_MAX: u64 = 8 * 1024;

/// A lookup of an environment variable.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Returns the server of `-address`, `BULKHEAD_ADDR` or `VAULT_ADDR`; otherwise the default address
/// on this machine.
///
/// # Errors
/// An invalid address.
pub(crate) fn server(option: Option<&str>, env: Env<'_>) -> Result<Server, Problem> {
    let address = match option {
        Some(address) => address.to_owned(),
        None => read_variable(env, "ADDR")?.unwrap_or_else(|| "http://127.0.0.1:8200".to_owned()),
    };
    Server::parse(&address).map_err(Problem::usage)
}

/// Returns the TLS settings from the options or the variables `BULKHEAD_CACERT`, `BULKHEAD_CAPATH`,
/// `BULKHEAD_CLIENT_CERT`, `BULKHEAD_CLIENT_KEY`, `BULKHEAD_TLS_SERVER_NAME`,
/// `BULKHEAD_SKIP_VERIFY`, and the same names with `VAULT_`.
///
/// # Errors
/// A value that is not UTF-8 or not valid.
pub(crate) fn trust(options: &Options, env: Env<'_>) -> Result<Trust, Problem> {
    let given = |option, variable| match options.value(option) {
        Some(typed) => Ok(Some(typed.to_owned()).filter(|typed| !typed.is_empty())),
        None => read_variable(env, variable),
    };
    let path = |option, variable| given(option, variable).map(|text| text.map(PathBuf::from));
    let skip_verify = match given("tls-skip-verify", "SKIP_VERIFY")?.as_deref() {
        None | Some("false" | "False" | "FALSE" | "f" | "F" | "0") => false,
        Some("true" | "True" | "TRUE" | "t" | "T" | "1") => true,
        Some(other) => {
            return Err(Problem::usage(format!(
                "BULKHEAD_SKIP_VERIFY (or VAULT_SKIP_VERIFY) is true or false, and not {other:?}"
            )));
        }
    };
    Ok(Trust {
        ca_file: path("ca-cert", "CACERT")?,
        ca_folder: path("ca-path", "CAPATH")?,
        client_certificate: path("client-cert", "CLIENT_CERT")?,
        client_key: path("client-key", "CLIENT_KEY")?,
        server_name: given("tls-server-name", "TLS_SERVER_NAME")?,
        skip_verify,
    })
}

/// Returns the namespace of `BULKHEAD_NAMESPACE` or `VAULT_NAMESPACE`. The server checks the name.
///
/// # Errors
/// A value that is not UTF-8.
pub(crate) fn namespace(env: Env<'_>) -> Result<Option<String>, Problem> {
    read_variable(env, "NAMESPACE")
}

/// Returns the token of `BULKHEAD_TOKEN`, `VAULT_TOKEN` or `~/.bulkhead-token`.
///
/// # Errors
/// A token file that others can access or that cannot be read; an invalid token.
pub(crate) fn token(env: Env<'_>) -> Result<Option<Secret>, Problem> {
    if let Some(token) = read_variable(env, "TOKEN")? {
        return check_token(token, "BULKHEAD_TOKEN (or VAULT_TOKEN)").map(Some);
    }
    let Some(home) = env("HOME").filter(|home| !home.is_empty()) else {
        return Ok(None);
    };
    let path = PathBuf::from(home).join(TOKEN_FILE);
    let Some(text) = read_token_file(&path)? else {
        return Ok(None);
    };
    check_token(text.trim().to_owned(), &path.display().to_string()).map(Some)
}

/// Reads a variable. `BULKHEAD_x` takes precedence over `VAULT_x` (decision P16). An empty variable
/// counts as unset.
fn read_variable(env: Env<'_>, name: &str) -> Result<Option<String>, Problem> {
    for prefix in ["BULKHEAD", "VAULT"] {
        let variable = format!("{prefix}_{name}");
        if let Some(value) = env(&variable).filter(|value| !value.is_empty()) {
            let text = value.into_string();
            return text
                .map(Some)
                .map_err(|_| Problem::usage(format!("the value of {variable} is not UTF-8")));
        }
    }
    Ok(None)
}

fn read_token_file(path: &Path) -> Result<Option<String>, Problem> {
    let unreadable =
        |error: std::io::Error| Problem::usage(format!("cannot read {}: {error}", path.display()));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    // The mode comes from the open file, so that the checked file is the file that is read.
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Problem::usage(format!(
            "{path} may be read by others (mode {mode:04o}); its token may be known: \
             replace it, then run chmod 600 {path}",
            path = path.display(),
            mode = mode & 0o7777,
        )));
    }
    let mut text = String::new();
    file.take(TOKEN_FILE_MAX).read_to_string(&mut text).map_err(unreadable)?;
    Ok(Some(text))
}

fn check_token(text: String, origin: &str) -> Result<Secret, Problem> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Secret::new(text));
    }
    Err(Problem::usage(format!(
        "{origin} holds no token: tokens are printable ASCII without spaces"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    fn environment(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        let owned: Vec<(String, OsString)> =
            pairs.iter().map(|(k, v)| ((*k).to_owned(), OsString::from(v))).collect();
        move |name| owned.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    /// A home directory for a test, removed when dropped.
    struct Home(PathBuf);

    impl Home {
        fn with_token(name: &str, text: &str, mode: u32) -> Self {
            let home =
                std::env::temp_dir().join(format!("bulkhead-cli-{}-{name}", std::process::id()));
            fs::create_dir_all(&home).unwrap();
            fs::write(home.join(TOKEN_FILE), text).unwrap();
            fs::set_permissions(home.join(TOKEN_FILE), Permissions::from_mode(mode)).unwrap();
            Self(home)
        }

        fn token(&self, pairs: &[(&str, &str)]) -> Result<Option<Secret>, Problem> {
            let mut all = vec![("HOME", self.0.to_str().unwrap())];
            all.extend_from_slice(pairs);
            token(&environment(&all))
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn shown(token: Result<Option<Secret>, Problem>) -> Option<String> {
        token.unwrap().map(|token| token.expose().to_owned())
    }

    #[test]
    fn our_token_variable_wins_over_theirs_and_both_over_the_file() {
        let home = Home::with_token("order", "from-file\n", 0o600);
        assert_eq!(shown(home.token(&[])).as_deref(), Some("from-file"));
        assert_eq!(shown(home.token(&[("VAULT_TOKEN", "theirs")])).as_deref(), Some("theirs"));
        let both = [("VAULT_TOKEN", "theirs"), ("BULKHEAD_TOKEN", "ours")];
        assert_eq!(shown(home.token(&both)).as_deref(), Some("ours"));
        assert_eq!(shown(home.token(&[("BULKHEAD_TOKEN", "")])).as_deref(), Some("from-file"));
    }

    #[test]
    fn without_any_token_there_is_none() {
        assert_eq!(shown(token(&environment(&[]))), None);
        assert_eq!(shown(token(&environment(&[("HOME", "/nonexistent")]))), None);
    }

    #[test]
    fn a_token_file_that_others_may_read_is_refused_with_what_to_do() {
        for mode in [0o644, 0o640, 0o660, 0o604] {
            let problem = Home::with_token("mode", "canary", mode).token(&[]).unwrap_err();
            assert_eq!(problem.code, 2);
            assert!(
                problem.message.contains("chmod 600") && !problem.message.contains("canary"),
                "{problem:?}"
            );
        }
    }

    #[test]
    fn a_token_that_cannot_be_one_is_not_repeated() {
        let spaced = token(&environment(&[("BULKHEAD_TOKEN", "canary two")])).unwrap_err();
        assert!(!spaced.message.contains("canary"), "{spaced:?}");
        assert_eq!(Home::with_token("empty", "\n", 0o600).token(&[]).unwrap_err().code, 2);
    }

    #[test]
    fn the_address_comes_from_the_option_then_our_variable_then_theirs() {
        let both =
            environment(&[("VAULT_ADDR", "http://theirs:1"), ("BULKHEAD_ADDR", "http://ours:2")]);
        assert_eq!(server(Some("http://typed:3"), &both).unwrap().to_string(), "http://typed:3");
        assert_eq!(server(None, &both).unwrap().to_string(), "http://ours:2");
        assert_eq!(
            server(None, &environment(&[("VAULT_ADDR", "http://theirs:1")])).unwrap().to_string(),
            "http://theirs:1"
        );
        assert_eq!(server(None, &environment(&[])).unwrap().to_string(), "http://127.0.0.1:8200");
    }
    #[test]
    fn what_is_typed_about_tls_wins_over_our_variables_and_those_over_theirs() {
        let options = crate::options::typed_for_tests(&[
            ("ca-cert", "/typed.pem"),
            ("tls-skip-verify", "false"),
        ]);
        let env = environment(&[
            ("BULKHEAD_CACERT", "/ours.pem"),
            ("VAULT_CAPATH", "/theirs"),
            ("VAULT_CLIENT_CERT", "/c.pem"),
            ("BULKHEAD_CLIENT_KEY", "/k.pem"),
            ("VAULT_TLS_SERVER_NAME", "theirs.example"),
            ("BULKHEAD_TLS_SERVER_NAME", "ours.example"),
            ("VAULT_SKIP_VERIFY", "true"),
        ]);
        let expected = Trust {
            ca_file: Some("/typed.pem".into()),
            ca_folder: Some("/theirs".into()),
            client_certificate: Some("/c.pem".into()),
            client_key: Some("/k.pem".into()),
            server_name: Some("ours.example".to_owned()),
            skip_verify: false,
        };
        assert_eq!(trust(&options, &env).unwrap(), expected);
        let none = Options::default();
        assert!(trust(&none, &env).unwrap().skip_verify);
        assert_eq!(trust(&none, &environment(&[])).unwrap(), Trust::default());
        let unclear = trust(&none, &environment(&[("BULKHEAD_SKIP_VERIFY", "yes")])).unwrap_err();
        assert!(unclear.code == 2 && unclear.message.contains("true or false"), "{unclear:?}");
    }
}
