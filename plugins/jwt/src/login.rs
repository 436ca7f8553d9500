//! `login`: lets in the bearer of a token that meets the constraints of a role, and renews logins.
//!
//! The attacks this file stops:
//!
//! - A forged token as a question about the role: before the signature is verified, only the times
//!   and the issuer are checked. No message shows a claim.
//! - Text of the caller in the issued token: alias, groups and metadata are proven claims.
//! - A login that outlives its role: a renewal needs the role, and no later role of the same name,
//!   and the role must still admit the claims that the login proved.

use crate::config::Config;
use crate::role::{ProvenClaims, ROLE, Role};
use crate::times;
use bulkhead_sdk::jwt::{Claims, ParsedToken};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::name::is_name;
use bulkhead_sdk::{Answer, Call, Failure, HeldLogin, Host, Login, stored};
use serde::{Deserialize, Serialize};

/// Time limit of a login, including all requests, in seconds.
pub(crate) const DEADLINE: u64 = 30;

/// Fields of a login.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("role", "the role to log in by; default_role of the configuration unless given"),
    Field::text("jwt", "the signed token").required().secret(),
];

/// The role of a login, stored for renewals.
#[derive(Serialize, Deserialize)]
struct LoginRole {
    id: String,
    name: String,
    /// The proven claims that the role binds; `None` in records of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claims: Option<ProvenClaims>,
}

stored!(LoginRole, "login", reads_stored_logins);

/// Logs in.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let config = Config::stored(host)?;
    let (name, role) = role_of(host, call, &config)?;
    role.token.admit_address(call)?;
    let claims = prove(host, call, &config, &role)?;
    let bound = role.bound(&claims);
    role.hold(&bound)?;
    let login_role = LoginRole { id: role.id.clone(), name, claims: Some(bound) };
    let mut login = Login::of(role.user(&claims)?, &role.token);
    for (name, value) in role.metadata(&claims)? {
        login = login.with(name, value);
    }
    login.metadata.insert(ROLE.to_owned(), login_role.name.clone());
    Ok(Answer::login(login.in_groups(role.groups(&claims)?).with_internal(&login_role)?))
}

/// Returns the role of the login. All spellings of its name are the same role, because no policy
/// guards a login.
fn role_of(host: &dyn Host, call: &Call, config: &Config) -> Result<(String, Role), Failure> {
    let name = match call.text("role") {
        "" => config.default_role.clone(),
        name => name.to_ascii_lowercase(),
    };
    if name.is_empty() {
        return Err(Failure::invalid(
            "role is missing: give the role of the login, or set default_role in the configuration",
        ));
    }
    // A name that no role can have is not a valid storage key.
    let role = match is_name(&name) {
        true => Role::find(host, &name)?,
        false => None,
    };
    let unknown = || Failure::invalid(format!("role {} could not be found", quoted(&name)));
    role.map(|role| (name.clone(), role)).ok_or_else(unknown)
}

/// Verifies the token, the times and the issuer.
fn prove(host: &dyn Host, call: &Call, config: &Config, role: &Role) -> Result<Claims, Failure> {
    let token = ParsedToken::read_unbounded(call.text("jwt"), &config.algorithms())?;
    // Checked first, so that an old or foreign token costs its issuer no request. The signature
    // covers the same claims.
    times::check(token.unverified_claims(), role.leeways(), host.clock().now())?;
    config.check_issuer(token.unverified_claims())?;
    config.source.prove(host, token, config.writes, call.deadline)
}

/// Renews a login with the present settings of its role. The host refuses the renewal if the
/// policies have changed.
///
/// # Errors
/// Invalid request if the role is gone, is another role of the same name, or no longer admits the
/// claims of the login.
pub(crate) fn renew(host: &dyn Host, held_login: &HeldLogin) -> Result<Login, Failure> {
    let login_role: LoginRole = held_login.internal()?;
    let role = Role::find(host, &login_role.name)?.filter(|role| role.id == login_role.id);
    let role = HeldLogin::present_role(role, &login_role.name)?;
    if let Some(claims) = &login_role.claims {
        role.hold(claims).map_err(|why| {
            let message = format!("the role does not admit this login by now: {}", why.message);
            Failure { message: format!("{message}; log in again"), ..why }
        })?;
    }
    let mut login = Login::of(&held_login.alias, &role.token);
    login.metadata.clone_from(&held_login.metadata);
    login.alias_metadata.clone_from(&held_login.metadata);
    login.alias_metadata.remove(ROLE);
    login.with_internal(&login_role)
}

#[cfg(test)]
mod tests;
