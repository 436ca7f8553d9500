//! The plugin's description for its registration.

use crate::codes::CODES;
use bulkhead_sdk::connection::PluginFacts;
use bulkhead_sdk::wire::description::{DatabaseDescription, Field, FieldKind};

/// Other names that clients use. The names in `settings::LEGACY` have shorter user names.
const ALIASES: [&str; 4] = [
    "mysql",
    "mysql-aurora-database-plugin",
    "mysql-rds-database-plugin",
    "mysql-legacy-database-plugin",
];

/// Sentences for warnings that only this plugin gives or that it words differently.
const WARNINGS: [(&str, &str); 5] = [
    (
        "tls-off",
        "tls=false sends statements with new passwords over the network in clear; use tls=true",
    ),
    (
        "lacks-create-user",
        "the user of connection {connection} has no CREATE USER and can neither make nor remove \
         users; grant CREATE USER on *.*",
    ),
    (
        "lacks-mysql-user",
        "the user of connection {connection} may not read mysql.user, so the plugin creates users \
         only by statements with a CREATE USER of one account each, does not find a renamed \
         account, and cannot end leases of earlier releases; grant SELECT on mysql.user",
    ),
    (
        "lacks-process",
        "the user of connection {connection} has no PROCESS and cannot see the sessions of users, \
         so leases stay; grant PROCESS on *.*",
    ),
    (
        "lacks-connection-admin",
        "the user of connection {connection} may not end the sessions of users, so the leases of \
         users with open sessions stay; grant CONNECTION ADMIN (SUPER before MariaDB 10.5) on *.*",
    ),
];

/// Returns the description.
pub(crate) fn description() -> DatabaseDescription {
    PluginFacts {
        name: "mysql-database-plugin",
        aliases: &ALIASES,
        version: env!("CARGO_PKG_VERSION"),
        about: "Users of a MySQL or MariaDB server.",
        credential_types: &["password", "client_certificate"],
        connection_url: "The database's address: \
                         {{username}}:{{password}}@tcp(host:3306)/database, or \
                         mysql://host:3306/database.",
        settings: settings(),
        codes: CODES,
        warnings: &WARNINGS,
    }
    .describe()
}

fn settings() -> Vec<Field> {
    use FieldKind::{Bool, String as Words};
    let field = |name: &str, kind, about: &str| Field::new(name, kind, about);
    let pair = "The client certificate and the private key, PEM.";
    let name = "The required name in the server's certificate; the host's unless given.";
    let own = "Users change their own passwords; the connection has no user.";
    vec![
        field("tls_certificate_key", Words, pair).secret(),
        field("tls_server_name", Words, name),
        field("tls_skip_verify", Bool, "Take any certificate of the server."),
        field("self_managed", Bool, own),
    ]
}
