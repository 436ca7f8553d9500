//! The stage on which the tests of every noun begin: a bed with the connection `orders` and the
//! role `reader`.
use crate::Database;
use bulkhead_sdk::database_plugin::{Credential, NewUser};
use bulkhead_sdk::host::Connection;
use bulkhead_sdk::testbed::{Reply, TestBed};
use bulkhead_sdk::{Failure, Host, Kind};
use serde_json::{Map, Value, json};

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

/// An account that is there before the engine knows of it, with the password `first`.
pub(crate) fn account(bed: &TestBed<Database>, connection: &str, username: &str) {
    account_with(bed, connection, (username, "first"));
}

/// An account that logs in with that password.
pub(crate) fn account_with(
    bed: &TestBed<Database>,
    connection: &str,
    (username, password): (&str, &str),
) {
    let host: &dyn Host = &bed.host;
    let known = Connection {
        plugin: "test".to_owned(),
        version: String::new(),
        name: connection.to_owned(),
        generation: 1,
        settings: Map::new(),
    };
    let user = NewUser {
        username: username.to_owned(),
        credential: Credential::Password(password.to_owned()),
        expires: 0,
    };
    host.databases().create_user(&known, &user, &[], &[]).unwrap();
    bed.host.steps();
}

/// What a test writes to `static-roles/app` unless it is about something else.
pub(crate) fn app() -> Value {
    json!({ "db_name": "orders", "username": "app", "rotation_period": "1h" })
}

/// A bed with the connection and the account `app`, which any static role may own.
pub(crate) fn with_account() -> TestBed<Database> {
    let bed = ready();
    bed.write("config/orders", &json!({"allowed_roles": "*"})).unwrap();
    account(&bed, "orders", "app");
    bed
}

/// The same with the static role `app`, and the steps of its creation forgotten.
pub(crate) fn with_static_role() -> TestBed<Database> {
    let bed = with_account();
    bed.write("static-roles/app", &app()).unwrap();
    bed.host.steps();
    bed
}

/// The password that `static-creds` shows, and whether the account logs in with it.
pub(crate) fn shown(bed: &TestBed<Database>, role: &str) -> (String, bool) {
    let data = bed.read(&format!("static-creds/{role}")).unwrap().data;
    let password = data["password"].as_str().unwrap().to_owned();
    let user = bed.host.user("orders", data["username"].as_str().unwrap()).unwrap();
    let works = user.credential == Credential::Password(password.clone());
    (password, works)
}

/// What a database that is away is to a caller.
pub(crate) fn unreachable() -> Failure {
    Failure::new(Kind::Unreachable, "no answer from db:5432")
}
