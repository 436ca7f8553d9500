//! What the sandbox needs from above, and the only way in which it asks.

use crate::database_plugin::DatabasePlugin;
use async_trait::async_trait;
use bulkhead_store::{Address, Unit};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;
use std::time::Duration;

/// How urgent a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For the plugin's author.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth acting on soon.
    Warn,
    /// Something failed.
    Error,
}

impl Level {
    /// The word in the log.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// A lease that a plugin writes down before the thing it will end exists.
pub struct Reservation {
    /// Unique in the call; the confirming secret carries it too.
    pub tag: String,
    /// The target whose troubles must not stall others.
    pub lane: String,
    /// JSON text that only the plugin reads.
    pub internal: String,
}

/// A timer that wakes its mount, unless the call that set it cancels it before it ends.
pub struct Guard {
    /// The timer's row.
    pub timer: Address,
    /// With the mount in front, as the row is indexed.
    pub lane: String,
    /// Store time, in milliseconds, at which the call is stopped at the latest.
    pub deadline: u64,
}

/// The one person or machine behind logins, as a mount may see it.
pub struct Entity {
    /// Its id, which may be another than the one that was asked for: entities are merged.
    pub id: String,
    /// For people.
    pub name: String,
    /// As operators wrote it.
    pub metadata: Vec<(String, String)>,
}

/// A token by which a mount shows others who it is.
pub struct IdentityToken {
    /// The token. It is a secret.
    pub token: String,
    /// When it ends, in milliseconds of store time.
    pub expires: u64,
}

/// Core, as one call sees it: made anew for each root call, so that it knows mount, caller and
/// deadline.
#[async_trait]
pub trait HostServices: Send + Sync {
    /// A password by the named policy, which is read in the call's unit of work; empty means the
    /// default one.
    ///
    /// # Errors
    /// `not-found` when there is no such policy.
    async fn password(&self, unit: &mut Unit, policy: &str) -> Result<String, Failure>;

    /// A password of so many characters of an alphabet.
    ///
    /// # Errors
    /// `invalid-request` for a length or an alphabet outside of the contract's bounds.
    fn password_from(&self, length: u32, alphabet: &str) -> Result<String, Failure>;

    /// A token for `audience` that lives for `ttl` seconds at most; 0 asks for an hour.
    ///
    /// # Errors
    /// `invalid-request` for an audience that is none; `precondition-failed` when the server has no
    /// issuer, or the mount's key is gone; `unavailable` when the store does not answer.
    async fn identity_token(&self, audience: &str, ttl: u64) -> Result<IdentityToken, Failure>;

    /// The entity with that id, where it is the caller's own or has an alias at the mount.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    async fn entity(&self, id: &str) -> Result<Option<Entity>, Failure>;

    /// The database plugin that `name` and `version` choose; an empty version leaves it to the
    /// catalog.
    ///
    /// # Errors
    /// `not-found`, with the plugins there are.
    fn database_plugin(&self, name: &str, version: &str) -> Result<Arc<DatabasePlugin>, Failure>;

    /// Writes a reservation into the call's unit of work. Gives the handle by which later calls of
    /// the mount end its lease.
    ///
    /// # Errors
    /// `invalid-request` for a tag that is empty, too long or taken; `unsupported-operation` where
    /// the call cannot hand out a lease.
    fn reserve(&self, unit: &mut Unit, reservation: Reservation) -> Result<String, Failure>;

    /// Writes other data into a reservation of this call, in its unit of work.
    ///
    /// # Errors
    /// `not-found` when this call made no such reservation, or withdrew it; `unavailable` when it
    /// was ended meanwhile; `invalid-request` for too much data.
    async fn amend(&self, unit: &mut Unit, tag: &str, internal: String) -> Result<(), Failure>;

    /// Removes the lease with this handle in the call's unit of work, if there is one.
    ///
    /// # Errors
    /// `invalid-request` for what is no handle.
    fn end_issued(&self, unit: &mut Unit, handle: &str) -> Result<(), Failure>;

    /// Withdraws a reservation of this call: the thing was certainly not made.
    ///
    /// # Errors
    /// `not-found` when this call made no such reservation.
    fn withdraw(&self, tag: &str) -> Result<(), Failure>;

    /// Writes a guard into the call's unit of work, in place of what was scheduled under the same
    /// key.
    ///
    /// # Errors
    /// `invalid-request` when the call guards 64 other keys already.
    fn guard(&self, unit: &mut Unit, guard: Guard) -> Result<(), Failure>;

    /// Returns the store time, in milliseconds, before which no timer of this call is due.
    fn earliest_wake(&self) -> u64;

    /// Lets so much of the mount's `lane` run at once, as far as the host allows it.
    fn widen_lane(&self, lane: &str, places: u32);

    /// For how long the mount's `lane` still rests because its target does not answer: zero while
    /// that is being asked.
    fn rest_of_lane(&self, lane: &str) -> Option<Duration>;

    /// Leases of the mount that wait in `lane`, counted up to 10,000.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    async fn lease_count(&self, lane: &str) -> Result<u32, Failure>;

    /// A line for the operator, already scrubbed.
    fn log(&self, level: Level, plugin: &str, event: &str, pairs: &[(String, String)]);
}
