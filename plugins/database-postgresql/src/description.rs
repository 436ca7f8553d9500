//! The plugin's description for its registration.

use crate::codes::CODES;
use bulkhead_sdk::connection::PluginFacts;
use bulkhead_sdk::wire::description::{DatabaseDescription, Field, FieldKind};

/// Sentences for warnings that only this plugin gives or that it words differently.
const WARNINGS: [(&str, &str); 4] = [
    (
        "lacks-createrole",
        "the user of connection {connection} has no CREATEROLE: it can neither make users, nor \
         change or remove them; give it CREATEROLE",
    ),
    (
        "lacks-identity",
        "the user of connection {connection} may not run pg_catalog.pg_control_system() and \
         pg_control_checkpoint(): a user that is renamed while it is lent is not found, and one of \
         the same name that somebody else made is removed; grant it EXECUTE",
    ),
    (
        "tls-off",
        "sslmode=disable sends credentials over the network in clear; use sslmode=verify-full",
    ),
    (
        "scram-recommended",
        "new passwords are sent to the database in clear, which may log them; set \
         password_authentication to scram-sha-256",
    ),
];

/// Returns the description.
pub(crate) fn description() -> DatabaseDescription {
    PluginFacts {
        name: "postgresql-database-plugin",
        aliases: &["postgresql"],
        version: env!("CARGO_PKG_VERSION"),
        about: "Users of a PostgreSQL database, or of one that speaks its protocol and SQL.",
        credential_types: &["password", "client_certificate"],
        connection_url: "Where the database is: \
                         postgresql://{{username}}:{{password}}@host:5432/database, or host=… \
                         keywords. With tls_ca its sslmode is verify-full unless it is given.",
        settings: settings(),
        codes: CODES,
        warnings: &WARNINGS,
    }
    .describe()
}

fn settings() -> Vec<Field> {
    use FieldKind::{Bool, String as Words};
    let field = |name: &str, kind, about: &str| Field::new(name, kind, about);
    let own = "Users change their own passwords; the connection has no user of its own.";
    vec![
        field("tls_certificate", Words, "The certificate to show to the server, PEM."),
        field("private_key", Words, "The key of tls_certificate, PEM.").secret(),
        field("password_authentication", Words, "password or scram-sha-256."),
        field("self_managed", Bool, own),
    ]
}
