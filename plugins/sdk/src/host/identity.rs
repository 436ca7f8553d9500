//! Identity of the mount towards other services, and the entities behind its callers.

use crate::database_plugin::StoreTime;
use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;
use std::fmt;

/// A token that proves the mount's identity to other services. A secret: its holder can act as the
/// mount.
#[derive(Clone, PartialEq, Eq)]
pub struct IdentityToken {
    /// A JSON Web Token.
    pub token: String,
    /// End of the token. Earlier than requested if the signing key would not be published for so
    /// long.
    pub expires: StoreTime,
}

impl fmt::Debug for IdentityToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdentityToken(hidden, until {})", self.expires)
    }
}

/// The person or machine behind one or more logins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entity {
    /// Id of the entity. Differs from the requested id if that entity was merged into this entity.
    pub id: String,
    /// Display name. Chosen by a user: treat it as hostile.
    pub name: String,
    /// Metadata as operators wrote it.
    pub metadata: BTreeMap<String, String>,
}

/// Identity of the mount towards other services, and the entities behind its callers. Clouds trust
/// the mount's tokens in place of a stored credential; a plugin asks for the grant
/// `identity:token`.
pub trait Identity {
    /// Returns a token for `audience` with a lifetime of `ttl` seconds; 0 means one hour. The token
    /// names the mount: `sub` is `plugin-identity:root:<auth|secret>:<accessor>`.
    ///
    /// # Errors
    /// Permission denied without the grant: pass the failure on, its message names the grant.
    /// Invalid request for an audience that is empty, not printable or longer than 1,024 bytes;
    /// precondition failed if the server has no issuer or the mount's key is missing: the message
    /// says which setting to change.
    fn token(&self, audience: &str, ttl: u64) -> Result<IdentityToken, Failure>;

    /// Returns the entity `id` in its present state, if the entity is the caller's own or has an
    /// alias at this mount. `None` for all other ids, existing or not.
    ///
    /// # Errors
    /// Unavailable if the store cannot be read.
    fn entity(&self, id: &str) -> Result<Option<Entity>, Failure>;
}
