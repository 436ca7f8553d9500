//! The stage on which the tests of every noun begin: a bed with the connection `orders` and the
//! role `reader`.
use crate::Database;
use bulkhead_sdk::testbed::{Reply, TestBed};
use serde_json::{Value, json};

/// The engine on a test bed with nothing in it.
pub(crate) fn empty() -> TestBed<Database> {
    TestBed::new().unwrap()
}

/// What a test writes to `config/orders` unless it is about something else.
pub(crate) fn orders() -> Value {
    json!({
        "plugin_name": "test-database-plugin",
        "connection_url": "postgres://{{username}}:{{password}}@db:5432/orders",
        "username": "root",
        "password": "hunter2-of-root",
        "allowed_roles": "reader, writer-*",
    })
}

/// What a test writes to `roles/reader` unless it is about something else.
pub(crate) fn reader() -> Value {
    json!({
        "db_name": "orders",
        "creation_statements": ["CREATE {{name}}", "GRANT reading TO {{name}}"],
        "revocation_statements": "DROP {{name}}",
        "default_ttl": "10m",
        "max_ttl": "1h",
    })
}

/// A bed with the connection and the role, and with its steps so far forgotten.
pub(crate) fn ready() -> TestBed<Database> {
    let bed = empty();
    bed.write("config/orders", &orders()).unwrap();
    bed.write("roles/reader", &reader()).unwrap();
    bed.host.steps();
    bed
}

/// A new user of the role `reader`, and the tag of its lease.
pub(crate) fn issued(bed: &TestBed<Database>) -> (Reply, String) {
    let reply = bed.read("creds/reader").unwrap();
    let tag = reply.lease.clone().unwrap();
    bed.host.steps();
    (reply, tag)
}

/// `value` with `changes` over it.
pub(crate) fn with(mut value: Value, changes: Value) -> Value {
    for (name, change) in changes.as_object().unwrap() {
        value[name] = change.clone();
    }
    value
}
