//! `bulkhead kv` with the key-value engine.

use bulkhead_tests::Bulkhead;
use serde_json::{Value, json};

/// Returns exit code, output and error output.
fn run(server: &Bulkhead, arguments: &[&str]) -> (i32, String, String) {
    let done = server.command(arguments).output().expect("the command can be started");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
}

/// Like [`run`], for a command that succeeds.
#[track_caller]
fn output(server: &Bulkhead, arguments: &[&str]) -> String {
    let (code, output, error) = run(server, arguments);
    assert_eq!(code, 0, "{arguments:?}: {error}");
    output
}

#[test]
fn versioned_secret_is_written_changed_rolled_back_erased() {
    let server = Bulkhead::start();
    let typed = |arguments: &[&str]| output(&server, arguments);
    let written = typed(&["kv", "put", "secret/web", "user=web", "password=p1"]);
    assert!(written.starts_with("= Secret Path =\nsecret/data/web\n"), "{written}");
    assert!(written.contains("custom_metadata    <nil>\n"), "{written}");
    typed(&["kv", "patch", "-mount=secret", "web", "password=p2"]);
    typed(&["kv", "patch", "-method=rw", "secret/web", "extra=x"]);
    let shown = typed(&["kv", "get", "-format=json", "secret/web"]);
    let shown: Value = serde_json::from_str(&shown).expect("-format=json prints JSON");
    assert_eq!(shown["data"]["data"], json!({"user": "web", "password": "p2", "extra": "x"}));
    assert_eq!(typed(&["kv", "get", "-version=1", "-field=password", "secret/web"]), "p1");
    let (code, _, error) = run(&server, &["kv", "put", "-cas=1", "secret/web", "a=b"]);
    assert!(code == 1 && error.contains("current version is 3"), "{error}");
    assert!(typed(&["kv", "list", "secret"]).contains("web\n"));

    typed(&["kv", "delete", "secret/web"]);
    let (code, shown, _) = run(&server, &["kv", "get", "secret/web"]);
    assert!(code == 0 && !shown.contains("= Data ="), "{shown}");
    typed(&["kv", "undelete", "-versions=3", "secret/web"]);
    typed(&["kv", "rollback", "-version=1", "secret/web"]);
    assert_eq!(typed(&["kv", "get", "-field=password", "secret/web"]), "p1");
    typed(&["kv", "destroy", "-versions=2", "secret/web"]);
    typed(&["kv", "metadata", "put", "-custom-metadata=owner=web", "secret/web"]);
    let shown = typed(&["kv", "metadata", "get", "secret/web"]);
    assert!(shown.contains("map[owner:web]") && shown.contains(" Version 4 "), "{shown}");
    typed(&["kv", "metadata", "delete", "secret/web"]);
    let (code, _, error) = run(&server, &["kv", "get", "secret/web"]);
    assert_eq!((code, error.as_str()), (2, "nothing exists at secret/data/web\n"));
}

#[test]
fn an_empty_mount_is_upgraded_to_versions() {
    let server = Bulkhead::start();
    let typed = |arguments: &[&str]| output(&server, arguments);
    for path in ["old", "empty"] {
        typed(&["secrets", "enable", &format!("-path={path}"), "-options=version=1", "kv"]);
    }
    assert_eq!(typed(&["kv", "put", "old/x", "a=1"]), "wrote old/x\n");
    assert!(typed(&["kv", "get", "old/x"]).starts_with("== Data ==\n"));
    let (code, _, error) = run(&server, &["kv", "undelete", "-versions=1", "old/x"]);
    assert!(code == 2 && error.contains("kv enable-versioning old"), "{error}");
    typed(&["kv", "enable-versioning", "empty"]);
    assert!(typed(&["kv", "put", "empty/x", "a=2"]).contains("empty/data/x"));
}

/// Runs a command with a wrapping time in the environment, and returns the wrapping token.
#[track_caller]
fn wrapping_token(server: &Bulkhead, arguments: &[&str]) -> String {
    let mut command = server.command(arguments);
    let done = command.env("VAULT_WRAP_TTL", "60").output().expect("the command can be started");
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    let error = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{arguments:?}: {error}");
    assert!(!output.contains("p4ssw0rd"), "{arguments:?}: {output}");
    let row = output.lines().find_map(|line| line.strip_prefix("wrapping_token "));
    row.unwrap_or_else(|| panic!("{arguments:?} is not wrapped: {output}")).trim().to_owned()
}

#[test]
fn wrapping_variable_wraps_secrets_of_every_command() {
    let server = Bulkhead::start();
    output(&server, &["kv", "put", "secret/web", "password=p4ssw0rd"]);
    for arguments in [
        &["kv", "get", "secret/web"][..],
        &["kv", "get", "-mount=secret", "web"],
        &["read", "secret/data/web"],
    ] {
        let token = wrapping_token(&server, arguments);
        let opened = output(&server, &["unwrap", "-format=json", &token]);
        let opened: Value = serde_json::from_str(&opened).expect("-format=json prints JSON");
        assert_eq!(opened["data"]["data"]["password"], "p4ssw0rd", "{arguments:?}");
    }
    for arguments in [
        &["kv", "patch", "-method=rw", "secret/web", "user=web"][..],
        &["kv", "rollback", "-version=1", "secret/web"],
        &["kv", "metadata", "get", "secret/web"],
        &["kv", "list", "secret"],
        &["policy", "read", "default"],
        &["auth", "list"],
        &["token", "capabilities", "secret/data/web"],
        &["plugin", "list"],
    ] {
        let opened = output(&server, &["unwrap", &wrapping_token(&server, arguments)]);
        assert!(!opened.contains("wrapping_token"), "{arguments:?}: {opened}");
    }
    assert_eq!(output(&server, &["kv", "get", "-field=password", "secret/web"]), "p4ssw0rd");
}

#[test]
fn patch_changes_settings_of_secret() {
    let server = Bulkhead::start();
    output(&server, &["kv", "put", "secret/web", "a=b"]);
    output(&server, &["kv", "metadata", "put", "-max-versions=7", "secret/web"]);
    let changed = output(&server, &["patch", "secret/metadata/web", "cas_required=true"]);
    assert_eq!(changed, "changed secret/metadata/web\n");
    let shown = output(&server, &["read", "-format=json", "secret/metadata/web"]);
    let shown: Value = serde_json::from_str(&shown).expect("-format=json prints JSON");
    assert_eq!(shown["data"]["cas_required"], true, "{shown}");
    assert_eq!(shown["data"]["max_versions"], 7, "{shown}");
    let (code, _, error) = run(&server, &["patch", "sys/policies/acl/p", "policy="]);
    assert!(code == 1 && error.contains("(405)"), "{error}");
    let (code, _, _) = run(&server, &["patch", "secret/metadata/nothing", "cas_required=true"]);
    assert_eq!(code, 2);
}
