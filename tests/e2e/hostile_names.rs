//! Names chosen to break out of SQL. A user's name contains only letters, digits and `_.@-`,
//! with any name of the caller, and the database gets no other object.

use crate::world::{CREATION, World, with};
use serde_json::json;

/// Display names as an identity provider might pass them on.
const HOSTILE: [&str; 12] = [
    r#"a"b"#,
    "a'b",
    "a;drop",
    r"a\",
    "line\nbreak",
    r#"x" SUPERUSER; --"#,
    r#"x"; DROP TABLE orders; --"#,
    "$$; DROP TABLE orders; $$",
    "{{password}}",
    "{{name}}",
    "\u{202e}txet",
    "🗝️ key",
];

fn is_harmless(name: &str) -> bool {
    name.len() <= 63 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.@-".contains(c))
}

/// Asserts that the database has only expected roles, none of them with privileges.
#[track_caller]
fn assert_nothing_else(world: &World) {
    let users = world.postgres.users();
    assert!(users.iter().all(|user| is_harmless(user)), "{users:?}");
    let others = "SELECT rolname FROM pg_roles \
                  WHERE rolname NOT LIKE 'v-%' AND rolname NOT LIKE 'pg\\_%' ORDER BY 1";
    assert_eq!(world.postgres.query(others), "bulkhead\ncertified\nreaders");
    assert_eq!(world.postgres.query("SELECT count(*) FROM pg_roles WHERE rolsuper"), "1");
    assert_eq!(world.postgres.query("SELECT count(*) FROM orders"), "2");
}

/// For every hostile display name, creates a credential, logs in, renews and revokes.
#[track_caller]
fn live_through(world: &World) {
    for name in HOSTILE.iter().copied().chain([&*"n".repeat(200)]) {
        let body = json!({ "policies": ["root"], "display_name": name });
        let answer = world.root.write("auth/token/create", &body).expect(200);
        let caller = world.bulkhead.client(answer.body["auth"]["client_token"].as_str());
        let credential = world.credential_for(&caller, "reader");
        let read = world.postgres.login(
            &credential.username,
            &credential.password,
            "SELECT count(*) FROM orders",
        );
        assert_eq!(read.as_deref(), Ok("2"), "{name:?}");
        assert_nothing_else(world);
        world.root.write("sys/leases/renew", &json!({ "lease_id": credential.lease })).expect(200);
        world.revoke(&credential.lease);
        assert_eq!(world.postgres.users(), Vec::<String>::new(), "{name:?}");
    }
    assert_nothing_else(world);
}

pub(super) fn the_default_names_of_users_are_harmless() {
    live_through(&World::new());
}

pub(super) fn names_from_an_operators_template_are_harmless() {
    let world = World::new();
    let template = "v-{{.DisplayName | truncate 30}}-{{random 8}}-'\";\\";
    let written =
        world.root.write("database/config/demo", &json!({ "username_template": template }));
    assert!(written.status < 300, "{written:?}");
    live_through(&world);
}

pub(super) fn names_stay_harmless_in_every_kind_of_quote() {
    let world = World::new();
    let statements = json!([
        CREATION,
        "DO $body$ BEGIN EXECUTE 'COMMENT ON ROLE \"{{name}}\" IS ''of {{name}}'''; END $body$",
        "GRANT readers TO \"{{username}}\" -- {{name}}",
    ]);
    world.role("reader", json!({ "creation_statements": statements, "default_ttl": "1h" }));
    live_through(&world);
}

pub(super) fn hostile_names_of_connections_and_roles_are_refused() {
    let world = World::new();
    for name in
        ["a%22b", "a%27b", "a;drop", "a%5C", "%F0%9F%97%9D", "a%0Ab", "..", "-a", "a-", ".a"]
    {
        let written =
            world.root.write(&format!("database/roles/{name}"), &json!({ "db_name": "demo" }));
        assert!([400, 404].contains(&written.status), "{name}: {written:?}");
        let connection = with(world.connection(), json!({}));
        let written = world.root.write(&format!("database/config/{name}"), &connection);
        assert!([400, 404].contains(&written.status), "{name}: {written:?}");
    }
    assert_nothing_else(&world);
}
