//! Callers without permission: no token, a wrong token, a token with another policy. A refusal
//! reveals nothing else.

use crate::world::World;
use bulkhead_tests::Client;
use serde_json::json;

/// Returns status and errors of a request, without the path in the text.
fn learned(client: &Client, method: &str, path: &str) -> (u16, String) {
    let answer = client.send(method, path, if method == "POST" { b"{}" } else { b"" });
    (answer.status, answer.errors().replace(path, "<path>"))
}

#[test]
fn refusals_hide_existence_of_objects() {
    let world = World::new();
    let weak = world.weak();
    let pairs = [
        ("GET", "database/config/demo", "database/config/gone"),
        ("POST", "database/config/demo", "database/config/gone"),
        ("DELETE", "database/config/demo", "database/config/gone"),
        ("GET", "database/roles/reader", "database/roles/nobody"),
        ("GET", "database/creds/reader", "database/creds/nobody"),
        ("POST", "database/reset/demo", "database/reset/gone"),
        ("GET", "database/config/demo", "nothing/is/mounted/here"),
        ("GET", "sys/policies/acl/weak", "sys/policies/acl/none"),
    ];
    for (method, there, absent) in pairs {
        let (seen, unseen) = (learned(&weak, method, there), learned(&weak, method, absent));
        assert_eq!(seen.0, 403, "{method} {there}: {seen:?}");
        let generic = |(status, text): (u16, String)| (status, text.replace("create", "update"));
        assert_eq!(
            generic(seen),
            generic(unseen),
            "{method} {there} and {absent} must look the same"
        );
    }
}

#[test]
fn lease_id_alone_gives_no_right_to_lease() {
    let world = World::new();
    let credential = world.credential("reader");
    let weak = world.weak();
    for path in
        ["sys/leases/lookup", "sys/leases/renew", "sys/leases/revoke", "sys/renew", "sys/revoke"]
    {
        weak.write(path, &json!({ "lease_id": credential.lease })).expect(403);
    }
    assert!(world.postgres.has_user(&credential.username));
}

#[test]
fn an_unknown_token_is_refused() {
    let world = World::new();
    for token in ["bhs.AAAAAAAAAAAAAAAAAAAAAAAA", "x", "bhs.", "../../etc", &"long".repeat(1000)] {
        let stranger = world.bulkhead.client(Some(token));
        let refused = stranger.read("database/creds/reader");
        assert!([400, 403].contains(&refused.status), "{refused:?}");
        assert!(
            !refused.errors().contains(token) || token == "x",
            "a refusal does not repeat a token: {refused:?}"
        );
    }
    assert_eq!(world.postgres.users(), Vec::<String>::new());
}

#[test]
fn policy_grants_only_named_paths() {
    let world = World::new();
    world.role("writer", json!({ "default_ttl": "1h" }));
    let client = world
        .client_with("one-role", r#"path "database/creds/reader" { capabilities = ["read"] }"#);
    world.credential_for(&client, "reader");
    for path in
        ["database/creds/writer", "database/roles/reader", "database/config/demo", "sys/mounts"]
    {
        client.read(path).expect(403);
    }
    client.list("database/roles").expect(403);
    assert_eq!(world.postgres.users().len(), 1);
}

#[test]
fn create_and_update_are_separate_capabilities() {
    let world = World::new();
    let creator =
        world.client_with("creator", r#"path "database/roles/*" { capabilities = ["create"] }"#);
    let updater =
        world.client_with("updater", r#"path "database/roles/*" { capabilities = ["update"] }"#);
    let role = json!({ "db_name": "demo", "creation_statements": "CREATE ROLE \"{{name}}\"" });
    updater.write("database/roles/fresh", &role).expect(403);
    creator.write("database/roles/fresh", &role).expect(204);
    creator.write("database/roles/fresh", &role).expect(403);
    updater.write("database/roles/fresh", &role).expect(204);
}

#[test]
fn denial_in_one_policy_outweighs_grant_in_another() {
    let world = World::new();
    let rules = r#"path "database/creds/*" { capabilities = ["read"] }
                   path "database/creds/reader" { capabilities = ["deny"] }"#;
    let client = world.client_with("mostly", rules);
    client.read("database/creds/reader").expect(403);
    assert_eq!(world.postgres.users(), Vec::<String>::new());
}

#[test]
fn a_role_outside_allowed_roles_gets_no_credential() {
    let world = World::new();
    for allowed in [json!([]), json!(["writer", "read"]), json!("READER"), json!("reader?")] {
        let written =
            world.root.write("database/config/demo", &json!({ "allowed_roles": allowed }));
        assert!(written.status < 300, "{written:?}");
        let refused = world.root.read("database/creds/reader").expect(403);
        assert!(refused.errors().contains("permission denied"), "{}", refused.errors());
        assert!(refused.errors().contains("reader"), "{}", refused.errors());
    }
    for allowed in [json!(["reader"]), json!("write*,rea*er"), json!(["*"])] {
        let written =
            world.root.write("database/config/demo", &json!({ "allowed_roles": allowed }));
        assert!(written.status < 300, "{written:?}");
        world.credential("reader");
    }
}

#[test]
fn role_removed_from_allowed_roles_renews_and_revokes() {
    let world = World::new();
    let credential = world.credential("reader");
    assert!(world.root.write("database/config/demo", &json!({ "allowed_roles": [] })).status < 300);
    world.root.write("sys/leases/renew", &json!({ "lease_id": credential.lease })).expect(200);
    world.revoke(&credential.lease);
    assert!(!world.postgres.has_user(&credential.username));
}
