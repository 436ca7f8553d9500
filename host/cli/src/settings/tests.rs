//! Settings from options, variables and files, and their order.

use super::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

const TOKEN_FILE: &str = ".bulkhead-token";

fn environment(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
    let owned: Vec<(String, OsString)> =
        pairs.iter().map(|(k, v)| ((*k).to_owned(), OsString::from(v))).collect();
    move |name| owned.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

/// A home directory for a test, removed when dropped.
struct Home(PathBuf);

impl Home {
    fn with_token(name: &str, text: &str, mode: u32) -> Self {
        let home = std::env::temp_dir().join(format!("bulkhead-cli-{}-{name}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join(TOKEN_FILE), text).unwrap();
        fs::set_permissions(home.join(TOKEN_FILE), Permissions::from_mode(mode)).unwrap();
        Self(home)
    }

    fn token(&self, pairs: &[(&str, &str)]) -> Result<Option<Secret>, CommandProblem> {
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

fn shown(token: Result<Option<Secret>, CommandProblem>) -> Option<String> {
    token.unwrap().map(|token| token.expose().to_owned())
}

#[test]
fn bulkhead_token_variable_wins_over_vault_and_file() {
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
fn token_file_readable_by_others_fails_with_remedy() {
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
fn invalid_token_is_refused_and_never_repeated() {
    let spaced = token(&environment(&[("BULKHEAD_TOKEN", "canary two")])).unwrap_err();
    assert!(!spaced.message.contains("canary"), "{spaced:?}");
    assert_eq!(Home::with_token("empty", "\n", 0o600).token(&[]).unwrap_err().code, 2);
}

#[test]
fn address_option_wins_over_bulkhead_then_vault_variable() {
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
fn tls_options_precede_bulkhead_variables_before_vault_variables() {
    let options =
        crate::options::typed_for_tests(&[("ca-cert", "/typed.pem"), ("tls-skip-verify", "false")]);
    let env = environment(&[
        ("BULKHEAD_CACERT", "/ours.pem"),
        ("VAULT_CAPATH", "/theirs"),
        ("VAULT_CLIENT_CERT", "/c.pem"),
        ("BULKHEAD_CLIENT_KEY", "/k.pem"),
        ("VAULT_TLS_SERVER_NAME", "theirs.example"),
        ("BULKHEAD_TLS_SERVER_NAME", "ours.example"),
        ("VAULT_SKIP_VERIFY", "true"),
    ]);
    let expected = TlsTrust {
        ca_file: Some("/typed.pem".into()),
        ca_folder: Some("/theirs".into()),
        client_certificate: Some("/c.pem".into()),
        client_key: Some("/k.pem".into()),
        server_name: Some("ours.example".to_owned()),
        skip_verify: false,
    };
    assert_eq!(read_trust(&options, &env).unwrap(), expected);
    let none = ParsedOptions::default();
    assert!(read_trust(&none, &env).unwrap().skip_verify);
    assert_eq!(read_trust(&none, &environment(&[])).unwrap(), TlsTrust::default());
    let unclear = read_trust(&none, &environment(&[("BULKHEAD_SKIP_VERIFY", "yes")])).unwrap_err();
    assert!(unclear.code == 2 && unclear.message.contains("true or false"), "{unclear:?}");
}

#[test]
fn format_option_wins_over_bulkhead_then_vault_variable() {
    let both = environment(&[("BULKHEAD_FORMAT", "yaml"), ("VAULT_FORMAT", "json")]);
    let mut typed = ParsedOptions::default();
    typed.format = Some(OutputFormat::Raw);
    assert_eq!(format(&typed, &both), Ok(OutputFormat::Raw));
    assert_eq!(format(&ParsedOptions::default(), &both), Ok(OutputFormat::Yaml));
    assert_eq!(
        format(&ParsedOptions::default(), &environment(&[("VAULT_FORMAT", "json")])),
        Ok(OutputFormat::Json)
    );
    assert_eq!(format(&ParsedOptions::default(), &environment(&[])), Ok(OutputFormat::Table));
    let wrong =
        format(&ParsedOptions::default(), &environment(&[("VAULT_FORMAT", "xml")])).unwrap_err();
    assert!(wrong.code == 2 && wrong.message.contains("VAULT_FORMAT"), "{wrong:?}");
}

#[test]
fn header_option_cannot_set_token_or_reserved_headers() {
    let of = |pair: &str| headers(&crate::options::typed_for_tests(&[("header", pair)]));
    let (name, value) = of("X-Forwarded-For=10.0.0.1").unwrap().remove(0);
    assert_eq!((name.as_str(), value.to_str().unwrap()), ("x-forwarded-for", "10.0.0.1"));
    for pair in [
        "X-Vault-Token=canary",
        "x-vault-wrap-ttl=canary",
        "X-Bulkhead-Namespace=canary",
        "X-Secrets-Token=canary",
        "a b=canary",
        "x=canary\n",
    ] {
        let problem = of(pair).unwrap_err();
        assert!(problem.code == 2 && !problem.message.contains("canary"), "{problem:?}");
    }
}

#[test]
fn options_of_missing_parts_are_refused_with_reason() {
    let of = |name: &'static str, value: &str| {
        refuse_unserved(&crate::options::typed_for_tests(&[(name, value)]))
    };
    for (name, reason) in [
        ("namespace", "no namespaces"),
        ("ns", "no namespaces"),
        ("mfa", "no second factor"),
        ("unlock-key", "no namespaces to lock"),
        ("agent-address", "no agent"),
    ] {
        let message = of(name, "canary").unwrap_err().message;
        assert!(message.contains(reason) && !message.contains("canary"), "{message}");
        assert_eq!(of(name, ""), Ok(()), "{name}");
    }
    assert_eq!((of("namespace", "root/"), of("ns", "root")), (Ok(()), Ok(())));
}
