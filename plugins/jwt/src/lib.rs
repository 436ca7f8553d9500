//! Auth method for bearers of signed tokens (JWTs) of any issuer.
//!
//! `config` serves the mount's configuration, `roles` the roles. The other files, in the order of a
//! login: `login` finds the role, `times` checks the times of the token, `source` finds the keys
//! that prove the token, `key_server` fetches published keys, `static_key` reads written keys,
//! `role` and `bound_claims` check the proven claims, which `claims` looks up.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! claims → bound_claims → times → static_key → key_server → source → config → role → login → roles
//! ```

mod bound_claims;
mod claims;
mod config;
#[cfg(test)]
mod fixture;
mod key_server;
mod login;
mod role;
mod roles;
mod source;
mod static_key;
mod times;

use bulkhead_sdk::call::Context;
use bulkhead_sdk::table::{Field, Row, delete, list, read, write};
use bulkhead_sdk::token_params;
use bulkhead_sdk::{AuthMethod, Failure, HeldLogin, Host, Login, MountedPlugin};

/// Auth method `jwt`.
pub struct Jwt;

const ROLE: &[Field] = &[Field::name_of("name", "the role's name, in lower case")];

impl MountedPlugin for Jwt {
    const NAME: &'static str = "jwt";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Lets in bearers of signed tokens (JWTs) of a configured issuer.";
    const ASKS: &'static [&'static str] = &["http"];
    const TABLE: &'static [Row] = &[
        read("config", config::read).about("Shows the configuration."),
        write("config", config::write)
            .about("Names the keys and the issuer of accepted tokens.")
            .fields(&[config::FIELDS, config::BROWSER_FIELDS])
            .deadline(login::DEADLINE),
        list("role", "role/").about("Lists the names of roles."),
        read("role/{name}", roles::read).about("Shows a role.").fields(&[ROLE]),
        write("role/{name}", roles::write)
            .about("Creates or changes a role.")
            .fields(&[ROLE, role::FIELDS, token_params::FIELDS, token_params::OLD_FIELDS])
            .existence("role/{name}"),
        delete("role/{name}", roles::delete)
            .about("Removes a role; tokens of the role are not renewed any more.")
            .fields(&[ROLE]),
        write("login", login::write)
            .about("Logs in with a signed token if the token meets the constraints of a role.")
            .fields(&[login::FIELDS])
            .login()
            .deadline(login::DEADLINE),
    ];
}

impl AuthMethod for Jwt {
    fn renew_login(
        host: &dyn Host,
        _context: &Context,
        held_login: &HeldLogin,
        _increment: u64,
    ) -> Result<Login, Failure> {
        login::renew(host, held_login)
    }
}

bulkhead_sdk::export_auth_method!(Jwt);
