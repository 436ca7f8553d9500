//! Causes of a refused login: each has its own text, and none rests the lane of a server that
//! answers.

use super::{other_authority, url};
use crate::world::{World, with};
use serde_json::{Value, json};

const PASSWORD: &str = "Kp4-Zt8-Vn2-Qs6";

/// The fields of a connection as `keeper`.
fn keeper(world: &World) -> Value {
    with(world.connection(), json!({ "username": "keeper", "password": PASSWORD }))
}

#[test]
fn every_refused_login_cause_has_own_text() {
    let world = World::empty();
    for statement in [
        &format!("CREATE ROLE keeper LOGIN CREATEROLE PASSWORD '{PASSWORD}'"),
        "CREATE DATABASE shut",
        "REVOKE CONNECT ON DATABASE shut FROM PUBLIC",
        "CREATE DATABASE closed ALLOW_CONNECTIONS false",
    ] {
        world.postgres.query(statement);
    }
    let at = |database: &str| {
        let port = world.postgres.port;
        let user = "{{username}}:{{password}}";
        json!({ "connection_url": format!("postgresql://{user}@127.0.0.1:{port}/{database}") })
    };
    let refused = |fields: Value, status: u16, said: &[&str]| {
        let body = with(keeper(&world), fields);
        let refused = world.root.write("database/config/demo", &body).expect(status).errors();
        for said in said {
            assert!(refused.contains(said), "{refused}");
        }
    };
    refused(json!({ "password": "wrong" }), 400, &["28P01", "check username and password"]);
    refused(at("shut"), 400, &["may not connect to database shut", "42501", "grant CONNECT"]);
    refused(at("closed"), 400, &["database closed", "accepts no connections", "55000"]);
    refused(at("missing"), 400, &["database missing", "does not exist", "3D000"]);
    let untrusted = json!({
        "connection_url": url(&world, "sslmode=verify-full"), "tls_ca": other_authority(),
    });
    refused(untrusted, 503, &["but TLS failed:", "certificate", "check sslmode, tls_ca"]);

    world.postgres.query("ALTER ROLE keeper CONNECTION LIMIT 0");
    refused(json!({}), 503, &["no free session for user keeper", "53300", "raise the limit"]);
    world.postgres.query("ALTER ROLE keeper CONNECTION LIMIT -1 NOLOGIN");
    refused(json!({}), 400, &["does not admit user keeper", "28000", "NOLOGIN"]);
    world.postgres.query("ALTER ROLE keeper LOGIN VALID UNTIL '2001-01-01'");
    refused(json!({}), 400, &["28P01", "expiry at the database (VALID UNTIL)"]);
    world.postgres.query("ALTER ROLE keeper VALID UNTIL 'infinity'");
    world.root.write("database/config/demo", &keeper(&world)).expect_success();
}

#[test]
fn server_without_free_session_is_retried_at_once() {
    let world = World::empty();
    world.postgres.query(&format!("CREATE ROLE keeper LOGIN CREATEROLE PASSWORD '{PASSWORD}'"));
    world.root.write("database/config/demo", &keeper(&world)).expect_success();
    world.role("reader", json!({ "default_ttl": "1h" }));
    let credential = world.credential("reader");
    world.postgres.query("ALTER ROLE keeper CONNECTION LIMIT 0");
    world.root.write("database/reset/demo", &json!({})).expect(503);
    let lease = json!({ "lease_id": credential.lease, "sync": true });
    let refused = world.root.write("sys/leases/revoke", &lease).expect(503).errors();
    assert!(refused.contains("no free session"), "{refused}");
    world.postgres.query("ALTER ROLE keeper CONNECTION LIMIT -1");
    world.root.write("sys/leases/revoke", &lease).expect(204);
    assert!(!world.postgres.has_user(&credential.username));
}
