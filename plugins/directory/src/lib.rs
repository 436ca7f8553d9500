//! Directory secrets engine: rotates the passwords of existing accounts for roles, and lends
//! accounts from a library.
//!
//! Each noun of the URL has a file; `account`, `rotation`, `directory`, `passwords` and `times` are
//! the rules that these files share. The engine contains no LDAP client: all requests to a
//! directory go through the host.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! loan → passwords → times → settings → known_servers → directory → account → figures → set
//! → presence → rotation → kept_bindpass → rotate_root → config → library → roles → creds
//! ```

mod account;
mod config;
mod creds;
mod directory;
mod figures;
#[cfg(test)]
mod fixture;
mod kept_bindpass;
mod known_servers;
mod library;
mod loan;
mod passwords;
mod presence;
mod roles;
mod rotate_root;
mod rotation;
mod set;
mod settings;
mod times;

use bulkhead_sdk::intent;
use bulkhead_sdk::table::{Field, Operation, Row, delete, list, read, write};
use bulkhead_sdk::{
    Context, Failure, Host, Lease, Metric, MountedPlugin, Renewal, RevocationReason, SecretsEngine,
};

/// The directory secrets engine.
pub struct Directory;

const ROLE: &[Field] = &[Field::name_of("name", "the role's name")];
const SET: &[Field] = &[Field::name_of("name", "the set's name")];
/// Deadline, in seconds, of calls that change the passwords of several accounts.
const SET_ROTATION_TIMEOUT_SECS: u64 = 300;

impl MountedPlugin for Directory {
    const NAME: &'static str = "directory";
    const ALIASES: &'static [&'static str] = &["ad"];
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Rotates and lends accounts of a directory.";
    const ASKS: &'static [&'static str] = &["ldap"];
    const METRICS: &'static [Metric] = figures::METRICS;
    const TABLE: &'static [Row] = &[
        read("config", config::read).about("Shows the configuration without secrets."),
        write("config", config::write)
            .about("Creates or changes the configuration.")
            .fields(&[config::FIELDS])
            .exclusive(&[&["password_policy", "length"], &["password_policy", "formatter"]]),
        delete("config", config::delete)
            .about("Removes the configuration, unless still needed.")
            .fields(&[config::REMOVAL]),
        read("roles/{name}", roles::read).about("Shows a role.").fields(&[ROLE]),
        write("roles/{name}", roles::write)
            .about("Creates or changes a role.")
            .fields(&[ROLE, roles::FIELDS])
            .existence("role/{name}"),
        delete("roles/{name}", roles::delete).about("Removes a role.").fields(&[ROLE]),
        list("roles", roles::PREFIX).about("Lists the names of roles."),
        read("roles", roles::list).about("Lists the names of roles.").asked_as(Operation::List),
        read("creds/{name}", creds::read)
            .about("Returns the password of a role's account; rotates a due password first.")
            .fields(&[ROLE]),
        write("rotate-role/{name}", roles::rotate)
            .about("Rotates the password of a role's account.")
            .fields(&[ROLE]),
        write("rotate-root", rotate_root::write).about("Rotates bindpass."),
        read("rotate-root", rotate_root::write)
            .about("Rotates bindpass.")
            .asked_as(Operation::Update),
        read("library/{name}", library::read).about("Shows a set.").fields(&[SET]),
        write("library/{name}", library::write)
            .about("Creates or changes a set.")
            .fields(&[SET, library::FIELDS])
            .existence("set/{name}")
            .deadline(SET_ROTATION_TIMEOUT_SECS),
        delete("library/{name}", library::delete)
            .about("Removes a set without lent accounts.")
            .fields(&[SET]),
        list("library", "set/").about("Lists the names of sets."),
        read("library/{name}/status", library::status)
            .about("Shows the lent accounts of a set and their borrowers.")
            .fields(&[SET]),
        write("library/{name}/check-out", library::check_out)
            .about("Lends an account of a set.")
            .fields(&[SET, library::CHECK_OUT_FIELDS])
            .leases(),
        write("library/{name}/check-in", library::own)
            .about("Checks in accounts of a set for their borrower.")
            .fields(&[SET, library::CHECK_IN_FIELDS])
            .deadline(SET_ROTATION_TIMEOUT_SECS),
        write("library/manage/{name}/check-in", library::forced)
            .about("Checks in accounts of a set for any borrower.")
            .fields(&[SET, library::CHECK_IN_FIELDS])
            .deadline(SET_ROTATION_TIMEOUT_SECS),
    ];

    /// Finishes password changes that their call left unfinished, and reports the figures of all
    /// accounts when their timer is due.
    fn wake(host: &dyn Host, context: &Context, key: &str, _attempt: u32) -> Result<(), Failure> {
        match intent::key_of(key) {
            Some(rotate_root::KEY) => rotate_root::finish(host, &context.mount),
            Some(account) => rotation::finish(host, &context.mount, account),
            None if key == figures::KEY => figures::look(host),
            None => Ok(()),
        }
    }
}

impl SecretsEngine for Directory {
    fn renew(
        host: &dyn Host,
        context: &Context,
        lease: &Lease,
        increment: u64,
    ) -> Result<Renewal, Failure> {
        library::renew(host, &context.mount, lease, increment)
    }

    fn revoke(
        host: &dyn Host,
        context: &Context,
        lease: &Lease,
        reason: RevocationReason,
    ) -> Result<(), Failure> {
        library::revoke(host, &context.mount, lease, reason)
    }
}

bulkhead_sdk::export_secrets_engine!(Directory);
