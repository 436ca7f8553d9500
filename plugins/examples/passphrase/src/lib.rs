//! Lets in who knows a passphrase.

use bulkhead_sdk::call::Context;
use bulkhead_sdk::table::{Field, Row, write};
use bulkhead_sdk::token_params::{FIELDS, OLD_FIELDS, TokenParams};
use bulkhead_sdk::{Answer, AuthMethod, Call, Failure, HeldLogin, Host, Login, stored};
use serde::{Deserialize, Serialize};

/// The auth method.
pub struct Passphrase;

const REFUSED: &str = "invalid name or passphrase";
const USER: &[Field] = &[
    Field::name_of("name", "who"),
    Field::text("passphrase", "what they know").required().secret(),
];

impl AuthMethod for Passphrase {
    const NAME: &'static str = "passphrase";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Lets in who knows a passphrase.";
    const TABLE: &'static [Row] = &[
        write("login/{name}", login).about("Logs in.").fields(&[USER]).login(),
        write("users/{name}", keep).about("Writes a user.").fields(&[USER, FIELDS, OLD_FIELDS]),
    ];

    fn renew_login(
        host: &dyn Host,
        _: &Context,
        held: &HeldLogin,
        _: u64,
    ) -> Result<Login, Failure> {
        let user: User =
            host.storage().get(&held.alias)?.ok_or_else(|| Failure::invalid(REFUSED))?;
        Ok(Login::of(&held.alias, &user.token).with("username", &held.alias))
    }
}

#[derive(Default, Serialize, Deserialize)]
struct User {
    hash: Vec<u8>,
    #[serde(flatten)]
    token: TokenParams,
}

stored!(User, "user", reads_stored_users);

/// An unknown user takes as long as a wrong passphrase, and is refused in the same words.
fn login(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (name, hash) = (call.text("name"), hash(host, call));
    let user: User = host.storage().get(name)?.unwrap_or_default();
    let differing = hash.iter().zip(&user.hash).fold(0, |bits, (one, other)| bits | (one ^ other));
    match hash.len() == user.hash.len() && differing == 0 {
        true => Ok(Answer::login(Login::of(name, &user.token).with("username", name))),
        false => Err(Failure::invalid(REFUSED)),
    }
}

fn keep(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let mut user: User = host.storage().get(call.text("name"))?.unwrap_or_default();
    user.token.merge(call)?;
    user.hash = hash(host, call);
    host.storage().put(call.text("name"), &user)?;
    Ok(Answer::nothing().warn(user.token.warnings(&call.mount)))
}

/// Salted with what is one user's on one mount.
fn hash(host: &dyn Host, call: &Call) -> Vec<u8> {
    let salt = format!("{}{}", call.mount.accessor, call.text("name"));
    host.derivation().pbkdf2_sha256(call.text("passphrase"), salt.as_bytes(), 100_000)
}

bulkhead_sdk::export_auth_method!(Passphrase);

#[cfg(test)]
mod tests;
