//! Auth method for logins with a passphrase.

use bulkhead_sdk::call::Context;
use bulkhead_sdk::table::{Field, Row, write};
use bulkhead_sdk::token_params::{FIELDS, OLD_FIELDS, TokenParams};
use bulkhead_sdk::{
    Answer, AuthMethod, Call, Failure, HeldLogin, Host, Login, MountedPlugin, stored,
};
use serde::{Deserialize, Serialize};

/// The auth method.
pub struct Passphrase;

const USER: &[Field] = &[
    Field::name_of("name", "the user's name"),
    Field::text("passphrase", "the user's passphrase").required().secret(),
];

impl MountedPlugin for Passphrase {
    const NAME: &'static str = "passphrase";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Lets in users with a passphrase.";
    const TABLE: &'static [Row] = &[
        write("login/{name}", login).about("Logs in.").fields(&[USER]).login(),
        write("users/{name}", keep).about("Writes a user.").fields(&[USER, FIELDS, OLD_FIELDS]),
    ];
}

impl AuthMethod for Passphrase {
    fn renew_login(host: &dyn Host, _: &Context, it: &HeldLogin, _: u64) -> Result<Login, Failure> {
        admitted(&it.alias, host.storage().get(&it.alias)?)
    }

    fn alias_lookahead(_: &dyn Host, call: &Call) -> Result<Option<String>, Failure> {
        Ok(Some(call.text("name").to_owned()))
    }
}

#[derive(Default, Serialize, Deserialize)]
struct User {
    hash: String,
    #[serde(flatten)]
    token: TokenParams,
}

stored!(User, "user", reads_stored_users);

/// Logs in. An unknown user takes as long as a wrong passphrase and gets the same message, so that
/// a caller cannot find out which users exist.
fn login(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (name, said) = (call.text("name"), call.text("passphrase"));
    let user: Option<User> = host.storage().get(name)?;
    let is_known = match &user {
        Some(user) => host.crypto().verify_password(said, &user.hash)?,
        None => host.crypto().hash_password(said)?.is_empty(),
    };
    Ok(Answer::login(admitted(name, user.filter(|_| is_known))?))
}

fn admitted(name: &str, user: Option<User>) -> Result<Login, Failure> {
    let user = user.ok_or_else(|| Failure::invalid("invalid name or passphrase"))?;
    Ok(Login::of(name, &user.token).with("username", name))
}

fn keep(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let mut user: User = host.storage().get(call.text("name"))?.unwrap_or_default();
    user.token.merge(call)?;
    user.hash = host.crypto().hash_password(call.text("passphrase"))?;
    host.storage().put(call.text("name"), &user)?;
    Ok(Answer::nothing().warn(user.token.warnings(&call.mount)))
}

bulkhead_sdk::export_auth_method!(Passphrase);

#[cfg(test)]
mod tests;
