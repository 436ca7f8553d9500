//! The host as an engine sees it, one face for each import of the world `secrets-engine`.
//!
//! An engine receives `&dyn Host` and reaches nothing else. In a component the faces are the real
//! imports, in unit tests they are the [test bed](crate::testbed). Neither shows a token of ours.

mod ambient;
mod crypto;
mod databases;
mod identity;
mod ldap;
mod storage;

use crate::database_plugin::StoreTime;
use crate::http::{Request, Response};
use crate::metric::Metric;
use bulkhead_wire::failure::Failure;

pub use ambient::{Ambient, MachineToken, Pod};
pub use crypto::Crypto;
#[cfg(all(target_family = "wasm", feature = "secrets-engine"))]
pub(crate) use databases::database_kind;
pub use databases::{Connection, Databases, Resolved, Unmade};
pub use identity::{Entity, Identity, IdentityToken};
pub use ldap::Ldap;
pub use storage::{Entry, Page, Plain, Storage};

/// Hands every face to the macro `$say`, with its name in [`Host`].
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
            /// Other servers.
            http: Http,
            /// Directories.
            ldap: Ldap,
            /// Who the mount is, towards others, and whom it knows.
            identity: Identity,
            /// What the server has from its surroundings.
            ambient: Ambient,
            /// What the mount's calls keep for each other in memory.
            cache: Cache,
            /// Randomness.
            random: Random,
            /// Signatures, keys, certificates, password hashes, and keys from passwords.
            crypto: Crypto,
            /// The operator's log.
            log: Log,
            /// Figures for the operator.
            metrics: Metrics,
        }
    };
}

#[cfg(all(target_family = "wasm", any(feature = "secrets-engine", feature = "auth-method")))]
pub(crate) use each_face;

macro_rules! declare {
    ($($(#[$doc:meta])* $name:ident: $face:ident,)*) => {
        /// Everything that an engine may ask for.
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

/// Everything that an engine may ask for. In a component its faces are found where its imports are.
#[cfg(all(target_family = "wasm", any(feature = "secrets-engine", feature = "auth-method")))]
pub trait Host {}

/// The lease book, as far as an engine may write in it.
pub trait Leases {
    /// Writes a lease down before the thing it will end exists. Use
    /// [`Reservation`](crate::reservation::Reservation), which keeps the order right. Gives the
    /// handle by which a later call can end the lease.
    ///
    /// # Errors
    /// Invalid request for a `tag` outside 1 to 256 bytes or used before in the call.
    fn reserve(&self, tag: &str, lane: &str, internal: &str) -> Result<String, Failure>;

    /// Replaces what a reservation of this call keeps. Buffered like a write. Use
    /// [`Made::go_on`](crate::reservation::Made::go_on), which keeps the order right.
    ///
    /// # Errors
    /// Not found when this call made no such reservation; unavailable when it was ended meanwhile.
    fn amend(&self, tag: &str, internal: &str) -> Result<(), Failure>;

    /// Ends the lease of another call of this mount, because the thing behind it is over: it is not
    /// revoked any more. `handle` is [`Reserved::handle`](crate::reservation::Reserved::handle).
    /// Buffered like a write; one that has ended is success.
    ///
    /// # Errors
    /// Invalid request for what is no handle.
    fn end_issued(&self, handle: &str) -> Result<(), Failure>;

    /// Withdraws a reservation of this call, because the thing was certainly not made. Counts also
    /// when the call fails.
    ///
    /// # Errors
    /// Not found when this call made no such reservation.
    fn end(&self, tag: &str) -> Result<(), Failure>;

    /// How many leases of this mount wait in `lane`, counted up to 10,000.
    ///
    /// # Errors
    /// Unavailable when the store cannot be read.
    fn count(&self, lane: &str) -> Result<u32, Failure>;
}

/// Store time, and how it reaches an engine.
pub trait Clock {
    /// Store time.
    fn now(&self) -> StoreTime;

    /// Lets so many milliseconds pass before something is tried again. The call goes on counting,
    /// and is stopped at its deadline.
    fn pause(&self, milliseconds: u64);

    /// Asks for `wake(key)` at `at` or soon after; a second call moves it. Buffered like a write.
    ///
    /// # Errors
    /// Invalid request for an empty key.
    fn schedule(&self, key: &str, at: StoreTime, lane: &str) -> Result<(), Failure>;

    /// Asks for `wake(key)` if this call ends without cancelling it: at once then, or when its
    /// process is gone, and never while it runs. Buffered like a write. Use
    /// [`Intent`](crate::intent::Intent), which keeps the order right.
    ///
    /// # Errors
    /// Invalid request for an empty key, and for the 65th key of a call.
    fn guard(&self, key: &str, lane: &str) -> Result<(), Failure>;

    /// Lets so much of `lane` run at once, within 1 and 16; 4 where nothing was said. Forgotten
    /// when the process ends, so it is said in each call that is about the lane's target.
    ///
    /// # Errors
    /// Invalid request for what is no lane's name.
    fn widen(&self, lane: &str, places: u32) -> Result<(), Failure>;

    /// For how many milliseconds `lane` still rests because its target did not answer: 0 while that
    /// is being asked, `None` where it answers.
    ///
    /// # Errors
    /// Those of the grant.
    fn rest(&self, lane: &str) -> Result<Option<u64>, Failure>;

    /// Forgets the timer or guard `key`, if there is one. Buffered like a write.
    ///
    /// # Errors
    /// Unavailable when the store cannot be read.
    fn cancel(&self, key: &str) -> Result<(), Failure>;
}

/// Passwords by policy or alphabet, each as likely as the others.
pub trait Passwords {
    /// A new password. An empty `policy` means the default one.
    ///
    /// # Errors
    /// Not found when there is no such policy.
    fn generate(&self, policy: &str) -> Result<String, Failure>;

    /// A new password of `length` characters, 1 to 1,024, each of them any of `alphabet`, which has
    /// 1 to 256 different printable ones.
    ///
    /// # Errors
    /// Invalid request for what is neither.
    fn generate_from(&self, length: u32, alphabet: &str) -> Result<String, Failure>;
}

/// Other servers. What may be asked is what the mount was granted, origin by origin; redirects are
/// not followed.
pub trait Http {
    /// Sends the request and waits for the whole answer. An effect, unless its method is GET or
    /// HEAD, or it is [`asking`](Request::asking).
    ///
    /// # Errors
    /// Permission denied for an origin that was not granted: pass it on, it names the grant.
    /// Invalid request for what cannot be sent; unreachable, timed out or unavailable when there is
    /// no answer. A status is never an error.
    fn send(&self, request: &Request) -> Result<Response, Failure>;
}

/// What the mount's calls keep for each other in memory: bounded, and gone at seal, at restart and
/// when the mount's grants or version change. Never the only place of anything. What a call puts
/// stays also when the call fails.
///
/// Most code uses [`get_or_make`](trait.Cache.html#method.get_or_make).
pub trait Cache {
    /// The value under `key`.
    ///
    /// # Errors
    /// Invalid request for a key outside the contract's rules.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure>;

    /// The value under `key`; where there is none, this call makes it, and others that ask wait for
    /// a while.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn get_or_lead(&self, key: &str) -> Result<Option<Vec<u8>>, Failure>;

    /// Keeps `value` for `ttl` seconds, 1 to 86,400, or for less where there is no room.
    ///
    /// # Errors
    /// As [`get`](Self::get); invalid request for a value over 1 MiB and another `ttl`.
    fn put(&self, key: &str, value: &[u8], ttl: u32) -> Result<(), Failure>;

    /// Forgets `key`. An absent one is success.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn remove(&self, key: &str) -> Result<(), Failure>;
}

impl dyn Cache + '_ {
    /// The value under `key`, or the one that `make` makes, which is kept for `ttl` seconds. Of
    /// many calls at once one makes it, unless that takes longer than ten seconds.
    ///
    /// # Errors
    /// As [`Cache::put`]; what `make` fails with, and nothing is kept then.
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
    /// `length` bytes, at most 4,096.
    fn bytes(&self, length: u32) -> Vec<u8>;
}

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For the plugin's developer.
    Debug,
    /// Worth knowing.
    Info,
    /// Something needs an eye on it.
    Warn,
    /// Something failed.
    Error,
}

/// The operator's log; the host adds mount, plugin and version, and scrubs the secrets of the call.
pub trait Log {
    /// `event` is a fixed word (`rotation-delayed`); what varies goes into `pairs`.
    fn write(&self, level: Level, event: &str, pairs: &[(&str, &str)]);
}

/// Figures for the operator. They count also when the call fails, and a call that is run again
/// after a conflict gives them again: give what is about an effect after it. `label` is one of the
/// metric's values, or empty where it has no label; any other is dropped.
pub trait Metrics {
    /// Adds to a counter.
    fn count(&self, metric: &Metric, label: &str, amount: u64);

    /// Says where a gauge stands.
    fn set(&self, metric: &Metric, label: &str, value: f64);

    /// Adds one observation to a summary.
    fn observe(&self, metric: &Metric, label: &str, value: f64);
}
