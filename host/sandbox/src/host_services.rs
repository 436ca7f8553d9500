//! The interface from the sandbox to core. The sandbox calls the layers above only through it.

use crate::database_plugin::DatabasePlugin;
use crate::identity::ComponentIdentity;
use async_trait::async_trait;
use bulkhead_store::{Address, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use std::time::Duration;

/// A lease that a plugin writes down before the secret of the lease exists.
pub struct ReservationRequest {
    /// Unique in the call; the secret that confirms the reservation carries the same tag.
    pub tag: String,
    /// The target. A fault of the target must not stall other lanes.
    pub lane: String,
    /// JSON text that only the plugin reads.
    pub internal: String,
}

/// A timer that wakes the mount, unless the call that set the timer cancels it before the call
/// ends.
pub struct TimerGuard {
    /// The address of the timer's row.
    pub timer: Address,
    /// The full lane, with the mount as prefix, as the row is indexed.
    pub lane: String,
    /// Latest time at which the call is stopped, as store time in milliseconds.
    pub deadline: u64,
}

/// The person or machine behind logins, as far as a mount may see it.
pub struct VisibleEntity {
    /// The id, which may differ from the requested id: entities are merged.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// Metadata from operators.
    pub metadata: Vec<(String, String)>,
}

/// A token by which a mount proves its identity to other services.
pub struct IdentityToken {
    /// The token, which is a secret.
    pub token: String,
    /// Expiry, as store time in milliseconds.
    pub expires: u64,
}

/// The version of a database plugin that the writer of a connection asks for.
#[derive(Clone, Copy)]
pub struct ConnectionChoice<'a> {
    /// Name or alias of the plugin.
    pub plugin: &'a str,
    /// Semantic version; empty: the pinned version, or else the newest version.
    pub version: &'a str,
    /// `version` counts although another version is pinned.
    pub overrides_pin: bool,
    /// The connection keeps the version that serves the connection now.
    pub keeps: bool,
}

/// Core's services for a call. Made for each root call, so that core knows mount, caller and
/// deadline.
#[async_trait]
pub trait HostServices: Send + Sync {
    /// Generates a password by the named policy, read in the call's unit of work. An empty name
    /// means the default policy.
    ///
    /// # Errors
    /// `not-found` if the policy does not exist.
    async fn password(&self, unit: &mut Unit, policy: &str) -> Result<String, Failure>;

    /// Generates a password of `length` characters of an alphabet.
    ///
    /// # Errors
    /// `invalid-request` for a length or an alphabet outside the contract's bounds.
    fn password_from(&self, length: u32, alphabet: &str) -> Result<String, Failure>;

    /// Signs a token for `audience` with a lifetime of at most `ttl` seconds; 0 means an hour.
    ///
    /// # Errors
    /// `invalid-request` for an invalid audience; `precondition-failed` if the server has no
    /// issuer, or the mount's key is gone; `unavailable` if the store does not answer.
    async fn identity_token(&self, audience: &str, ttl: u64) -> Result<IdentityToken, Failure>;

    /// Returns the entity with this id if it is the caller's own or has an alias at the mount.
    ///
    /// # Errors
    /// `unavailable` if the store does not answer.
    async fn entity(&self, id: &str) -> Result<Option<VisibleEntity>, Failure>;

    /// Returns the database plugin with this name and version. With an empty version, returns the
    /// version that a connection without a choice has.
    ///
    /// # Errors
    /// `not-found`, with a list of the known plugins.
    fn database_plugin(&self, name: &str, version: &str) -> Result<Arc<DatabasePlugin>, Failure>;

    /// Returns the database plugin that serves the mount's connection `connection`: the version of
    /// the last choice, or else the plugin with this name and version.
    ///
    /// # Errors
    /// `not-found`, with a list of the known plugins; `unavailable` if the store cannot be read.
    async fn serving_plugin(
        &self,
        connection: &str,
        name: &str,
        version: &str,
    ) -> Result<Arc<DatabasePlugin>, Failure>;

    /// Chooses the version that serves the mount's connection `connection`, as a write of the
    /// call's unit of work.
    ///
    /// # Errors
    /// `not-found`, with a list of the known plugins or versions; `invalid-request` if another
    /// version is pinned.
    async fn choose_plugin(
        &self,
        unit: &mut Unit,
        connection: &str,
        choice: ConnectionChoice<'_>,
    ) -> Result<Arc<DatabasePlugin>, Failure>;

    /// Deletes the choice of a connection that is removed, as a write of the call's unit of work.
    fn release_plugin(&self, unit: &mut Unit, connection: &str);

    /// Loads the code of a database plugin that is about to be called first.
    ///
    /// # Errors
    /// `unavailable` while the code is being compiled, or if the store does not answer.
    async fn load_database_plugin(&self, plugin: &Arc<DatabasePlugin>) -> Result<(), Failure>;

    /// Writes a reservation into the call's unit of work. Returns the handle by which later calls
    /// of the mount end the lease.
    ///
    /// # Errors
    /// `invalid-request` for a tag that is empty, too long or taken; `unsupported-operation` if the
    /// call cannot hand out a lease.
    fn reserve(&self, unit: &mut Unit, reservation: ReservationRequest) -> Result<String, Failure>;

    /// Replaces the data of a reservation of this call, in the call's unit of work.
    ///
    /// # Errors
    /// `not-found` if this call made no such reservation, or withdrew the reservation;
    /// `unavailable` if the reservation was ended meanwhile; `invalid-request` for too much data.
    async fn amend(&self, unit: &mut Unit, tag: &str, internal: String) -> Result<(), Failure>;

    /// Removes the lease with this handle in the call's unit of work, if the lease exists.
    ///
    /// # Errors
    /// `invalid-request` for an invalid handle.
    fn end_issued(&self, unit: &mut Unit, handle: &str) -> Result<(), Failure>;

    /// Withdraws a reservation of this call: the reserved secret certainly was not created.
    ///
    /// # Errors
    /// `not-found` if this call made no such reservation.
    fn withdraw(&self, tag: &str) -> Result<(), Failure>;

    /// Writes a guard into the call's unit of work. Replaces a timer with the same key.
    ///
    /// # Errors
    /// `invalid-request` if the call guards 64 other keys already.
    fn guard(&self, unit: &mut Unit, guard: TimerGuard) -> Result<(), Failure>;

    /// Returns the store time, in milliseconds, before which no timer of this call is due.
    fn earliest_wake(&self) -> u64;

    /// Lets `places` calls of the mount's `lane` run at once, within the host's limit.
    fn widen_lane(&self, lane: &str, places: u32);

    /// Returns the remaining rest of the mount's `lane`, if the target does not answer. Zero while
    /// an attempt probes the target, `None` if the target is not down.
    fn rest_of_lane(&self, lane: &str) -> Option<Duration>;

    /// Counts the mount's leases that wait in `lane`, up to 10,000.
    ///
    /// # Errors
    /// `unavailable` if the store does not answer.
    async fn lease_count(&self, lane: &str) -> Result<u32, Failure>;

    /// Returns the cursor at which this step of a migration begins; `None` in the first step.
    ///
    /// # Errors
    /// `unsupported-operation` for a call that is not a migration.
    fn migration_cursor(&self) -> Result<Option<String>, Failure>;

    /// Sets the cursor of the next step of this migration.
    ///
    /// # Errors
    /// `unsupported-operation` for a call that is not a migration; `invalid-request` for a cursor
    /// that is too long, or the cursor of this step.
    fn continue_migration(&self, cursor: String) -> Result<(), Failure>;

    /// Returns true in dev mode: the failure of a crashed call then shows the last words of the
    /// component and the backtrace to the caller.
    fn shows_crashes(&self) -> bool {
        false
    }

    /// Writes a line to the operator's log. The texts are already scrubbed.
    fn log(
        &self,
        level: LogLevel,
        plugin: &ComponentIdentity,
        event: &str,
        pairs: &[(String, String)],
    );
}
