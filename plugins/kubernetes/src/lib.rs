//! Auth method for service accounts of Kubernetes: a pod presents its token, and the API server of
//! the cluster reviews the token.
//!
//! Each noun of the URL has its own file. The other files, in the order of a login: `token` parses
//! the token, `bounds` compares the stated account with a role, `signature` verifies the token with
//! the configured keys, and `review` asks the API server, which `api_server` reaches; `namespace`
//! compares the labels of the account's namespace. Only the account of the API server's answer logs
//! in; the claims of a token select the question alone.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! bounds → token → config → api_server → review → namespace → role → signature → login
//! → renewal
//! ```

mod api_server;
mod bounds;
mod config;
#[cfg(test)]
mod fixture;
mod login;
mod namespace;
mod renewal;
mod review;
mod role;
mod signature;
mod token;

use bulkhead_sdk::call::Context;
use bulkhead_sdk::table::{Field, Row, delete, list, read, write};
use bulkhead_sdk::token_params;
use bulkhead_sdk::{AuthMethod, Failure, HeldLogin, Host, Login, MountedPlugin};

/// Auth method `kubernetes`.
pub struct Kubernetes;

const ROLE: &[Field] = &[Field::name_of("name", "the role's name, in lower case")];

impl MountedPlugin for Kubernetes {
    const NAME: &'static str = "kubernetes";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Lets in pods with the tokens of their service accounts.";
    const ASKS: &'static [&'static str] = &["http", "ambient:pod-identity"];
    const TABLE: &'static [Row] = &[
        read("config", config::read).about("Shows the configuration without the reviewer's token."),
        write("config", config::write)
            .about("Sets the API server for reviews of tokens, and the identity of the reviewer.")
            .fields(&[config::FIELDS])
            .existence("config"),
        read("role/{name}", role::read).about("Shows a role.").fields(&[ROLE]),
        write("role/{name}", role::write)
            .about("Creates or changes a role.")
            .fields(&[ROLE, role::FIELDS, token_params::FIELDS, token_params::OLD_FIELDS])
            .existence("role/{name}"),
        delete("role/{name}", role::delete)
            .about("Removes a role; tokens of the role can no longer be renewed.")
            .fields(&[ROLE]),
        list("role", "role/").about("Lists the names of roles."),
        write("login", login::write)
            .about("Logs in with the token of a service account.")
            .fields(&[login::FIELDS])
            .login()
            .deadline(login::DEADLINE),
    ];
}

impl AuthMethod for Kubernetes {
    fn renew_login(
        host: &dyn Host,
        _context: &Context,
        held_login: &HeldLogin,
        _increment: u64,
    ) -> Result<Login, Failure> {
        renewal::renew(host, held_login)
    }
}

bulkhead_sdk::export_auth_method!(Kubernetes);
