//! `users/{username}`: the users, their passwords and the parameters of their tokens.

use crate::password;
use crate::user::{self, User, name_in_path};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Fields of `users/{username}/policies`.
pub(crate) const POLICIES: &[Field] = &[
    Field::words("token_policies", "policies of the user's tokens"),
    Field::words("policies", "old name of token_policies").old_name_of("token_policies"),
];

/// Creates or changes a user; absent fields keep their values.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = name_in_path(call)?;
    let stored = User::find(host, name)?;
    let hash = password::hash_given(host, call)?;
    if stored.is_none() && hash.is_none() {
        return Err(without_password());
    }
    let mut user = stored.unwrap_or_else(|| User::new(host));
    user.token.merge(call)?;
    user.password_hash = hash.unwrap_or(user.password_hash);
    user.put(host, name)?;
    Ok(Answer::nothing().warn(user.token.warnings(&call.mount)))
}

/// Changes the password of a user.
pub(crate) fn write_password(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (name, mut user) = existing(host, call)?;
    user.password_hash = password::hash_given(host, call)?.ok_or_else(without_password)?;
    user.put(host, name)?;
    Ok(Answer::nothing())
}

/// Changes the policies of a user.
pub(crate) fn write_policies(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (name, mut user) = existing(host, call)?;
    if !call.is_given("token_policies") && !call.is_given("policies") {
        return Err(Failure::invalid(
            "token_policies is required: give the names of policies, or an empty text for none",
        ));
    }
    user.token.merge(call)?;
    user.put(host, name)?;
    Ok(Answer::nothing())
}

/// Shows a user without the password.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let user = User::find(host, name_in_path(call)?)?.ok_or_else(Failure::absent)?;
    Answer::data(&user.token.show())
}

/// Removes a user.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    host.storage().delete(&user::key(name_in_path(call)?))?;
    Ok(Answer::nothing())
}

fn existing<'a>(host: &dyn Host, call: &'a Call) -> Result<(&'a str, User), Failure> {
    let name = name_in_path(call)?;
    let unknown = || {
        let name = quoted(name);
        Failure::invalid(format!("there is no user {name}; create the user at users/{name}"))
    };
    Ok((name, User::find(host, name)?.ok_or_else(unknown)?))
}

fn without_password() -> Failure {
    Failure::invalid("password is required: give a password, or an argon2id hash as password_hash")
}

#[cfg(test)]
mod tests;
