//! Who the mount is, towards others, and whom it knows.

use crate::database_plugin::StoreTime;
use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;
use std::fmt;

/// A token by which the mount shows others who it is. It is a secret: whoever holds it is the mount.
#[derive(Clone, PartialEq, Eq)]
pub struct IdentityToken {
    /// A JSON Web Token.
    pub token: String,
    /// When it ends. Sooner than was asked where its key would not be published so long.
    pub expires: StoreTime,
}

impl fmt::Debug for IdentityToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdentityToken(hidden, until {})", self.expires)
    }
}

/// The one person or machine behind logins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entity {
    /// Another one than was asked for where that was merged into this.
    pub id: String,
    /// For people. Chosen by a user: treat it as hostile.
    pub name: String,
    /// As operators wrote it.
    pub metadata: BTreeMap<String, String>,
}

/// Who the mount is, towards others: tokens that clouds trust in place of a stored credential, for
/// which a plugin asks for the grant `identity:token`. And whom it knows.
pub trait Identity {
    /// A token for `audience` that lives for `ttl` seconds; 0 asks for an hour. It says which mount
    /// this is: `sub` is `plugin-identity:root:<auth|secret>:<accessor>`.
    ///
    /// # Errors
    /// Permission denied without the grant: pass it on, it names the grant. Invalid request for an
    /// audience that is empty, not printable or longer than 1,024 bytes; precondition failed when
    /// the server has no issuer or the mount's key is gone: the message says what to set.
    fn token(&self, audience: &str, ttl: u64) -> Result<IdentityToken, Failure>;

    /// The entity with that id, as it is now: the caller's own, or one with an alias at this mount.
    /// `None` for all others, whether they are there or not.
    ///
    /// # Errors
    /// Unavailable when the store cannot be read.
    fn entity(&self, id: &str) -> Result<Option<Entity>, Failure>;
}
