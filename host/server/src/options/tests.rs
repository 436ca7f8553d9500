//! Options of both modes, from the command line and from the environment.

use super::*;
use std::path::Path;

fn mode(args: &[&str], env: &[(&str, &str)]) -> Result<ServerMode, String> {
    let look = |name: &str| {
        env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
    };
    match parse(args.iter().map(OsString::from), &look)? {
        ServerAction::Serve(mode, _) => Ok(mode),
        ServerAction::Help | ServerAction::Check(_) => Err("no server".to_owned()),
    }
}

fn parsed(args: &[&str], env: &[(&str, &str)]) -> Result<DevOptions, String> {
    match mode(args, env)? {
        ServerMode::Dev(options) => Ok(options),
        ServerMode::Production(_) => Err("not dev mode".to_owned()),
    }
}

fn production(args: &[&str], env: &[(&str, &str)]) -> Result<(String, PathBuf), String> {
    match mode(args, env)? {
        ServerMode::Production(ConfigSource::Options(options)) => {
            Ok((options.listen, options.data))
        }
        ServerMode::Production(ConfigSource::File(_)) | ServerMode::Dev(_) => {
            Err("another mode".to_owned())
        }
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
fn option_dashes_and_separators_are_interchangeable() {
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
            "-dev-no-store-token",
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
fn server_without_dev_is_sealed_and_keeps_data() {
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
fn option_of_other_mode_is_refused_with_alternative() {
    for (args, right) in [
        (&["--dev-listen-address=127.0.0.1:0"][..], "--listen-address"),
        (&["--dev-root-token-id=canary"], "operator init"),
        (&["--dev-no-store-token"], "stored in neither mode"),
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
fn environment_of_one_mode_is_ignored_in_other() {
    let dev =
        [("BULKHEAD_DEV_LISTEN_ADDRESS", "127.0.0.1:1"), ("BULKHEAD_DEV_ROOT_TOKEN_ID", "root")];
    assert_eq!(production(&[], &dev).unwrap().0, "127.0.0.1:8200");
    let lasting = [("BULKHEAD_LISTEN_ADDRESS", "127.0.0.1:1"), ("BULKHEAD_DATA_DIR", "/var/lib/b")];
    let options = parsed(&["--dev"], &lasting).unwrap();
    assert!(options.listen == "127.0.0.1:8200" && options.data.is_none(), "{options:?}");
}

#[test]
fn a_configuration_file_is_served_or_checked() {
    for args in [&["--config", "f"][..], &["-config=f"]] {
        let ServerMode::Production(ConfigSource::File(file)) = mode(args, &[]).unwrap() else {
            panic!("{args:?}")
        };
        assert_eq!(file, PathBuf::from("f"));
    }
    for args in [["--config=f", "--check"], ["-check", "-config=f"]] {
        let set = |_: &str| Some(OsString::from("x"));
        let ask = parse(args.iter().map(OsString::from), &set).unwrap();
        assert!(matches!(ask, ServerAction::Check(file) if file == Path::new("f")), "{args:?}");
    }
}

#[test]
fn settings_of_a_configuration_file_are_refused_elsewhere() {
    for (args, env, says) in [
        (&["--config=f", "--data-dir=d"][..], &[][..], "--data-dir"),
        (&["--listen-address=127.0.0.1:0", "--config=f"], &[], "--listen-address"),
        (&["--check", "--config=f", "--data-dir=d"], &[], "--data-dir"),
        (&["--config=f"], &[("BULKHEAD_DATA_DIR", "d")], "BULKHEAD_DATA_DIR"),
        (&["--config=f"], &[("BULKHEAD_LISTEN_ADDRESS", "127.0.0.1:0")], "BULKHEAD_LISTEN_ADDRESS"),
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
    let look =
        |name: &str| (name == "BULKHEAD_LISTEN_ADDRESS").then(|| OsString::from_vec(vec![0xff]));
    assert!(parse(std::iter::empty(), &look).unwrap_err().contains("BULKHEAD_LISTEN_ADDRESS"));
}

#[test]
fn environment_fills_options_with_own_names_first() {
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
fn wrong_arguments_are_named_without_repeating_tokens() {
    assert!(parsed(&["--dev", "--confog=x"], &[]).unwrap_err().contains("--confog"));
    assert!(parsed(&["--dev", "extra"], &[]).unwrap_err().contains("extra"));
    for bad in ["", "canary'; rm -rf", "canary two", &"canary".repeat(40)] {
        let error = parsed(&["--dev", "--dev-root-token-id", bad], &[]).unwrap_err();
        assert!(error.contains("root token id") && !error.contains("canary"), "{error}");
    }
}

#[test]
fn dev_tls_and_remote_plain_http_need_options() {
    let transport = |args: &[&str]| parsed(args, &[]).map(|options| options.tls);
    assert_eq!(transport(&["-dev"]), Ok(DevTransport::PlainHere));
    assert_eq!(transport(&["-dev", "-tls-disable"]), Ok(DevTransport::Plain));
    assert_eq!(transport(&["-dev", "-dev-tls"]), Ok(DevTransport::Tls(Vec::new())));
    let names = vec!["a.example".to_owned(), "192.0.2.7".to_owned()];
    let named = ["--dev", "--dev-tls", "--dev-tls-san=a.example", "--dev-tls-san", "192.0.2.7"];
    assert_eq!(transport(&named), Ok(DevTransport::Tls(names)));
    for (args, says) in [
        (&["--dev", "--dev-tls", "--tls-disable"][..], "leave one of the two out"),
        (&["--dev", "--dev-tls-san=a"], "add --dev-tls"),
        (&["--dev-tls"], "tls_cert_file"),
        (&["--dev-tls-san=a"], "tls_cert_file"),
        (&["--tls-disable", "--config", "f"], "tls_disable = true"),
    ] {
        let why = mode(args, &[]).unwrap_err();
        assert!(why.contains(says), "{args:?}: {why}");
    }
    assert!(matches!(
        mode(&["--tls-disable"], &[]).unwrap(),
        ServerMode::Production(ConfigSource::Options(ProductionOptions { tls_disable: true, .. }))
    ));
}
