//! The host as an engine sees it: one interface for each import of the world `secrets-engine`.
//!
//! An engine receives `&dyn Host` and reaches nothing else. The interfaces are the real imports in
//! a component, and the [test bed](crate::testbed) in unit tests. Neither shows a Bulkhead token.

mod ambient;
mod crypto;
mod databases;
mod identity;
mod ldap;
mod migration;
mod storage;

use crate::database_plugin::StoreTime;
use crate::http::{Request, Response};
use crate::metric::Metric;
use bulkhead_wire::failure::Failure;

pub use ambient::{Ambient, MachineToken, Pod};
pub use crypto::Crypto;
#[cfg(all(target_family = "wasm", feature = "secrets-engine"))]
pub(crate) use databases::database_kind;
pub use databases::{
    CreationFailure, DatabaseConnection, Databases, ResolvedPlugin, VersionChoice,
};
pub use identity::{Entity, Identity, IdentityToken};
pub use ldap::Ldap;
pub use migration::Migration;
pub use storage::{Entry, PlainValue, RecordPage, Storage};

/// Passes every interface, with the name of its method in [`Host`], to the macro `$say`.
macro_rules! each_face {
    ($say:ident) => {
        $say! {
            /// The mount's own records.
            storage: Storage,
            /// The lease book.
            leases: Leases,
            /// Store time and timers.
            clock: Clock,
            /// Database plugins.
            databases: Databases,
            /// Passwords by policy or alphabet.
            passwords: Passwords,
            /// HTTP requests to other servers.
            http: Http,
            /// LDAP directories.
            ldap: Ldap,
            /// Identity tokens of the mount, and the entities behind its callers.
            identity: Identity,
            /// Values of the server's environment: variables, its pod, its machine in a cloud.
            ambient: Ambient,
            /// Memory that the mount's calls share.
            cache: Cache,
            /// Randomness.
            random: Random,
            /// Signatures, keys, certificates, password hashes, and keys from passwords.
            crypto: Crypto,
            /// The operator's log.
            log: Log,
            /// Metrics for the operator.
            metrics: Metrics,
            /// The cursor between the steps of a migration.
            migration: Migration,
        }
    };
}

#[cfg(all(target_family = "wasm", any(feature = "secrets-engine", feature = "auth-method")))]
pub(crate) use each_face;

macro_rules! declare {
    ($($(#[$doc:meta])* $name:ident: $face:ident,)*) => {
        /// The complete access of an engine to the world outside of its own memory.
        #[cfg(not(all(
            target_family = "wasm",
            any(feature = "secrets-engine", feature = "auth-method")
        )))]
        pub trait Host {
            $($(#[$doc])* fn $name(&self) -> &dyn $face;)*
        }
    };
}

each_face!(declare);

/// The complete access of an engine to the world outside of its own memory. The methods are defined
/// beside the imports of the component.
#[cfg(all(target_family = "wasm", any(feature = "secrets-engine", feature = "auth-method")))]
pub trait Host {}

/// The lease book, limited to the operations of an engine.
pub trait Leases {
    /// Records a lease before the leased thing exists. Use
    /// [`Reservation`](crate::reservation::Reservation), which keeps the order right. Returns a
    /// handle for a later call to end the lease.
    ///
    /// # Errors
    /// Invalid request for a `tag` outside 1 to 256 bytes or used before in the call.
    fn reserve(&self, tag: &str, lane: &str, internal: &str) -> Result<String, Failure>;

    /// Replaces the data kept with a reservation of this call. Buffered like a write. Use
    /// [`CreationProof::make_next`](crate::reservation::CreationProof::make_next), which keeps the
    /// order right.
    ///
    /// # Errors
    /// Not found if this call made no such reservation; unavailable if the reservation has ended
    /// meanwhile.
    fn amend(&self, tag: &str, internal: &str) -> Result<(), Failure>;

    /// Ends the lease of another call of this mount, because the leased thing has already ended.
    /// The lease is not revoked any more. `handle` is
    /// [`ReservedLease::handle`](crate::reservation::ReservedLease::handle). Buffered like a write.
    /// Succeeds if the lease has already ended.
    ///
    /// # Errors
    /// Invalid request if `handle` is not a handle.
    fn end_issued(&self, handle: &str) -> Result<(), Failure>;

    /// Withdraws a reservation of this call, because the thing was certainly not made. Takes effect
    /// even if the call fails.
    ///
    /// # Errors
    /// Not found if this call made no such reservation.
    fn end(&self, tag: &str) -> Result<(), Failure>;

    /// Returns the number of leases of this mount that wait in `lane`, counted up to 10,000.
    ///
    /// # Errors
    /// Unavailable if the store cannot be read.
    fn count(&self, lane: &str) -> Result<u32, Failure>;
}

/// Store time and timers.
pub trait Clock {
    /// Returns the store time.
    fn now(&self) -> StoreTime;

    /// Waits for `milliseconds` before a retry. The time of the call continues to run, and the call
    /// is stopped at its deadline.
    fn pause(&self, milliseconds: u64);

    /// Schedules `wake(key)` for `at` or soon after; a second call for the same key moves the
    /// timer. Buffered like a write.
    ///
    /// # Errors
    /// Invalid request for an empty key.
    fn schedule(&self, key: &str, at: StoreTime, lane: &str) -> Result<(), Failure>;

    /// Schedules `wake(key)` in case this call ends without cancelling the guard. `wake` then runs
    /// at once, also if the process of this call has ended, and never while this call runs.
    /// Buffered like a write. Use [`Intent`](crate::intent::Intent), which keeps the order right.
    ///
    /// # Errors
    /// Invalid request for an empty key, and for the 65th key of a call.
    fn guard(&self, key: &str, lane: &str) -> Result<(), Failure>;

    /// Sets the number of calls for due work of `lane` that run at once: 1 to 16, by default 4. The
    /// number is lost when the process ends, so each call that concerns the lane's target sets the
    /// number again.
    ///
    /// # Errors
    /// Invalid request for an invalid lane name.
    fn widen(&self, lane: &str, places: u32) -> Result<(), Failure>;

    /// Returns the remaining back-off of `lane` in milliseconds, if its target did not answer: 0
    /// while a probe of the target is under way, `None` if the target answers.
    ///
    /// # Errors
    /// Those of the grant.
    fn rest(&self, lane: &str) -> Result<Option<u64>, Failure>;

    /// Removes the timer or guard `key`, if there is one. Buffered like a write.
    ///
    /// # Errors
    /// Unavailable if the store cannot be read.
    fn cancel(&self, key: &str) -> Result<(), Failure>;
}

/// Passwords by policy or alphabet. All passwords that the rules allow are equally likely.
pub trait Passwords {
    /// Generates a password. An empty `policy` means the default policy.
    ///
    /// # Errors
    /// Not found if the policy does not exist.
    fn generate(&self, policy: &str) -> Result<String, Failure>;

    /// Generates a password of `length` characters (1 to 1,024) from `alphabet`, which has 1 to 256
    /// different printable characters.
    ///
    /// # Errors
    /// Invalid request for another length or alphabet.
    fn generate_from(&self, length: u32, alphabet: &str) -> Result<String, Failure>;
}

/// HTTP requests to other servers. The mount's grants list the permitted origins; redirects are not
/// followed.
pub trait Http {
    /// Sends the request and waits for the complete response. An effect, unless the method is GET
    /// or HEAD, or the request is [`safe_post`](Request::safe_post).
    ///
    /// # Errors
    /// Permission denied for an origin without a grant: pass the failure on, its message names the
    /// grant. Invalid request if the request cannot be sent; unreachable, timed out or unavailable
    /// if there is no response. An HTTP status is never an error.
    fn send(&self, request: &Request) -> Result<Response, Failure>;
}

/// Memory that the calls of one mount share. The cache is bounded, and emptied at seal, at restart
/// and when the mount's grants or version change, so never store anything only here. Values stay in
/// the cache even if the call that put them fails.
///
/// Most code uses [`get_or_make`](trait.Cache.html#method.get_or_make).
pub trait Cache {
    /// Returns the value under `key`.
    ///
    /// # Errors
    /// Invalid request for a key outside the contract's rules.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure>;

    /// Returns the value under `key`. If there is none, this call must make the value; other calls
    /// that ask for the key wait for up to ten seconds.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn get_or_lead(&self, key: &str) -> Result<Option<Vec<u8>>, Failure>;

    /// Stores `value` for `ttl` seconds (1 to 86,400), or for less if the cache is full.
    ///
    /// # Errors
    /// As [`get`](Self::get); invalid request for a value over 1 MiB or another `ttl`.
    fn put(&self, key: &str, value: &[u8], ttl: u32) -> Result<(), Failure>;

    /// Removes `key`. Succeeds if the key is absent.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn remove(&self, key: &str) -> Result<(), Failure>;
}

impl dyn Cache + '_ {
    /// Returns the value under `key`. If there is none, `make` makes the value, which is stored for
    /// `ttl` seconds. Only one of many concurrent calls runs `make`, unless that takes longer than
    /// ten seconds.
    ///
    /// # Errors
    /// As [`Cache::put`]; the failure of `make`, and then nothing is stored.
    pub fn get_or_make(
        &self,
        key: &str,
        ttl: u32,
        make: impl FnOnce() -> Result<Vec<u8>, Failure>,
    ) -> Result<Vec<u8>, Failure> {
        if let Some(value) = self.get_or_lead(key)? {
            return Ok(value);
        }
        let value = make()?;
        self.put(key, &value, ttl)?;
        Ok(value)
    }
}

/// The host's secure random generator.
pub trait Random {
    /// Returns `length` random bytes, at most 4,096; a greater `length` ends the call.
    fn bytes(&self, length: u32) -> Vec<u8>;
}

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For the plugin's developer.
    Debug,
    /// Information without need for action.
    Info,
    /// A condition that the operator should watch.
    Warn,
    /// A failure.
    Error,
}

/// The operator's log. The host adds mount, plugin and version, and removes the secrets of the
/// call.
pub trait Log {
    /// Writes a line. `event` is a fixed word (`rotation-delayed`); the variable parts go into
    /// `pairs`.
    fn write(&self, level: LogLevel, event: &str, pairs: &[(&str, &str)]);
}

/// Metrics for the operator. They count even if the call fails. A call that is run again after a
/// conflict reports its metrics again, so report a metric about an effect after the effect. `label`
/// is one of the metric's label values, or empty if the metric has no label; a figure with another
/// label is dropped.
pub trait Metrics {
    /// Adds `amount` to a counter.
    fn count(&self, metric: &Metric, label: &str, amount: u64);

    /// Sets a gauge to `value`.
    fn set(&self, metric: &Metric, label: &str, value: f64);

    /// Adds an observation to a summary.
    fn observe(&self, metric: &Metric, label: &str, value: f64);
}
