//! Auth method for people and scripts with a user name and a password.
//!
//! `users` serves the users for operators, `login` serves logins and renewals, and `password`
//! hashes and verifies. No answer, and no time that an answer takes, tells whether a user exists.

mod login;
mod password;
mod user;
mod users;

use bulkhead_sdk::call::Context;
use bulkhead_sdk::table::{Field, Row, delete, list, read, write};
use bulkhead_sdk::token_params::{FIELDS, OLD_FIELDS};
use bulkhead_sdk::{AuthMethod, Call, Failure, HeldLogin, Host, Login, MountedPlugin};

/// Auth method `userpass`.
pub struct Userpass;

const USER: &[Field] = &[Field::name_of("username", "the user's name, in lower case")];

impl MountedPlugin for Userpass {
    const NAME: &'static str = "userpass";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Lets in users with a name and a password.";
    const TABLE: &'static [Row] = &[
        list("users", "user/").about("Lists the names of users."),
        read("users/{username}", users::read).about("Shows a user.").fields(&[USER]),
        write("users/{username}", users::write)
            .about("Creates or changes a user.")
            .fields(&[USER, password::FIELDS, FIELDS, OLD_FIELDS])
            .exclusive(&[&["password", "password_hash"]])
            .existence("user/{username}"),
        delete("users/{username}", users::delete)
            .about("Removes a user; tokens of the user can no longer be renewed.")
            .fields(&[USER]),
        write("users/{username}/password", users::write_password)
            .about("Changes the password of a user.")
            .fields(&[USER, password::FIELDS])
            .exclusive(&[&["password", "password_hash"]]),
        write("users/{username}/policies", users::write_policies)
            .about("Changes the policies of a user.")
            .fields(&[USER, users::POLICIES]),
        write("login/{username}", login::write)
            .about("Logs in with a password.")
            .fields(&[login::USER, login::FIELDS])
            .login(),
    ];
}

impl AuthMethod for Userpass {
    fn renew_login(
        host: &dyn Host,
        _context: &Context,
        held: &HeldLogin,
        _increment: u64,
    ) -> Result<Login, Failure> {
        login::renew(host, held)
    }

    fn alias_lookahead(_host: &dyn Host, call: &Call) -> Result<Option<String>, Failure> {
        Ok(Some(login::name(call)))
    }
}

bulkhead_sdk::export_auth_method!(Userpass);
