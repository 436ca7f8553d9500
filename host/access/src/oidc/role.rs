//! Roles: identity tokens of callers.
//!
//! This file prevents a token with false claims about its caller. The subject is the caller's
//! entity, and the template takes its values only from that entity.

use super::claims;
use super::issuer::DocumentedTokens;
use super::named_key::NamedKey;
use super::provider::OidcProvider;
use crate::policies::identity::TemplateIdentity;
use bulkhead_store::{Address, IndexColumns, Space, Unit};
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Address of a role in [`Space::Core`], as an endpoint's existence check names it.
pub const ROLE_EXISTENCE: &str = "oidc-role/{name}";
const PREFIX: &str = "oidc-role/";
/// Maximum length of a client id, in bytes.
const LONGEST_CLIENT_ID: usize = 1_024;

/// A stored role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Name of the signing key.
    pub key: String,
    /// Audience of the tokens.
    pub client_id: String,
    /// Template of additional claims, as the operator wrote it.
    pub template: String,
    /// Lifetime of tokens, in seconds.
    pub ttl: u64,
}

stored!(Role, "oidc-role", reads_stored_oidc_roles);

/// A token of a role.
pub struct RoleToken {
    pub token: String,
    /// Lifetime, in seconds.
    pub ttl: u64,
}

impl Role {
    /// Checks the role's settings.
    ///
    /// # Errors
    /// 400 that says what to change.
    pub fn check(&self) -> Result<(), Failure> {
        if self.client_id.is_empty()
            || self.client_id.len() > LONGEST_CLIENT_ID
            || self.client_id.chars().any(char::is_control)
        {
            let client_id = quoted(&self.client_id);
            return Err(Failure::invalid(format!(
                "client_id {client_id} is not 1 to {LONGEST_CLIENT_ID} bytes of printable text"
            )));
        }
        if self.ttl == 0 {
            return Err(Failure::invalid("ttl is 0; give the lifetime of the role's tokens"));
        }
        claims::check(&self.template)
    }

    /// Reads the role with this name.
    pub async fn read(unit: &mut Unit, name: &str) -> Result<Option<Self>, Failure> {
        let Some(record) = unit.get(&address(name)).await? else { return Ok(None) };
        Self::from_bytes(&record.body)
            .map(Some)
            .map_err(|unreadable| unreadable.of(format_args!("the stored OIDC role {name}")))
    }

    /// Writes the role into the unit.
    pub fn put(&self, unit: &mut Unit, name: &str) -> Result<(), Failure> {
        unit.put(address(name), self.to_bytes()?, IndexColumns::default());
        Ok(())
    }
}

/// Deletes the role. A missing role is not an error.
pub fn delete_role(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// Returns the names of all roles, sorted.
pub async fn role_names(unit: &mut Unit) -> Result<Vec<String>, Failure> {
    Ok(unit.names(Space::Core, PREFIX, "", usize::MAX).await?)
}

/// Returns the name of a role that uses the key, if there is such a role.
pub async fn role_with_key(unit: &mut Unit, key: &str) -> Result<Option<String>, Failure> {
    for name in role_names(unit).await? {
        if Role::read(unit, &name).await?.is_some_and(|role| role.key == key) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}

impl OidcProvider {
    /// Returns a token of the role for a caller with an entity.
    ///
    /// # Errors
    /// 400 for a caller without an entity, or if the key does not allow the role; 412 without an
    /// issuer or a key.
    pub async fn role_token(
        &self,
        role: &Role,
        caller: &TemplateIdentity,
    ) -> Result<RoleToken, Failure> {
        let entity = caller.entity.as_ref().ok_or_else(|| {
            Failure::invalid(
                "the token of this request has no entity to describe; log in by an auth method",
            )
        })?;
        let key = self.key(&role.key).await?;
        check_allowed(&key, role)?;
        let ttl = role.ttl.min(key.settings.verification_ttl);
        let issued = self.now();
        let mut said = claims::fill(&role.template, caller, issued)?;
        let own = json!({
            "iss": self.issuer(DocumentedTokens::General).await?,
            "sub": entity.id,
            "aud": role.client_id,
            "iat": issued,
            "exp": issued.saturating_add(ttl),
            "namespace": "root",
        });
        if let Value::Object(own) = own {
            said.extend(own);
        }
        let token = self.sign(&key, Value::Object(said)).await?;
        Ok(RoleToken { token, ttl })
    }
}

fn check_allowed(key: &NamedKey, role: &Role) -> Result<(), Failure> {
    let allowed = &key.settings.allowed_client_ids;
    if allowed.iter().any(|one| one == "*" || *one == role.client_id) {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "key {} does not allow the role's client id; add {} to the key's allowed_client_ids",
        quoted(&role.key),
        quoted(&role.client_id)
    )))
}
