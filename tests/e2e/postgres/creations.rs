//! Creation statements that make another user, adopt a user, or make none: nothing is kept, and the
//! answer says why.

use crate::world::World;
use serde_json::json;

/// A world whose user names need no quotes.
fn world() -> World {
    let world = World::new();
    let unquoted = json!({ "username_template": "Bulk{{random 20}}" });
    world.root.write("database/config/demo", &unquoted).expect_success();
    world
}

/// Reads a credential of a role with these creation statements. Returns the refusal.
#[track_caller]
fn refusal(world: &World, statements: &str) -> String {
    world.role("odd", json!({ "creation_statements": [statements] }));
    let users = world.postgres.users();
    let refused = world.root.read("database/creds/odd").expect(400).errors();
    assert_eq!(world.postgres.users(), users, "{refused}");
    let leases = world.root.list("sys/leases/lookup/database/creds/odd");
    leases.expect(404);
    refused
}

#[test]
fn creation_under_folded_name_reports_name() {
    let refused = refusal(&world(), "CREATE ROLE {{name}} LOGIN PASSWORD '{{password}}'");
    for said in ["user Bulk", "but user bulk", "\"{{name}}\" in double quotes"] {
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn creation_of_other_or_no_user_is_undone() {
    let world = world();
    for statements in [
        "CREATE ROLE \"app_{{name}}\" LOGIN PASSWORD '{{password}}'",
        "SELECT '{{name}}', '{{password}}'",
        "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}'; DROP ROLE \"{{name}}\"",
    ] {
        let refused = refusal(&world, statements);
        assert!(refused.contains("there was no user Bulk"), "{statements}: {refused}");
    }
}

#[test]
fn creation_never_adopts_foreign_user() {
    let world = World::new();
    let fixed = json!({ "username_template": "shared-{{.RoleName}}" });
    world.root.write("database/config/demo", &fixed).expect_success();
    world.postgres.query("CREATE ROLE \"shared-odd\" LOGIN PASSWORD 'of-somebody-else'");
    for statements in [
        "GRANT readers TO \"{{name}}\"",
        "DROP ROLE \"{{name}}\"; CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}'",
        "DO $$ BEGIN CREATE ROLE \"{{name}}\"; EXCEPTION WHEN duplicate_object THEN END $$; ALTER \
         ROLE \"{{name}}\" PASSWORD '{{password}}'",
    ] {
        let refused = refusal(&world, statements);
        assert!(refused.contains("user shared-odd exists already"), "{statements}: {refused}");
    }
    let still = world.postgres.login("shared-odd", "of-somebody-else", "SELECT 1");
    assert!(still.is_ok(), "{still:?}");
}
