//! The token of a login, made in the login's own unit of work.

use super::proven::ProvenLogin;
use crate::core::Core;
use crate::identity::{self, Proof, Standing};
use crate::mounts::{self, Mount};
use crate::tokens::{Made, NewLogin, TokenType};
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::net::IpAddr;

/// Where a login comes from and goes to.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) mount: &'a Mount,
    /// The path of the request.
    pub(crate) path: &'a str,
    pub(crate) remote: IpAddr,
}

/// A token that was made of a login, and for whom it stands.
pub(crate) struct SignedIn {
    pub(crate) made: Made,
    pub(crate) standing: Standing,
}

/// Signs the proven one in: finds or makes the entity, and makes the token in the unit, with the
/// limits of the mount.
///
/// # Errors
/// 403 where the login may not come from that address, or its entity is disabled; 400 where the
/// mount cannot give such a token.
pub(crate) async fn sign_in(
    core: &Core,
    unit: &mut Unit,
    origin: Origin<'_>,
    proven: &ProvenLogin,
) -> Result<SignedIn, Failure> {
    let Origin { mount, path, remote } = origin;
    let networks = &proven.bound_cidrs;
    if !networks.is_empty() && !networks.iter().any(|network| network.contains(remote)) {
        return Err(Failure::denied("this login may not come from your address"));
    }
    let signed_in = enter_identity(unit, core.store.now(), mount, proven).await?;
    let identity::SignedIn { entity_id, proof } = &signed_in;
    let standing = identity::standing(unit, entity_id, Some(proof)).await?;
    let new = NewLogin {
        kind: kind_of_token(mount, proven),
        policies: proven.policies.clone(),
        display_name: display_name(mount, &proven.display_name),
        meta: proven.metadata.clone(),
        path: path.to_owned(),
        mount: mount.record.uuid.clone(),
        signed_in,
        bound_cidrs: proven.bound_cidrs.clone(),
        times: proven.times,
        num_uses: proven.num_uses,
        renewable: proven.renewable,
        kept: proven.kept.clone(),
    };
    let made = core.tokens.create_login(unit, new, mount.lifetimes(core.lifetimes))?;
    Ok(SignedIn { made, standing })
}

/// Checks that a renewed login proves the entity of its token, and returns the new proof.
///
/// # Errors
/// 403 where it is disabled; 400 where the alias is another entity's by now.
pub(crate) async fn sign_in_again(
    core: &Core,
    unit: &mut Unit,
    mount: &Mount,
    proven: &ProvenLogin,
    entity_id: &str,
) -> Result<Proof, Failure> {
    let known = identity::entity_in_force(unit, entity_id).await?;
    let signed_in = enter_identity(unit, core.store.now(), mount, proven).await?;
    if signed_in.entity_id == known.id {
        return Ok(signed_in.proof);
    }
    Err(Failure::invalid(
        "what this login proves is another entity by now than the one of the token: log in again",
    ))
}

/// The entity behind the proven alias.
async fn enter_identity(
    unit: &mut Unit,
    now: u64,
    mount: &Mount,
    proven: &ProvenLogin,
) -> Result<identity::SignedIn, Failure> {
    let signed_in = identity::sign_in(unit, now, &proven.identity(mount)).await?;
    signed_in.ok_or_else(|| Failure::denied("the entity behind this login is disabled"))
}

/// The token that a login at the mount makes.
pub(crate) fn kind_of_token(mount: &Mount, proven: &ProvenLogin) -> TokenType {
    choose_kind(mount.record.settings.token_type, proven.kind)
}

/// The mount's word is final, or holds where the login says nothing.
fn choose_kind(of_mount: mounts::TokenType, of_login: Option<TokenType>) -> TokenType {
    match of_mount {
        mounts::TokenType::Service => TokenType::Service,
        mounts::TokenType::Batch => TokenType::Batch,
        mounts::TokenType::DefaultService => of_login.unwrap_or(TokenType::Service),
        mounts::TokenType::DefaultBatch => of_login.unwrap_or(TokenType::Batch),
    }
}

/// The mount's path with dashes for slashes, and the name that the login gave, if any.
fn display_name(mount: &Mount, given: &str) -> String {
    let mount = mount.record.path.listed().trim_end_matches('/').replace('/', "-");
    if given.is_empty() { mount } else { format!("{mount}-{given}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounts_type_is_final_or_what_holds_where_the_login_says_nothing() {
        let (service, batch) = (TokenType::Service, TokenType::Batch);
        for (of_mount, of_login, made) in [
            (mounts::TokenType::Service, Some(batch), service),
            (mounts::TokenType::Batch, Some(service), batch),
            (mounts::TokenType::DefaultService, None, service),
            (mounts::TokenType::DefaultService, Some(batch), batch),
            (mounts::TokenType::DefaultBatch, None, batch),
            (mounts::TokenType::DefaultBatch, Some(service), service),
        ] {
            assert_eq!(choose_kind(of_mount, of_login), made, "{of_mount:?} {of_login:?}");
        }
    }
}
