//! Fixtures for tests: a test bed with the connection `orders` and the role `reader`.
use crate::Database;
use bulkhead_sdk::database_plugin::{Credential, NewUser};
use bulkhead_sdk::host::DatabaseConnection;
use bulkhead_sdk::testbed::{Reply, TestBed};
use bulkhead_sdk::{Failure, FailureKind, Host};
use serde_json::{Map, Value, json};

/// Returns an empty test bed.
pub(crate) fn empty() -> TestBed<Database> {
    TestBed::new().unwrap()
}

/// Returns the default body of a write to `config/orders`.
pub(crate) fn orders() -> Value {
    json!({
        "plugin_name": "test-database-plugin",
        "connection_url": "postgres://{{username}}:{{password}}@db:5432/orders",
        "username": "root",
        "password": "hunter2-of-root",
        "allowed_roles": "reader, writer-*",
    })
}

/// Returns the default body of a write to `roles/reader`.
pub(crate) fn reader() -> Value {
    json!({
        "db_name": "orders",
        "creation_statements": ["CREATE {{name}}", "GRANT reading TO {{name}}"],
        "revocation_statements": "DROP {{name}}",
        "default_ttl": "10m",
        "max_ttl": "1h",
    })
}

/// Returns a test bed with the connection and the role. The recorded steps are cleared.
pub(crate) fn ready() -> TestBed<Database> {
    let bed = empty();
    bed.write("config/orders", &orders()).unwrap();
    bed.write("roles/reader", &reader()).unwrap();
    bed.host.steps();
    bed
}

/// Issues a user of the role `reader`. Returns the reply and the tag of the lease.
pub(crate) fn issued(bed: &TestBed<Database>) -> (Reply, String) {
    let reply = bed.read("creds/reader").unwrap();
    let tag = reply.lease.clone().unwrap();
    bed.host.steps();
    (reply, tag)
}

/// Returns `value` with the fields of `changes` replaced.
pub(crate) fn with(mut value: Value, changes: Value) -> Value {
    for (name, change) in changes.as_object().unwrap() {
        value[name] = change.clone();
    }
    value
}

/// Creates an account that the engine does not know yet, with the password `first`.
pub(crate) fn account(bed: &TestBed<Database>, connection: &str, username: &str) {
    account_with(bed, connection, (username, "first"));
}

/// Creates an account with the given password.
pub(crate) fn account_with(
    bed: &TestBed<Database>,
    connection: &str,
    (username, password): (&str, &str),
) {
    let host: &dyn Host = &bed.host;
    let database_connection = DatabaseConnection {
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
    host.databases().create_accounts(&database_connection, &user, &[], &[]).unwrap();
    bed.host.steps();
}

/// Returns the default body of a write to `static-roles/app`.
pub(crate) fn app() -> Value {
    json!({ "db_name": "orders", "username": "app", "rotation_period": "1h" })
}

/// Returns a test bed with the connection and the account `app`. Any static role may use the
/// connection.
pub(crate) fn with_account() -> TestBed<Database> {
    let bed = ready();
    bed.write("config/orders", &json!({"allowed_roles": "*"})).unwrap();
    account(&bed, "orders", "app");
    bed
}

/// Returns a test bed with the account and the static role `app`. The recorded steps are cleared.
pub(crate) fn with_static_role() -> TestBed<Database> {
    let bed = with_account();
    bed.write("static-roles/app", &app()).unwrap();
    bed.host.steps();
    bed
}

/// Returns the password shown by `static-creds`, and `true` if the account logs in with that
/// password.
pub(crate) fn shown(bed: &TestBed<Database>, role: &str) -> (String, bool) {
    let data = bed.read(&format!("static-creds/{role}")).unwrap().data;
    let password = data["password"].as_str().unwrap().to_owned();
    let user = bed.host.user("orders", data["username"].as_str().unwrap()).unwrap();
    let works = user.credential == Credential::Password(password.clone());
    (password, works)
}

/// Returns the error of an unreachable database.
pub(crate) fn unreachable() -> Failure {
    Failure::new(FailureKind::Unreachable, "no answer from db:5432")
}
