//! `login/{username}`: logins with a password, and their renewal.
//!
//! This file prevents the enumeration of users: an unknown user, a wrong password and, for the
//! host's lockouts, every spelling of a name are treated alike. The networks of a user are checked
//! after the password, so that only the user learns that they refuse an address.

use crate::password;
use crate::user::{User, canonical};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, HeldLogin, Host, Login, stored};
use serde::{Deserialize, Serialize};

/// The user's name, in any case.
pub(crate) const USER: &[Field] = &[Field::name_of("username", "the user's name")];

/// Fields of a login.
pub(crate) const FIELDS: &[Field] =
    &[Field::text("password", "the user's password").required().secret()];

/// The user of a login, stored for renewals.
#[derive(Serialize, Deserialize)]
struct LoginUser {
    id: String,
}

stored!(LoginUser, "login", reads_stored_logins);

/// Returns the name in a login, in its canonical spelling.
pub(crate) fn name(call: &Call) -> String {
    canonical(call.text("username"))
}

/// Logs in.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = name(call);
    let user = User::find(host, &name)?;
    let hash = user.as_ref().map(|user| user.password_hash.as_str());
    let is_proven = password::verify(host, call.text("password"), hash)?;
    let user = user.filter(|_| is_proven).ok_or_else(refused)?;
    user.token.admit_address(call)?;
    Ok(Answer::login(login(&name, user)?))
}

/// Renews a login with the present settings of its user. The host refuses the renewal if the
/// policies have changed.
///
/// # Errors
/// Invalid request if the user is gone, or is another user of the same name.
pub(crate) fn renew(host: &dyn Host, held: &HeldLogin) -> Result<Login, Failure> {
    let LoginUser { id } = held.internal()?;
    let user = User::find(host, &held.alias)?.filter(|user| user.id == id);
    let gone = || Failure::invalid("the user of this login has been removed; log in again");
    login(&held.alias, user.ok_or_else(gone)?)
}

fn login(name: &str, user: User) -> Result<Login, Failure> {
    let login = Login::of(name, &user.token).with("username", name);
    login.with_internal(&LoginUser { id: user.id })
}

fn refused() -> Failure {
    Failure::invalid("invalid username or password")
}

#[cfg(test)]
mod tests;
