//! The database engine, and the leases of its credentials.

use super::{EndpointCall, row};
use crate::world::{CREATION, with};
use serde_json::{Value, json};

pub(super) fn rows(connection: &Value) -> Vec<EndpointCall> {
    let role = json!({
        "db_name": "orders", "creation_statements": CREATION, "default_ttl": "1h",
        "max_ttl": "24h",
    });
    let account = json!({ "db_name": "orders", "username": "app", "rotation_period": "24h" });
    // After the rotation only the engine knows the password, and refuses to remove the only copy.
    // Lists of endpoints are made without a connection.
    let forced_config = match connection {
        Value::Null => Value::Null,
        some => with(some.clone(), json!({ "verify_connection": false, "force": true })),
    };
    vec![
        row("database-config-name.write", "database/config/orders", connection.clone(), 200),
        row("database-config-name.read", "database/config/orders", Value::Null, 200),
        row("database-config.list", "database/config", Value::Null, 200),
        row("database-rotate-root-name.write", "database/rotate-root/orders", json!({}), 204),
        row(
            "database-reload-plugin_name.write",
            "database/reload/postgresql-database-plugin",
            json!({}),
            200,
        ),
        row("database-reset-name.write", "database/reset/orders", json!({}), 204),
        row("database-roles-name.write", "database/roles/reader", role, 204),
        row("database-roles-name.read", "database/roles/reader", Value::Null, 200),
        row("database-roles.list", "database/roles", Value::Null, 200),
        row("database-creds-name.read", "database/creds/reader", Value::Null, 200),
        row("sys-leases-lookup.write", "sys/leases/lookup", json!({ "lease_id": "{lease}" }), 200),
        row(
            "sys-leases-renew.write",
            "sys/leases/renew",
            json!({ "lease_id": "{lease}", "increment": 7200 }),
            200,
        ),
        row("sys-renew.write", "sys/renew", json!({ "lease_id": "{lease}" }), 200),
        row("sys-leases-renew-id.write", "sys/leases/renew/{lease}", json!({}), 200),
        row("sys-renew-id.write", "sys/renew/{lease}", json!({ "increment": "3h" }), 200),
        row("sys-leases-revoke.write", "sys/leases/revoke", json!({ "lease_id": "{lease}" }), 204),
        row("sys-revoke.write", "sys/revoke", json!({ "lease_id": "{lease}" }), 204),
        row(
            "sys-leases-revoke-id.write",
            "sys/leases/revoke/{lease}",
            json!({ "sync": true }),
            204,
        ),
        row("sys-revoke-id.write", "sys/revoke/{lease}", json!({}), 204),
        row("database-static-roles-name.write", "database/static-roles/app", account, 204),
        row("database-static-roles-name.read", "database/static-roles/app", Value::Null, 200),
        row("database-static-roles.list", "database/static-roles", Value::Null, 200),
        row("database-static-creds-name.read", "database/static-creds/app", Value::Null, 200),
        row("database-rotate-role-name.write", "database/rotate-role/app", json!({}), 204),
        row("database-static-roles-name.delete", "database/static-roles/app", Value::Null, 200),
        row("database-roles-name.delete", "database/roles/reader", Value::Null, 204),
        row("database-config-name.write", "database/config/orders", forced_config, 200),
        row("database-config-name.delete", "database/config/orders", Value::Null, 204),
    ]
}
