//! The cluster secrets engine: issues tokens of Kubernetes service accounts that live as long as
//! their lease, and creates the objects that grant rights to the accounts.
//!
//! Each noun of the URL has a file. Beside these, `api_server` sends requests, `objects` defines
//! the created objects, `lease` ends leases, and `names`, `namespaces` and `rules`
//! parse input of operators and callers. The engine opens no connection and holds no token of its
//! own between calls.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! names → objects → target → token → api_server → check → config → namespaces → rules
//! → lease → rights → roles → lifetime → creds
//! ```

mod api_server;
mod check;
mod config;
mod creds;
#[cfg(test)]
mod fixture;
mod lease;
mod lifetime;
mod names;
mod namespaces;
mod objects;
mod rights;
mod roles;
mod rules;
mod target;
mod token;

use bulkhead_sdk::table::{Field, Row, delete, list, read, write};
use bulkhead_sdk::{Context, Failure, Host, Lease, MountedPlugin, RevocationReason, SecretsEngine};

/// The engine.
pub struct Cluster;

const ROLE: &[Field] = &[Field::name_of("name", "the role's name")];

impl MountedPlugin for Cluster {
    const NAME: &'static str = "cluster";
    const ALIASES: &'static [&'static str] = &["kubernetes"];
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Makes short-lived tokens of Kubernetes service accounts.";
    const ASKS: &'static [&'static str] = &["http", "ambient:pod-identity"];
    const TABLE: &'static [Row] = &[
        read("check", check::read)
            .about("Says whether the server is a pod and the configuration may be empty."),
        read("config", config::read).about("Shows the used API server, without the token."),
        write("config", config::write)
            .about("Sets the API server and the engine's identity.")
            .fields(&[config::FIELDS]),
        delete("config", config::delete).about("Removes the configuration; leases still end."),
        read("roles/{name}", roles::read).about("Shows a role.").fields(&[ROLE]),
        write("roles/{name}", roles::write)
            .about("Creates or changes a role.")
            .fields(&[ROLE, roles::FIELDS])
            .existence("role/{name}"),
        delete("roles/{name}", roles::delete)
            .about("Removes a role; leases of the role continue.")
            .fields(&[ROLE]),
        list("roles", "role/").about("Lists the names of roles."),
        write("creds/{name}", creds::write)
            .about("Creates a token of a role, and the rights described by the role.")
            .fields(&[ROLE, creds::FIELDS])
            .leases(),
    ];
}

impl SecretsEngine for Cluster {
    fn revoke(
        host: &dyn Host,
        _context: &Context,
        lease: &Lease,
        _reason: RevocationReason,
    ) -> Result<(), Failure> {
        lease::revoke(host, lease)
    }
}

bulkhead_sdk::export_secrets_engine!(Cluster);
