//! Roles: tokens by which callers show others who they are.
//!
//! The attack this file stops: a token that says more than its caller is. Whom it is about comes
//! from the caller's entity; what it says besides is filled in from that.

use super::claims;
use super::issuer::Documents;
use super::named_key::NamedKey;
use super::provider::Provider;
use crate::policies::identity::Identity;
use bulkhead_store::{Address, Index, Space, Unit};
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Where roles are stored in [`Space::Core`], and what an endpoint's existence names.
pub(crate) const ROLE_EXISTENCE: &str = "oidc-role/{name}";
const PREFIX: &str = "oidc-role/";
/// Longest client id, in bytes.
const LONGEST_CLIENT_ID: usize = 1_024;

/// A role as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Role {
    /// The key that signs.
    pub(crate) key: String,
    /// For whom its tokens are.
    pub(crate) client_id: String,
    /// What they say besides, as it was written.
    pub(crate) template: String,
    /// How long they live, in seconds.
    pub(crate) ttl: u64,
}

stored!(Role, "oidc-role", reads_stored_oidc_roles);

/// A token of a role.
pub(crate) struct RoleToken {
    pub(crate) token: String,
    /// How long it lives, in seconds.
    pub(crate) ttl: u64,
}

impl Role {
    /// Whether it can make tokens.
    ///
    /// # Errors
    /// 400 that says what to change.
    pub(crate) fn check(&self) -> Result<(), Failure> {
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
            return Err(Failure::invalid("ttl is 0; give how long its tokens live"));
        }
        claims::check(&self.template)
    }

    /// The role of that name.
    pub(crate) async fn read(unit: &mut Unit, name: &str) -> Result<Option<Self>, Failure> {
        let Some(record) = unit.get(&address(name)).await? else { return Ok(None) };
        Self::from_bytes(&record.body)
            .map(Some)
            .map_err(|unreadable| unreadable.of(format_args!("the stored OIDC role {name}")))
    }

    /// Writes it into the unit.
    pub(crate) fn put(&self, unit: &mut Unit, name: &str) -> Result<(), Failure> {
        unit.put(address(name), self.to_bytes()?, Index::default());
        Ok(())
    }
}

/// Deletes the role; success also when there is none.
pub(crate) fn delete_role(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// Names of all roles, in order.
pub(crate) async fn role_names(unit: &mut Unit) -> Result<Vec<String>, Failure> {
    Ok(unit.names(Space::Core, PREFIX, "", usize::MAX).await?)
}

/// The name of some role for which the key of that name signs.
pub(crate) async fn role_with_key(unit: &mut Unit, key: &str) -> Result<Option<String>, Failure> {
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

impl Provider {
    /// A token of the role for the caller with that entity.
    ///
    /// # Errors
    /// 400 without an entity, or where the key is not for the role; 412 without an issuer or a key.
    pub(crate) async fn role_token(
        &self,
        role: &Role,
        caller: &Identity,
    ) -> Result<RoleToken, Failure> {
        let entity = caller.entity.as_ref().ok_or_else(|| {
            Failure::invalid(
                "the token of this request has no entity that a token could be about; log in by \
                 an auth method",
            )
        })?;
        let key = self.key(&role.key).await?;
        check_allowed(&key, role)?;
        let ttl = role.ttl.min(key.settings.verification_ttl);
        let issued = self.now();
        let mut said = claims::fill(&role.template, caller, issued)?;
        let own = json!({
            "iss": self.issuer(Documents::General).await?,
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
        "key {} does not allow the role's client id; add {} to its allowed_client_ids",
        quoted(&role.key),
        quoted(&role.client_id)
    )))
}
