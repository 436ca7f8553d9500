//! `login`: logins with a role id and a secret id, and their renewal.
//!
//! An unknown role id, a wrong, spent or expired secret id and a secret id of another role get one
//! answer. Networks are checked after the secret id, and a login that they refuse spends no use.
//! This method locks no name: a generated secret id cannot be guessed, and whoever knows a role id,
//! which is not secret, could otherwise lock the role out.

use crate::networks;
use crate::role::Role;
use crate::secret_id::{SecretId, SecretIdKey};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, HeldLogin, Host, Login, TokenParams, stored};
use serde::{Deserialize, Serialize};

/// Fields of a login.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("role_id", "the role id").required(),
    Field::text("secret_id", "a secret id of the role").secret(),
];

/// The role of a login, stored for renewals.
#[derive(Serialize, Deserialize)]
struct LoginRole {
    id: String,
    name: String,
    /// Networks of the secret id, which replace those of the role.
    token_bound_cidrs: Vec<String>,
}

stored!(LoginRole, "login", reads_stored_logins);

/// Logs in.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let found = Role::with_role_id(host, call.text("role_id"))?;
    let (name, role) = found.ok_or_else(refused)?;
    let proof = match role.bind_secret_id {
        true => Some(prove(host, call, &role)?),
        false => None,
    };
    let address = &call.caller.remote_address;
    networks::admit(&role.secret_id_bound_cidrs, address)?;
    let secret_id = proof.as_ref().map(|(_, secret_id)| secret_id);
    let of_secret_id = secret_id.map(|secret_id| secret_id.token_bound_cidrs.clone());
    let kept = LoginRole {
        id: role.id.clone(),
        name,
        token_bound_cidrs: of_secret_id.unwrap_or_default(),
    };
    let token = token(&role, &kept);
    token.admit_address(call)?;
    let mut login = login(&role.role_id, &token, &kept)?;
    if let Some((place, mut secret_id)) = proof {
        networks::admit(&secret_id.cidr_list, address)?;
        place.spend(host, &mut secret_id)?;
        // The metadata of the secret id cannot replace the name of the role.
        let own = std::mem::take(&mut login.metadata);
        login.metadata = secret_id.metadata;
        login.metadata.extend(own);
    }
    Ok(Answer::login(login))
}

/// Finds the secret id of the call.
fn prove<'a>(
    host: &dyn Host,
    call: &Call,
    role: &'a Role,
) -> Result<(SecretIdKey<'a>, SecretId), Failure> {
    let place = SecretIdKey::of(host, role, call.text("secret_id"))?.ok_or_else(refused)?;
    let secret_id = place.live(host)?.ok_or_else(refused)?;
    Ok((place, secret_id))
}

/// Renews a login with the present settings of its role. The host refuses the renewal if the
/// policies have changed.
///
/// # Errors
/// Invalid request if the role is gone, or is another role of the same name.
pub(crate) fn renew(host: &dyn Host, held: &HeldLogin) -> Result<Login, Failure> {
    let kept: LoginRole = held.internal()?;
    let role = Role::find(host, &kept.name)?.filter(|role| role.id == kept.id);
    let role = HeldLogin::present_role(role, &kept.name)?;
    let mut login = login(&held.alias, &token(&role, &kept), &kept)?;
    login.metadata.clone_from(&held.metadata);
    Ok(login)
}

/// Returns the token parameters of the role, with the networks of the secret id.
fn token(role: &Role, kept: &LoginRole) -> TokenParams {
    let mut token = role.token.clone();
    if !kept.token_bound_cidrs.is_empty() {
        token.token_bound_cidrs.clone_from(&kept.token_bound_cidrs);
    }
    token
}

fn login(alias: &str, token: &TokenParams, kept: &LoginRole) -> Result<Login, Failure> {
    Login::of(alias, token).named("").with("role_name", &kept.name).with_internal(kept)
}

fn refused() -> Failure {
    Failure::invalid("invalid role or secret ID")
}

#[cfg(test)]
mod tests;
