//! Creation of the token of a login, in the login's own unit of work.

use super::proven::ProvenLogin;
use crate::core::Core;
use crate::mounts::{self, Mount};
use bulkhead_access::identity::{self, EntityContext, LoginProof};
use bulkhead_access::tokens::{CreatedToken, NewLogin, TokenType};
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::net::IpAddr;

/// The mount, the path and the client address of a login.
#[derive(Clone, Copy)]
pub struct LoginOrigin<'a> {
    /// Auth mount that proved the login; limits the token's type and lifetime.
    pub mount: &'a Mount,
    /// Path of the request.
    pub path: &'a str,
    /// Address of the client, checked against the login's bound CIDRs.
    pub remote: IpAddr,
}

/// The token of a login, and its entity with the groups.
pub struct LoginToken {
    /// New token; valid only if the unit of work is committed.
    pub token: CreatedToken,
    /// Entity of the login with its groups, for the answer to the client.
    pub entity: EntityContext,
}

/// Signs the caller in: finds or creates the entity, and creates the token in the unit within the
/// mount's limits.
///
/// # Errors
/// 403 if the login is not allowed from the client's address, or the entity is disabled; 400 if the
/// mount cannot issue such a token.
pub async fn sign_in(
    core: &Core,
    unit: &mut Unit,
    origin: LoginOrigin<'_>,
    proven: &ProvenLogin,
) -> Result<LoginToken, Failure> {
    let LoginOrigin { mount, path, remote } = origin;
    let networks = &proven.bound_cidrs;
    if !networks.is_empty() && !networks.iter().any(|network| network.contains(remote)) {
        return Err(Failure::denied("this login may not come from your address"));
    }
    let signed_in = enter_identity(unit, core.store.now(), mount, proven).await?;
    let identity::SignedInEntity { entity_id, proof } = &signed_in;
    let entity = identity::read_entity_context(unit, entity_id, Some(proof)).await?;
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
    let token = core.tokens.create_login(unit, new, mount.lifetimes(core.lifetimes))?;
    Ok(LoginToken { token, entity })
}

/// Checks that a renewed login proves the entity of its token, and returns the new proof.
///
/// # Errors
/// 403 if the entity is disabled; 400 if the alias belongs to another entity by now.
pub(crate) async fn sign_in_again(
    core: &Core,
    unit: &mut Unit,
    mount: &Mount,
    proven: &ProvenLogin,
    entity_id: &str,
) -> Result<LoginProof, Failure> {
    let entity = identity::entity_in_force(unit, entity_id).await?;
    let signed_in = enter_identity(unit, core.store.now(), mount, proven).await?;
    if signed_in.entity_id == entity.id {
        return Ok(signed_in.proof);
    }
    Err(Failure::invalid("this login now proves another entity than the token's: log in again"))
}

/// Finds or creates the entity behind the proven alias.
async fn enter_identity(
    unit: &mut Unit,
    now: u64,
    mount: &Mount,
    proven: &ProvenLogin,
) -> Result<identity::SignedInEntity, Failure> {
    let signed_in = identity::sign_in(unit, now, &proven.identity(mount)).await?;
    signed_in.ok_or_else(|| Failure::denied("the entity behind this login is disabled"))
}

/// Returns the type of the token that a login at the mount creates.
pub fn kind_of_token(mount: &Mount, proven: &ProvenLogin) -> TokenType {
    choose_kind(mount.record.settings.token_type, proven.kind)
}

/// Applies the mount's type, which is final or a default for logins without a type.
fn choose_kind(of_mount: mounts::LoginTokenType, of_login: Option<TokenType>) -> TokenType {
    match of_mount {
        mounts::LoginTokenType::Service => TokenType::Service,
        mounts::LoginTokenType::Batch => TokenType::Batch,
        mounts::LoginTokenType::DefaultService => of_login.unwrap_or(TokenType::Service),
        mounts::LoginTokenType::DefaultBatch => of_login.unwrap_or(TokenType::Batch),
    }
}

/// Returns the mount's path with dashes for slashes, followed by the login's display name, if any.
fn display_name(mount: &Mount, name_of_login: &str) -> String {
    let mount = mount.record.path.listed().trim_end_matches('/').replace('/', "-");
    if name_of_login.is_empty() { mount } else { format!("{mount}-{name_of_login}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_type_of_mount_is_final_or_default() {
        let (service, batch) = (TokenType::Service, TokenType::Batch);
        for (of_mount, of_login, kind) in [
            (mounts::LoginTokenType::Service, Some(batch), service),
            (mounts::LoginTokenType::Batch, Some(service), batch),
            (mounts::LoginTokenType::DefaultService, None, service),
            (mounts::LoginTokenType::DefaultService, Some(batch), batch),
            (mounts::LoginTokenType::DefaultBatch, None, batch),
            (mounts::LoginTokenType::DefaultBatch, Some(service), service),
        ] {
            assert_eq!(choose_kind(of_mount, of_login), kind, "{of_mount:?} {of_login:?}");
        }
    }
}
