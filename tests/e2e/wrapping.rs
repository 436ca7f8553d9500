//! Wrapped answers over HTTP and on the command line: a single reader unwraps an answer, also after
//! a crash. The cubbyhole of a token belongs to this token alone.

use crate::world::World;
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};
use std::process::Output;

const UNWRAP: &str = "sys/wrapping/unwrap";
const REFUSED: &str = "wrapping token is not valid or does not exist";

fn token_of(answer: &Answer) -> String {
    answer.body["wrap_info"]["token"].as_str().expect("a wrapping token").to_owned()
}

/// Wraps fields for a minute.
fn wrapped(client: &Client, fields: &Value) -> String {
    token_of(&client.wrapping("60").write("sys/wrapping/wrap", fields).expect(200))
}

fn unwrap(client: &Client, token: &str) -> Answer {
    client.write(UNWRAP, &json!({ "token": token }))
}

#[track_caller]
fn assert_refused(answer: Answer) {
    let answer = answer.expect(400);
    assert!(answer.errors().contains(REFUSED), "{answer:?}");
}

#[test]
fn wrapped_credential_reaches_reader_with_its_lease() {
    let world = World::new();
    let answer = world.root.wrapping("5m").read("database/creds/reader").expect(200);
    assert_eq!(answer.body["wrap_info"]["ttl"], 300);
    assert_eq!(answer.body["wrap_info"]["creation_path"], "database/creds/reader");
    let users = world.postgres.users();
    let token = token_of(&answer);
    let reader = world.bulkhead.client(Some(&token));
    let opened = reader.write(UNWRAP, &json!({})).expect(200);
    assert_eq!(users, [opened.text("username")]);
    assert!(opened.body["request_id"].as_str().is_some_and(|id| !id.is_empty()), "{opened:?}");
    assert_eq!(opened.body["lease_duration"], 3600);
    assert_refused(reader.write(UNWRAP, &json!({})));
    assert_refused(unwrap(&world.root, &token));
    world.revoke(opened.lease());
    assert_eq!(world.postgres.users(), Vec::<String>::new());
    let role = world.root.wrapping("60").list("database/roles").expect(200);
    let opened = unwrap(&world.root, &token_of(&role)).expect(200);
    assert_eq!(opened.body["data"], json!({ "keys": ["reader"] }));
}

#[test]
fn a_malformed_wrapping_ttl_is_refused() {
    let server = Bulkhead::start();
    for ttl in ["soon", "0", "-5", "1x", "500ms"] {
        let answer = server.root().wrapping(ttl).read("sys/mounts").expect(400);
        assert!(answer.errors().contains("X-Vault-Wrap-TTL"), "{answer:?}");
    }
    for (ttl, seconds) in [("60", 60), ("90s", 90), ("1h", 3_600), ("1d", 86_400)] {
        let answer = server.root().wrapping(ttl).read("sys/mounts").expect(200);
        assert_eq!(answer.body["wrap_info"]["ttl"], seconds, "{ttl}");
    }
    assert!(server.root().wrapping("60").read("sys/health").body["wrap_info"].is_null());
}

#[test]
fn one_of_a_hundred_concurrent_readers_unwraps() {
    let server = Bulkhead::start();
    for is_caller in [false, true] {
        let token = wrapped(&server.root(), &json!({ "password": "p" }));
        let attempt = || match is_caller {
            true => server.client(Some(&token)).write(UNWRAP, &json!({})),
            false => unwrap(&server.root(), &token),
        };
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let attempts: Vec<_> = (0..100).map(|_| scope.spawn(attempt)).collect();
            attempts.into_iter().map(|one| one.join().expect("an answer")).collect()
        });
        let (opened, refused): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.status == 200);
        assert_eq!(opened.len(), 1, "one unwrapping succeeds; as the caller: {is_caller}");
        assert_eq!(opened[0].body["data"], json!({ "password": "p" }));
        refused.into_iter().for_each(assert_refused);
    }
}

#[test]
fn killed_server_neither_loses_nor_repeats_wrapped_answer() {
    let mut server = Bulkhead::start();
    let fields = json!({ "password": "p" });
    let (unopened_token, opened) =
        (wrapped(&server.root(), &fields), wrapped(&server.root(), &fields));
    unwrap(&server.root(), &opened).expect(200);
    server.kill();
    server.start_again();
    assert_refused(unwrap(&server.root(), &opened));
    assert_eq!(unwrap(&server.root(), &unopened_token).expect(200).body["data"], fields);
    server.assert_silent(&unopened_token);
}

#[test]
fn the_command_line_wraps_and_unwraps() {
    let server = Bulkhead::start();
    let run = |arguments: &[&str]| -> (i32, String) {
        let output = server.command(arguments).output();
        let Output { status, stdout, stderr } = output.expect("the command can be started");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (status.code().unwrap_or(-1), text(stdout) + &text(stderr))
    };
    let args = ["write", "-wrap-ttl=1m", "-field=wrapping_token", "sys/wrapping/wrap", "a=b"];
    let (code, token) = run(&args);
    assert_eq!(code, 0, "{token}");
    assert_eq!(run(&["unwrap", "-field=a", &token]), (0, "b".to_owned()));
    let (code, refused) = run(&["unwrap", &token]);
    assert!(code == 1 && refused.contains(REFUSED), "{refused}");
    let (code, table) = run(&["token", "create", "-wrap-ttl=90s"]);
    assert!(code == 0 && table.contains("wrapping_token_creation_path"), "{table}");
    assert!(table.contains("wrapped_accessor") && table.contains("1m30s"), "{table}");
    let (code, refused) = run(&["read", "-wrap-ttl=soon", "sys/mounts"]);
    assert!(code == 1 && refused.contains("X-Vault-Wrap-TTL"), "{refused}");
}

#[test]
fn a_cubbyhole_belongs_to_its_token() {
    let server = Bulkhead::start();
    let answer = server.root().write("auth/token/create", &json!({})).expect(200);
    let child = server.client(answer.body["auth"]["client_token"].as_str());
    let fields = json!({ "k": "v", "list": [1, null] });
    child.write("cubbyhole/team/a", &fields).expect(204);
    assert_eq!(child.read("cubbyhole/team/a").expect(200).body["data"], fields);
    let listed = child.read("cubbyhole?list=true").expect(200);
    assert_eq!(listed.body["data"], json!({ "keys": ["team/"] }));
    server.root().read("cubbyhole/team/a").expect(404);
    server.root().list("cubbyhole").expect(404);
    child.delete("cubbyhole/team/a").expect(204);
    child.read("cubbyhole/team/a").expect(404);
}
