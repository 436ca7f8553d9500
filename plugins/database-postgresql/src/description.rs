//! The plugin's description for its registration.

use crate::codes::CODES;
use bulkhead_sdk::connection::PluginFacts;
use bulkhead_sdk::wire::description::{DatabaseDescription, Field, FieldKind};

/// Sentences for this plugin's own warnings, and for warnings that this plugin words differently.
const WARNINGS: [(&str, &str); 4] = [
    (
        "lacks-createrole",
        "the user of connection {connection} has no CREATEROLE and can neither make, change nor \
         remove users; give the user CREATEROLE",
    ),
    (
        "lacks-identity",
        "the user of connection {connection} may not run pg_catalog.pg_control_system() and \
         pg_control_checkpoint(): a user renamed during the lease is not found, and a user of the \
         same name from somebody else is removed; grant EXECUTE",
    ),
    (
        "tls-off",
        "sslmode=disable sends credentials over the network in clear; use sslmode=verify-full",
    ),
    (
        "scram-recommended",
        "new passwords are sent to the database in clear, and may be logged there; set \
         password_authentication to scram-sha-256",
    ),
];

/// Returns the description.
pub(crate) fn description() -> DatabaseDescription {
    PluginFacts {
        name: "postgresql-database-plugin",
        aliases: &["postgresql"],
        version: env!("CARGO_PKG_VERSION"),
        about: "Users of PostgreSQL, or of a database with the same protocol and SQL.",
        credential_types: &["password", "client_certificate"],
        connection_url: "The database's address: \
                         postgresql://{{username}}:{{password}}@host:5432/database, or host=… \
                         keywords. With tls_ca, the default sslmode is verify-full.",
        settings: settings(),
        codes: CODES,
        warnings: &WARNINGS,
    }
    .describe()
}

fn settings() -> Vec<Field> {
    use FieldKind::{Bool, String as Words};
    let field = |name: &str, kind, about: &str| Field::new(name, kind, about);
    let own = "Users change their own passwords; the connection has no user.";
    vec![
        field("tls_certificate", Words, "The certificate to show to the server, PEM."),
        field("private_key", Words, "The key of tls_certificate, PEM.").secret(),
        field("password_authentication", Words, "password or scram-sha-256."),
        field("self_managed", Bool, own),
    ]
}
