//! The database secrets engine: connections to databases, roles on them, and users that live as
//! long as their lease.
//!
//! One file for each noun of the URL; `connection`, `lifetime`, `redaction` and `version` are the
//! rules they share. It speaks no SQL and knows no database: what differs between databases is
//! asked of the connection's plugin, reached through the host.

mod config;
mod connection;
mod creds;
#[cfg(test)]
mod fixture;
mod lease;
mod lifetime;
mod redaction;
mod reset;
mod roles;
mod target;
mod version;

use bulkhead_sdk::table::{Field, Row, delete, list, read, write};
use bulkhead_sdk::{Context, Failure, Host, Lease, Reason, Renewal, SecretsEngine};

/// The engine.
pub struct Database;

const CONNECTION: &[Field] = &[Field::name_of("name", "the connection's name")];
const ROLE: &[Field] = &[Field::name_of("name", "the role's name")];

impl SecretsEngine for Database {
    const NAME: &'static str = "database";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Makes users of databases that end with their lease.";
    const ASKS: &'static [&'static str] = &["database"];
    const TABLE: &'static [Row] = &[
        read("config/{name}", config::read)
            .about("Shows a connection without its secrets.")
            .fields(&[CONNECTION]),
        write("config/{name}", config::write)
            .about(
                "Creates or changes a connection; what no field names goes to its database plugin.",
            )
            .fields(&[CONNECTION, config::FIELDS, config::SECRET_SETTINGS])
            .exclusive(&[
                &["rotation_period", "rotation_schedule"],
                &["rotation_period", "rotation_window"],
            ])
            .existence("config/{name}")
            .open_fields()
            .nested(),
        delete("config/{name}", config::delete)
            .about("Removes a connection.")
            .fields(&[CONNECTION]),
        list("config", "config/").about("Lists the names of connections."),
        write("reset/{name}", reset::write)
            .about("Closes a connection's sessions and starts again with what is stored.")
            .fields(&[CONNECTION])
            .nested(),
        read("roles/{name}", roles::read).about("Shows a role.").fields(&[ROLE]),
        write("roles/{name}", roles::write)
            .about("Creates or changes a role.")
            .fields(&[ROLE, roles::FIELDS])
            .existence("role/{name}")
            .nested(),
        delete("roles/{name}", roles::delete)
            .about("Removes a role; its leases run on.")
            .fields(&[ROLE]),
        list("roles", "role/").about("Lists the names of roles."),
        read("creds/{name}", creds::read)
            .about("Makes a user by a role, and answers its name and password.")
            .fields(&[ROLE])
            .leases()
            .nested(),
    ];

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
        _reason: Reason,
    ) -> Result<(), Failure> {
        lease::revoke(host, lease)
    }
}

bulkhead_sdk::export_secrets_engine!(Database);
