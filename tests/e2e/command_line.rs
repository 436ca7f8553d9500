//! The command line: what it prints, to which stream, and with which exit code.

use crate::world::World;
use bulkhead_tests::Bulkhead;
use serde_json::Value;

/// Exit code, output, error output.
fn run(bulkhead: &Bulkhead, arguments: &[&str]) -> (i32, String, String) {
    let done = bulkhead.command(arguments).output().expect("the command can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
}

#[test]
fn a_credential_is_asked_for_shown_and_revoked() {
    let world = World::new();
    let (code, json, _) = run(&world.bulkhead, &["read", "-format=json", "database/creds/reader"]);
    assert_eq!(code, 0);
    let answer: Value = serde_json::from_str(&json).expect("-format=json prints JSON");
    let username = answer["data"]["username"].as_str().expect("a name");
    assert!(world.postgres.has_user(username));
    let lease = answer["lease_id"].as_str().expect("a lease");
    let (code, table, _) = run(&world.bulkhead, &["lease", "lookup", lease]);
    assert_eq!(code, 0);
    assert!(table.contains("expire_time"), "{table}");
    assert_eq!(run(&world.bulkhead, &["lease", "renew", lease]).0, 0);
    assert_eq!(run(&world.bulkhead, &["lease", "revoke", lease]).0, 0);
    assert!(!world.postgres.has_user(username));
}

#[test]
fn objects_are_written_read_listed_and_deleted() {
    let world = World::new();
    let statements = "creation_statements=CREATE ROLE \"{{name}}\"";
    assert_eq!(run(&world.bulkhead, &["write", "database/roles/typed", "db_name=demo", statements]).0, 0);
    let (_, listed, _) = run(&world.bulkhead, &["list", "database/roles"]);
    assert!(listed.contains("reader") && listed.contains("typed"), "{listed}");
    let (_, field, _) = run(&world.bulkhead, &["read", "--field=db_name", "database/roles/typed"]);
    assert_eq!(field.trim_end(), "demo");
    assert_eq!(run(&world.bulkhead, &["delete", "database/roles/typed"]).0, 0);
    assert_ne!(run(&world.bulkhead, &["read", "database/roles/typed"]).0, 0);
}

#[test]
fn refusals_go_to_the_error_output_with_exit_code_one() {
    let world = World::new();
    let (code, output, error) = run(&world.bulkhead, &["read", "database/creds/nobody"]);
    assert_eq!(code, 1, "{error}");
    assert_eq!(output, "");
    assert!(error.contains("nobody"), "{error}");
}

#[test]
fn wrong_usage_and_an_unreachable_server_are_exit_code_two() {
    let mut bulkhead = Bulkhead::start();
    assert_eq!(run(&bulkhead, &["raed", "database/creds/x"]).0, 2);
    assert_eq!(run(&bulkhead, &["read"]).0, 2);
    assert_eq!(run(&bulkhead, &["status"]).0, 0);
    bulkhead.kill();
    let (code, _, error) = run(&bulkhead, &["read", "database/creds/x"]);
    assert_eq!(code, 2);
    assert!(error.contains("127.0.0.1"), "{error}");
}

#[test]
fn a_token_with_a_policy_is_made_and_used() {
    let world = World::new();
    let mut write = world.bulkhead.command(&["policy", "write", "reader", "-"]);
    write.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut child = write.spawn().expect("the command can be started");
    let rules = r#"path "database/creds/reader" { capabilities = ["read"] }"#;
    let mut input = child.stdin.take().expect("its input was asked for");
    std::io::Write::write_all(&mut input, rules.as_bytes()).expect("it reads its input");
    drop(input);
    assert!(child.wait().expect("it ends").success());
    let (code, token, _) = run(&world.bulkhead, &["token", "create", "-policy=reader", "-field=token"]);
    assert_eq!(code, 0);
    let client = world.bulkhead.client(Some(token.trim()));
    world.credential_for(&client, "reader");
    client.read("database/roles/reader").expect(403);
}
