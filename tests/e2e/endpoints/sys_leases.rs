//! `sys/leases` for several leases. The rows about a single lease are with the engine that issues
//! it.

use super::{EndpointCall, row};
use crate::world::CREATION;
use serde_json::{Value, json};

pub(super) fn rows(connection: &Value) -> Vec<EndpointCall> {
    let role = json!({ "db_name": "orders", "creation_statements": CREATION, "default_ttl": "1h" });
    let creds = || row("database-creds-name.read", "database/creds/reader", Value::Null, 200);
    vec![
        row("database-config-name.write", "database/config/orders", connection.clone(), 200),
        row("database-roles-name.write", "database/roles/reader", role, 204),
        creds(),
        row("sys-leases-lookup.list", "sys/leases/lookup", Value::Null, 200),
        row(
            "sys-leases-lookup-prefix.list",
            "sys/leases/lookup/database/creds/reader",
            Value::Null,
            200,
        ),
        row("sys-leases-count.read", "sys/leases/count?type=irrevocable", Value::Null, 200),
        row("sys-leases.read", "sys/leases?type=irrevocable", Value::Null, 200),
        row("sys-leases-tidy.write", "sys/leases/tidy", json!({}), 202),
        row(
            "sys-leases-revoke-prefix-prefix.write",
            "sys/leases/revoke-prefix/database/creds/reader",
            json!({ "prefix": "database/creds/reader" }),
            204,
        ),
        creds(),
        row(
            "sys-revoke-prefix-prefix.write",
            "sys/revoke-prefix/database/creds/reader",
            json!({}),
            204,
        ),
        creds(),
        row(
            "sys-leases-revoke-force-prefix.write",
            "sys/leases/revoke-force/database/creds/reader",
            json!({ "sync": true }),
            204,
        ),
        creds(),
        row(
            "sys-revoke-force-prefix.write",
            "sys/revoke-force/database/creds/reader",
            json!({}),
            204,
        ),
    ]
}
