//! Grants over HTTP: the command that a refusal prints works, and a connection reaches only the
//! addresses in its configuration.

use crate::world::{World, with};
use serde_json::json;

/// The words of the command in a refusal, without the program's name.
fn remedy(refusal: &str) -> Vec<String> {
    let (_, command) = refusal.split_once("to allow it: bulkhead ").expect("a remedy");
    let words = command.split_whitespace();
    words.map(|word| word.trim_matches(|c| "'\"[]\\".contains(c)).to_owned()).collect()
}

#[test]
fn the_printed_command_allows_a_refused_connection() {
    let world = World::new();
    world.credential("reader");
    assert_eq!(
        world.root.read("sys/mounts/database/tune").expect(200).body["data"]["grants"],
        json!(["database:*", "crypto:generate-key", "crypto:issue-certificate"])
    );
    let elsewhere = json!({ "grants": ["database:*", "sql:postgres://db.example:5432"] });
    world.root.write("sys/mounts/database/tune", &elsewhere).expect(204);
    let refused = world.root.read("database/creds/reader").expect(400);
    let words = remedy(&refused.errors());
    let typed: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(typed[..3], ["secrets", "tune", "--grant"], "{}", refused.errors());
    let done = world.bulkhead.command(&typed).output().expect("the command can be started");
    assert!(done.status.success(), "{typed:?}: {}", String::from_utf8_lossy(&done.stderr));
    world.credential("reader");
    let grants =
        world.root.read("sys/mounts/database/tune").expect(200).body["data"]["grants"].clone();
    assert_eq!(grants.as_array().map(Vec::len), Some(3), "the other lines are kept: {grants}");
}

#[test]
fn mount_without_database_plugin_grant_reaches_no_database() {
    let world = World::new();
    world.root.write("sys/mounts/database/tune", &json!({ "grants": [] })).expect(204);
    let refused = world.root.read("database/creds/reader");
    assert!(
        refused.status >= 400
            && refused.errors().contains("'database:postgresql-database-plugin' database/")
    );
    world
        .root
        .write(
            "sys/mounts/database/tune",
            &json!({ "add_grants": ["database:postgresql-database-plugin"] }),
        )
        .expect(204);
    world.credential("reader");
}

#[test]
fn connection_never_reaches_cloud_metadata_or_this_server() {
    let world = World::empty();
    let own = world.bulkhead.url().rsplit(':').next().expect("a port").to_owned();
    let own = |host: &str| format!("{host}:{own}");
    let hosts = [
        own("127.0.0.1"),
        own("localhost"),
        own("127.1"),
        own("[::ffff:127.0.0.1]"),
        "169.254.169.254:80".to_owned(),
        "2852039166:80".to_owned(),
        "[::ffff:169.254.169.254]:80".to_owned(),
        "[64:ff9b::a9fe:a9fe]:80".to_owned(),
        "[fd00:ec2::254]:80".to_owned(),
        "[fe80::1]:5432".to_owned(),
        "0.0.0.0:5432".to_owned(),
    ];
    for host in hosts {
        let url =
            format!("postgresql://{{{{username}}}}:{{{{password}}}}@{host}/demo?sslmode=disable");
        let refused = world.root.write(
            "database/config/bad",
            &with(world.connection(), json!({ "connection_url": url })),
        );
        assert_eq!(refused.status, 400, "{host}: {refused:?}");
        assert!(refused.errors().contains("never dialled"), "{host}: {}", refused.errors());
        world.root.read("database/config/bad").expect(404);
    }
}
