//! The command line: output, error output and exit codes.

use crate::world::World;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::operators::{Operators, seal_status, uninitialised};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Returns exit code, output and error output.
fn run(bulkhead: &Bulkhead, arguments: &[&str]) -> (i32, String, String) {
    shown(bulkhead.command(arguments).output().expect("the command can be started"))
}

fn shown(done: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
}

/// Like [`run`], with `input` on standard input.
fn piped(mut command: Command, input: &str) -> (i32, String, String) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be started");
    let mut pipe = child.stdin.take().expect("the standard input is piped");
    pipe.write_all(input.as_bytes()).expect("the command reads its input");
    drop(pipe);
    shown(child.wait_with_output().expect("the command ends"))
}

#[test]
fn a_credential_is_read_and_revoked() {
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
    assert_eq!(
        run(&world.bulkhead, &["write", "database/roles/typed", "db_name=demo", statements]).0,
        0
    );
    let (_, listed, _) = run(&world.bulkhead, &["list", "database/roles"]);
    assert!(listed.contains("reader") && listed.contains("typed"), "{listed}");
    let (_, field, _) = run(&world.bulkhead, &["read", "--field=db_name", "database/roles/typed"]);
    assert_eq!(field.trim_end(), "demo");
    assert_eq!(run(&world.bulkhead, &["delete", "database/roles/typed"]).0, 0);
    assert_ne!(run(&world.bulkhead, &["read", "database/roles/typed"]).0, 0);
}

#[test]
fn refusals_go_to_stderr_with_exit_code_one() {
    let world = World::new();
    let (code, output, error) = run(&world.bulkhead, &["read", "database/creds/nobody"]);
    assert_eq!(code, 1, "{error}");
    assert_eq!(output, "");
    assert!(error.contains("nobody"), "{error}");
}

#[test]
fn wrong_usage_and_unreachable_server_exit_with_two() {
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
fn token_with_policy_is_made_and_used() {
    let world = World::new();
    let rules = r#"path "database/creds/reader" { capabilities = ["read"] }"#;
    let (code, _, error) =
        piped(world.bulkhead.command(&["policy", "write", "reader", "-"]), rules);
    assert_eq!(code, 0, "{error}");
    let (code, token, _) =
        run(&world.bulkhead, &["token", "create", "-policy=reader", "-field=token"]);
    assert_eq!(code, 0);
    let client = world.bulkhead.client(Some(token.trim()));
    world.credential_for(&client, "reader");
    client.read("database/roles/reader").expect(403);
}

#[test]
fn comma_separated_names_are_split() {
    let world = World::new();
    let arguments = ["token", "create", "-policy=one, two", "-policy=three", "-format=json"];
    let (code, output, error) = run(&world.bulkhead, &arguments);
    assert_eq!(code, 0, "{error}");
    let token: Value = serde_json::from_str(&output).expect("-format=json prints JSON");
    assert_eq!(token["auth"]["token_policies"], json!(["default", "one", "three", "two"]));
    let keys = ["secrets", "tune", "-audit-non-hmac-request-keys=role,name", "database/"];
    assert_eq!(run(&world.bulkhead, &keys).0, 0);
    let tuned = world.root.read("sys/mounts/database/tune").expect(200);
    let keys = &tuned.body["data"]["audit_non_hmac_request_keys"];
    assert_eq!(*keys, json!(["role", "name"]));
    let (code, _, error) = run(&world.bulkhead, &["token", "create", "-policy=one,"]);
    assert_eq!(code, 2, "{error}");
}

#[test]
fn token_lookup_renewal_revocation_take_text_or_accessor() {
    let world = World::new();
    world.client_with("reader", r#"path "database/creds/reader" { capabilities = ["read"] }"#);
    let create_token = |more: &[&str]| {
        let (code, json, error) =
            run(&world.bulkhead, &[&["token", "create", "-format=json", "-ttl=1h"], more].concat());
        assert_eq!(code, 0, "{error}");
        serde_json::from_str::<Value>(&json).expect("-format=json prints JSON")["auth"].clone()
    };
    let auth = create_token(&["-policy=reader"]);
    let (token, accessor) =
        (auth["client_token"].as_str().unwrap(), auth["accessor"].as_str().unwrap());
    let type_it = |words: &[&str]| {
        let (code, output, error) = piped(world.bulkhead.command(words), token);
        assert_eq!(code, 0, "{words:?}: {error}");
        assert!(!output.contains(token), "{words:?} shows the token: {output}");
        output
    };
    assert!(type_it(&["token", "lookup", "-"]).contains("accessor"));
    type_it(&["token", "renew", "-increment=2h", "-"]);
    assert_eq!(type_it(&["token", "capabilities", "-", "database/creds/reader"]), "read\n");
    for words in [
        &["token", "lookup", "-accessor", accessor][..],
        &["token", "renew", "-accessor", accessor],
    ] {
        assert_eq!(run(&world.bulkhead, words).0, 0, "{words:?}");
    }
    assert_eq!(run(&world.bulkhead, &["token", "revoke", "-accessor", accessor]).0, 0);
    assert_eq!(
        piped(world.bulkhead.command(&["token", "lookup", "-"]), token).0,
        1,
        "it was revoked"
    );

    assert_eq!(create_token(&["-orphan"])["orphan"], true);
    assert_eq!(create_token(&["-use-limit=3"])["num_uses"], 3);
    assert_eq!(create_token(&["-policy=reader", "-type=batch"])["token_type"], "batch");
    assert_eq!(
        run(&world.bulkhead, &["token", "create", "-policy="]).0,
        2,
        "an unset variable must not widen a token"
    );
}

#[test]
fn an_engine_is_mounted_tuned_moved_and_disabled() {
    let world = World::empty();
    let typed = |words: &[&str]| {
        let (code, output, error) = run(&world.bulkhead, words);
        assert_eq!(code, 0, "{words:?}: {error}");
        output
    };
    typed(&["secrets", "enable", "-path=second", "-description=orders", "database"]);
    assert!(typed(&["secrets", "list"]).contains("second/"));
    typed(&["secrets", "tune", "-max-lease-ttl=24h", "second"]);
    assert_eq!(
        world.root.read("sys/mounts/second/tune").expect(200).body["data"]["max_lease_ttl"],
        24 * 3600
    );
    typed(&["secrets", "move", "second", "third"]);
    let listed = typed(&["secrets", "list", "-detailed"]);
    assert!(listed.contains("third/") && !listed.contains("second/"), "{listed}");
    typed(&["secrets", "disable", "third"]);
    assert!(!typed(&["secrets", "list"]).contains("third/"));
    assert!(typed(&["auth", "list"]).contains("token/"));
    assert_eq!(run(&world.bulkhead, &["secrets", "enable", "nosuch"]).0, 1);
}

#[test]
fn all_leases_below_path_are_listed_and_ended() {
    let world = World::new();
    let (one, other) = (world.credential("reader"), world.credential("reader"));
    let (code, listed, error) = run(&world.bulkhead, &["lease", "list", "database/creds/reader"]);
    assert_eq!(code, 0, "{error}");
    for lease in [&one.lease, &other.lease] {
        assert!(listed.contains(lease.rsplit('/').next().unwrap()), "{listed}");
    }
    let (code, _, error) =
        run(&world.bulkhead, &["lease", "revoke", "-prefix", "database/creds/reader"]);
    assert_eq!(code, 0, "{error}");
    assert!(!world.postgres.has_user(&one.username) && !world.postgres.has_user(&other.username));
    assert_eq!(
        run(&world.bulkhead, &["lease", "revoke", "-force", &one.lease]).0,
        2,
        "-force is for prefixes"
    );
}

#[test]
fn audit_hash_computes_hash_without_showing_value() {
    let world = World::empty();
    let (code, listed, error) = run(&world.bulkhead, &["audit", "list"]);
    assert!(code == 0 && listed.contains("file/"), "{listed}{error}");
    let command = world.bulkhead.command(&["audit", "hash", "-field=hash", "file", "-"]);
    let (code, hash, error) = piped(command, "c4n4ry\n");
    assert!(
        code == 0 && hash.starts_with("hmac-sha256:") && !hash.contains("c4n4ry"),
        "{hash}{error}"
    );
    assert_eq!(
        run(&world.bulkhead, &["audit", "enable", "-path=second", "file", "file_path=/tmp/x"]).0,
        1
    );
}

#[test]
fn an_operator_initialises_unseals_and_seals_a_server() {
    let server = uninitialised();
    assert_eq!(run(&server, &["status"]).0, 2, "status of a server without data exits with 2");
    let (code, output, error) =
        run(&server, &["operator", "init", "-key-shares=3", "-key-threshold=2", "-format=json"]);
    assert_eq!(code, 0, "{error}");
    let printed: Value = serde_json::from_str(&output).expect("-format=json prints JSON");
    assert_eq!((&printed["unseal_shares"], &printed["unseal_threshold"]), (&json!(3), &json!(2)));
    let answer = json!({ "keys": printed["unseal_keys_hex"], "root_token": printed["root_token"] });
    let operators = Operators::of(&answer, 2);
    let (code, output, _) =
        piped(server.command(&["operator", "unseal"]), &format!("{}\n", operators.keys[0]));
    assert!(code == 0 && output.contains("1/2"), "{output}");
    assert!(!output.contains(&operators.keys[0]), "a key is printed by init only");
    let (code, output, _) = run(&server, &["status"]);
    assert!(code == 2 && output.contains("1/2"), "{output}");
    assert_eq!(run(&server, &["operator", "unseal", "-reset"]).0, 0);
    assert_eq!(seal_status(&server)["progress"], 0);
    assert_eq!(run(&server, &["operator", "unseal", &operators.keys[2]]).0, 0);
    assert_eq!(piped(server.command(&["operator", "unseal", "-"]), &operators.keys[1]).0, 0);
    assert_eq!(run(&server, &["status"]).0, 0);
    let as_root = |arguments: &[&str]| {
        let mut command = server.command(arguments);
        shown(
            command
                .env("BULKHEAD_TOKEN", &operators.token)
                .output()
                .expect("the command can be started"),
        )
    };
    let (_, before, _) = as_root(&["operator", "key-status", "-field=term"]);
    assert_eq!(as_root(&["operator", "rotate"]).0, 0);
    let (_, after, _) = as_root(&["operator", "key-status", "-field=term"]);
    assert_eq!(
        after.parse::<u64>().expect("a number"),
        before.parse::<u64>().expect("a number") + 1
    );
    assert_eq!(as_root(&["operator", "seal"]).0, 0);
    assert_eq!(run(&server, &["status"]).0, 2);
    assert_eq!(as_root(&["operator", "rotate"]).0, 1, "a sealed server refuses");
}

#[test]
fn operator_mistakes_are_reported_and_change_nothing() {
    let server = uninitialised();
    let (code, _, error) = run(&server, &["operator", "init", "-key-shares=2", "-key-threshold=3"]);
    assert!(code == 1 && error.contains('3'), "{error}");
    assert_eq!(run(&server, &["operator", "init", "-key-shares=two"]).0, 2);
    assert_eq!(run(&server, &["operator", "unseal"]).0, 2, "no key on standard input");
    let (code, _, error) = piped(server.command(&["operator", "unseal"]), "c4n4ry-of-a-key");
    assert!(code == 1 && !error.contains("c4n4ry"), "{error}");
    assert_eq!(
        server.client(None).read("sys/init").expect(200).body,
        json!({ "initialized": false })
    );
}

#[test]
fn printed_policy_allows_the_command() {
    let server = Bulkhead::start();
    assert_eq!(run(&server, &["kv", "put", "secret/web", "a=b"]).0, 0);
    for arguments in [
        &["kv", "get", "secret/web"][..],
        &["kv", "list", "secret"],
        &["kv", "put", "secret/web", "a=c"],
        &["kv", "metadata", "delete", "secret/web"],
        &["secrets", "enable", "-path=other", "kv"],
        &["auth", "tune", "-description=d", "token"],
        &["audit", "list"],
        &["plugin", "pin", "kv", "0.0.1"],
        &["token", "revoke", "-mode=path", "auth/nothing"],
    ] {
        let (code, policy, error) = run(&server, &[arguments, &["-output-policy"]].concat());
        assert_eq!(code, 0, "{arguments:?}: {error}");
        let (code, _, error) = piped(server.command(&["policy", "write", "printed", "-"]), &policy);
        assert_eq!(code, 0, "{policy}: {error}");
        let creation = ["token", "create", "-policy=printed", "-field=token"];
        let (_, token, _) = run(&server, &creation);
        let mut command = server.command(arguments);
        let done = command.env("BULKHEAD_TOKEN", &token).output().expect("it can be started");
        let (_, _, error) = shown(done);
        assert!(!error.contains("(403)"), "{arguments:?} with {policy}: {error}");
    }
}

#[test]
fn lockout_options_lock_a_name() {
    let server = Bulkhead::start();
    let options = ["-user-lockout-threshold=2", "-user-lockout-duration=10m", "-path=people"];
    let (code, _, error) =
        run(&server, &[&["auth", "enable"], &options[..], &["userpass"]].concat());
    assert_eq!(code, 0, "{error}");
    let tuned = server.root().read("sys/auth/people/tune").expect(200);
    assert_eq!(tuned.body["data"]["user_lockout_config"]["lockout_threshold"], 2, "{}", tuned.body);
    let disable = ["auth", "tune", "-user-lockout-disable", "people"];
    assert_eq!(run(&server, &disable).0, 0);
    let tuned = server.root().read("sys/auth/people/tune").expect(200);
    let config = &tuned.body["data"]["user_lockout_config"];
    assert_eq!(
        (&config["lockout_disable"], &config["lockout_threshold"]),
        (&json!(true), &json!(2))
    );
}

#[test]
fn tokens_of_logins_below_a_path_are_revoked() {
    let server = Bulkhead::start();
    for arguments in [
        &["auth", "enable", "-path=people", "userpass"][..],
        &["write", "auth/people/users/bob", "password=pw-of-bob"],
    ] {
        let (code, _, error) = run(&server, arguments);
        assert_eq!(code, 0, "{error}");
    }
    let login = ["login", "-method=userpass", "-path=people", "-token-only", "username=bob"];
    let (code, token, error) = piped(server.command(&login), "pw-of-bob");
    assert_eq!(code, 0, "{error}");
    let own = server.client(Some(&token));
    own.read("auth/token/lookup-self").expect(200);
    let (code, said, error) = run(&server, &["token", "revoke", "-mode=path", "auth/people"]);
    assert!(code == 0 && said.contains("below auth/people"), "{said}{error}");
    own.read("auth/token/lookup-self").expect(403);
}

#[test]
fn status_shows_high_availability() {
    let server = Bulkhead::start();
    let (code, table, error) = run(&server, &["status"]);
    assert!(code == 0 && table.contains("\nha_enabled "), "{table}{error}");
    let (_, document, _) = run(&server, &["status", "-format=json"]);
    let document: Value = serde_json::from_str(&document).expect("-format=json prints JSON");
    assert!(document["ha_enabled"].is_boolean(), "{document}");
}
