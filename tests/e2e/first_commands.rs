//! A user's first commands in a shell: mistyped, without a token, without a server, and logged in.

use bulkhead_tests::Bulkhead;
use bulkhead_tests::operators::{sealed, uninitialised};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

/// Exit code, output, error output.
type Shown = (i32, String, String);

/// Runs a command without `BULKHEAD_TOKEN`.
fn run(server: &Bulkhead, arguments: &[&str]) -> Shown {
    let mut command = server.command(arguments);
    shown(command.env_remove("BULKHEAD_TOKEN").output().expect("the command can be started"))
}

/// Like [`run`], with `input` on standard input.
fn piped(server: &Bulkhead, arguments: &[&str], input: &str) -> Shown {
    let mut command = server.command(arguments);
    let command = command.env_remove("BULKHEAD_TOKEN").stdin(Stdio::piped());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be started");
    let mut pipe = child.stdin.take().expect("the standard input is piped");
    pipe.write_all(input.as_bytes()).expect("the command reads its input");
    drop(pipe);
    shown(child.wait_with_output().expect("the command ends"))
}

fn shown(done: Output) -> Shown {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
}

#[test]
fn refused_login_gets_no_login_advice() {
    let server = Bulkhead::start();
    let user = json!({ "password": "long enough" });
    server.root().write("auth/userpass/users/eve", &user).expect(204);
    let mut codes = Vec::new();
    for _ in 0..6 {
        let (code, _, error) = run(&server, &["write", "auth/userpass/login/eve", "password=no"]);
        assert!(!error.contains("Next:") && !error.contains("log in"), "{error}");
        codes.push((code, error.contains("locked")));
    }
    assert_eq!(codes, [vec![(1, false); 5], vec![(1, true)]].concat());
    let (_, _, error) = run(&server, &["read", "auth/userpass/users/eve"]);
    assert!(error.contains("Next: bulkhead login"), "{error}");
}

#[test]
fn metrics_for_prometheus_are_printed_as_they_came() {
    let server = Bulkhead::start();
    for words in [
        &["read", "sys/metrics", "format=prometheus"][..],
        &["read", "-format=raw", "sys/metrics", "format=prometheus"],
    ] {
        let (code, out, error) = shown(server.command(words).output().expect("a command"));
        assert_eq!((code, error.as_str()), (0, ""));
        assert!(out.starts_with("# HELP bulkhead_") && out.ends_with('\n'), "{out}");
    }
    let words = ["read", "sys/metrics", "format=xml"];
    let (code, _, error) = shown(server.command(&words).output().expect("a command"));
    assert!(code == 1 && error.contains("\"xml\" is unknown"), "{error}");
}

#[test]
fn login_keeps_token_for_next_commands() {
    let server = Bulkhead::start();
    let (code, _, error) = run(&server, &["secrets", "list"]);
    assert!(code == 1 && error.contains("Next: bulkhead login"), "{error}");
    let answer = server.root().write("auth/token/create", &json!({ "ttl": "1h" })).expect(200);
    let token = answer.body["auth"]["client_token"].as_str().expect("a token").to_owned();

    let (code, output, error) = piped(&server, &["login"], &format!("{token}\n"));
    assert!(code == 0 && !output.contains(&token), "{output}{error}");
    let home = server.command(&[]).get_envs().find_map(|(name, value)| {
        (name == "HOME").then(|| std::path::PathBuf::from(value.expect("a home")))
    });
    let file = home.expect("a home").join(".bulkhead-token");
    let mode = std::fs::metadata(&file).expect("the token is stored").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(run(&server, &["print", "token"]), (0, format!("{token}\n"), String::new()));
    assert_eq!(run(&server, &["secrets", "list"]).0, 0);
    let (code, curl, _) = run(&server, &["secrets", "list", "-output-curl-string"]);
    assert!(code == 0 && curl.contains("$(bulkhead print token)"), "{curl}");
    assert!(!curl.contains(&token), "{curl}");

    let (code, output, _) = run(&server, &["token", "revoke", "nonsense"]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("if valid"), "{output}");
    assert_eq!(run(&server, &["token", "revoke", "-self"]).0, 0);
    let (code, output, error) = run(&server, &["login", &token]);
    assert!(code == 1 && output.is_empty(), "a revoked token still works: {output}{error}");
    std::fs::remove_file(&file).expect("the token was stored");
    std::fs::write(file.with_file_name(".vault-token"), "root")
        .expect("the token file can be written");
    let (code, _, error) = run(&server, &["print", "token"]);
    assert!(code == 2 && error.contains("chmod 600"), "{error}");
}

#[test]
fn sealed_new_or_missing_server_names_next_command() {
    let (server, _) = sealed(1, 1);
    let (code, _, error) = run(&server, &["secrets", "list"]);
    assert!(code == 1 && error.contains("Next: bulkhead operator unseal"), "{error}");
    assert_eq!(run(&server, &["operator", "init", "-status"]).0, 0);
    let mut server = uninitialised();
    let (code, _, error) = run(&server, &["secrets", "list"]);
    assert!(code == 1 && error.contains("Next: bulkhead operator init"), "{error}");
    assert_eq!(run(&server, &["operator", "init", "-status"]).0, 2);
    server.kill();
    let (code, _, error) = run(&server, &["secrets", "list"]);
    assert!(code == 2 && error.contains("Next: export BULKHEAD_ADDR="), "{error}");
    let (code, _, error) = run(&server, &["raed", "secret/x"]);
    assert_eq!(code, 2);
    assert_eq!(error, "Error: there is no command \"raed\"; did you mean `bulkhead read`?\n");
}

#[test]
fn the_environment_and_options_choose_the_format() {
    let server = Bulkhead::start();
    let token = bulkhead_tests::bulkhead::ROOT;
    let typed = |arguments: &[&str]| {
        let mut command = server.command(arguments);
        shown(command.env("VAULT_FORMAT", "json").output().expect("the command can be started"))
    };
    let parsed = |arguments: &[&str]| {
        let (code, output, error) = typed(arguments);
        assert_eq!(code, 0, "{arguments:?}: {error}");
        serde_json::from_str::<Value>(&output).expect("the variable chooses JSON")
    };
    assert!(parsed(&["policy", "read", "default"])["policy"].is_string());
    let databases = parsed(&["plugin", "list", "database"]);
    assert!(databases.as_array().is_some_and(|names| !names.is_empty()), "{databases}");
    let (code, output, _) = typed(&["list", "auth/token/roles"]);
    assert_eq!((code, output.as_str()), (2, "{}\n"));
    let (code, output, _) = typed(&["token", "lookup", "-format=yaml"]);
    assert!(code == 0 && output.contains("\n  policies:\n  - root\n"), "{output}");
    let (code, output, _) = typed(&["token", "lookup", "-format=raw", token]);
    assert_eq!((code, output.lines().count()), (0, 1), "{output}");
    let (code, _, error) = typed(&["token", "lookup", "-namespace=team"]);
    assert!(code == 2 && error.contains("no namespaces"), "{error}");
}
