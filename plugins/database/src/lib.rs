//! The database secrets engine: connections to databases, roles, users that live as long as their
//! lease, and static roles, which rotate the credentials of existing accounts.
//!
//! Each noun of the URL has a file; the other files contain shared rules. The engine speaks no SQL
//! and knows no database: the connection's plugin, reached through the host, decides everything
//! that differs between databases.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! connection → figures → redaction → unfinished → version → login_place → placement → reload
//! → reset → target → credential → statements → static_role → kept_password → static_account
//! → root_rotation → config → static_creation → static_creds → rotate_root → static_rotation
//! → roles → rotate_role → lifetime → static_roles → lease → creds
//! ```

mod config;
mod connection;
mod credential;
mod creds;
mod figures;
#[cfg(test)]
mod fixture;
mod kept_password;
mod lease;
mod lifetime;
mod login_place;
mod placement;
mod redaction;
mod reload;
mod reset;
mod roles;
mod root_rotation;
mod rotate_role;
mod rotate_root;
mod statements;
mod static_account;
mod static_creation;
mod static_creds;
mod static_role;
mod static_roles;
mod static_rotation;
mod target;
mod unfinished;
mod version;

use crate::redaction::SECRET_SETTINGS;
use bulkhead_sdk::intent;
use bulkhead_sdk::table::{Field, Row, delete, list, read, write};
use bulkhead_sdk::{
    Context, Failure, Host, Lease, Metric, MountedPlugin, Renewal, RevocationReason, SecretsEngine,
};

/// The database secrets engine.
pub struct Database;

const CONNECTION: &[Field] = &[Field::name_of("name", "the connection's name")];
const STATIC_ROLE: &[Field] = &[Field::name_of("name", "the static role's name")];
const ROLE: &[Field] = &[Field::name_of("name", "the role's name")];

impl MountedPlugin for Database {
    const NAME: &'static str = "database";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Creates database users for the lifetime of a lease.";
    const ASKS: &'static [&'static str] =
        &["database", "crypto:generate-key", "crypto:issue-certificate"];
    const METRICS: &'static [Metric] = figures::METRICS;
    const TABLE: &'static [Row] = &[
        read("config/{name}", config::read)
            .about("Shows a connection without secrets.")
            .fields(&[CONNECTION]),
        write("config/{name}", config::write)
            .about("Creates or changes a connection; other fields go to the database plugin.")
            .fields(&[CONNECTION, config::FIELDS, config::ROTATION_FIELDS, SECRET_SETTINGS])
            .existence("config/{name}")
            .open_fields()
            .nested(),
        delete("config/{name}", config::delete)
            .about("Removes a connection, unless only the engine knows the password.")
            .fields(&[CONNECTION, config::REMOVAL_FIELDS]),
        list("config", "config/").about("Lists the names of connections."),
        write("rotate-root/{name}", rotate_root::write)
            .about(
                "Changes the password of a connection's own user; no read ever shows the password.",
            )
            .fields(&[CONNECTION])
            .nested(),
        write("reload/{plugin_name}", reload::write)
            .about("Resets every connection of a database plugin.")
            .fields(&[reload::FIELDS])
            .nested(),
        write("reset/{name}", reset::write)
            .about("Closes a connection's sessions and reconnects with the stored settings.")
            .fields(&[CONNECTION])
            .nested(),
        read("roles/{name}", roles::read).about("Shows a role.").fields(&[ROLE]),
        write("roles/{name}", roles::write)
            .about("Creates or changes a role.")
            .fields(&[ROLE, roles::FIELDS, credential::FIELDS])
            .existence("role/{name}")
            .nested(),
        delete("roles/{name}", roles::delete)
            .about("Removes a role; the role's leases continue.")
            .fields(&[ROLE]),
        list("roles", "role/").about("Lists the names of roles."),
        read("creds/{name}", creds::read)
            .about("Creates a user of a role, and returns name and password.")
            .fields(&[ROLE])
            .leases()
            .nested(),
        read("static-roles/{name}", static_roles::read)
            .about("Shows a static role.")
            .fields(&[STATIC_ROLE]),
        write("static-roles/{name}", static_roles::write)
            .about("Creates or changes a static role; the creation changes the account's password.")
            .fields(&[
                STATIC_ROLE,
                static_roles::FIELDS,
                static_roles::ROTATION_FIELDS,
                credential::FIELDS,
            ])
            .existence("static-role/{name}")
            .nested(),
        delete("static-roles/{name}", static_roles::delete)
            .about("Removes a static role; the account is unchanged.")
            .fields(&[STATIC_ROLE]),
        list("static-roles", "static-role/").about("Lists the names of static roles."),
        read("static-creds/{name}", static_creds::read)
            .about("Shows the current credential of a static role's account.")
            .fields(&[STATIC_ROLE]),
        write("rotate-role/{name}", rotate_role::write)
            .about("Changes the credential of a static role now.")
            .fields(&[STATIC_ROLE])
            .nested(),
    ];

    /// Handles the timer `key`: an unfinished change continues, and a due rotation begins.
    fn wake(host: &dyn Host, context: &Context, key: &str, _attempt: u32) -> Result<(), Failure> {
        let unfinished = intent::key_of(key);
        if let Some(role) = unfinished.and_then(static_account::role_of) {
            return static_rotation::recover(host, context, role);
        }
        if let Some(connection) = unfinished.and_then(root_rotation::connection_of) {
            return root_rotation::recover(host, connection);
        }
        if let Some(connection) = connection::name_of(key) {
            return root_rotation::wake(host, connection);
        }
        if let Some(role) = static_role::role_of(key) {
            return static_rotation::wake(host, context, role);
        }
        Err(Failure::internal(format!("the engine database knows no timer {key:?}")))
    }
}

impl SecretsEngine for Database {
    fn renew(
        host: &dyn Host,
        context: &Context,
        lease: &Lease,
        increment: u64,
    ) -> Result<Renewal, Failure> {
        lease::renew(host, &context.mount, lease, increment)
    }

    fn revoke(
        host: &dyn Host,
        _context: &Context,
        lease: &Lease,
        _reason: RevocationReason,
    ) -> Result<(), Failure> {
        lease::revoke(host, lease)
    }
}

bulkhead_sdk::export_secrets_engine!(Database);
