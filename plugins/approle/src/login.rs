//! `login`: logins with a role id and a secret id, and their renewal.
//!
//! An unknown role id, a wrong, spent or expired secret id and a secret id of another role get one
//! answer. Networks are checked after the secret id, and a login that they refuse spends no use. A
//! limit counts as it was when the secret id was created, and as the role has it by now: the
//! narrower of both.
//!
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
    /// Networks of the secret id; the narrower of these and of those of the role bind the token.
    token_bound_cidrs: Vec<String>,
    /// Client address of the login; `None` in records of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// Whether the login proved a secret id; `None` in records of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proved_secret_id: Option<bool>,
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
    let login_role = LoginRole {
        id: role.id.clone(),
        name,
        token_bound_cidrs: of_secret_id.unwrap_or_default(),
        address: Some(address.clone()),
        proved_secret_id: Some(proof.is_some()),
    };
    let token = token(&role, &login_role)?;
    token.admit_address(call)?;
    let mut login = login(&role.role_id, &token, &login_role)?;
    if let Some((place, mut secret_id)) = proof {
        networks::admit(&secret_id.cidr_list, address)?;
        place.spend(host, &role, &mut secret_id)?;
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
    let now = host.clock().now();
    let secret_id = place.live(host)?.filter(|secret_id| !secret_id.is_too_old(role, now));
    Ok((place, secret_id.ok_or_else(refused)?))
}

/// Renews a login with the present settings of its role. The host refuses the renewal if the
/// policies have changed.
///
/// # Errors
/// Invalid request if the role is gone, is another role of the same name, or demands a secret id by
/// now; permission denied if the role no longer admits the address of the login.
pub(crate) fn renew(host: &dyn Host, held_login: &HeldLogin) -> Result<Login, Failure> {
    let login_role: LoginRole = held_login.internal()?;
    let role = Role::find(host, &login_role.name)?.filter(|role| role.id == login_role.id);
    let role = HeldLogin::present_role(role, &login_role.name)?;
    if role.bind_secret_id && login_role.proved_secret_id == Some(false) {
        return Err(Failure::invalid(
            "the role demands a secret id by now, and this login proved none: log in again",
        ));
    }
    if let Some(address) = &login_role.address {
        networks::admit(&role.secret_id_bound_cidrs, address)?;
    }
    let mut login = login(&held_login.alias, &token(&role, &login_role)?, &login_role)?;
    login.metadata.clone_from(&held_login.metadata);
    Ok(login)
}

/// Returns the token parameters of the role, within the networks of the secret id.
fn token(role: &Role, login_role: &LoginRole) -> Result<TokenParams, Failure> {
    let of_role = &role.token.token_bound_cidrs;
    let token_bound_cidrs = networks::in_both(of_role, &login_role.token_bound_cidrs)?;
    Ok(TokenParams { token_bound_cidrs, ..role.token.clone() })
}

fn login(alias: &str, token: &TokenParams, login_role: &LoginRole) -> Result<Login, Failure> {
    Login::of(alias, token).named("").with("role_name", &login_role.name).with_internal(login_role)
}

fn refused() -> Failure {
    Failure::invalid("invalid role or secret ID")
}

#[cfg(test)]
mod tests;
