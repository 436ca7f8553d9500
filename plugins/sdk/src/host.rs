//! The host as an engine sees it, one face for each import of the world `secrets-engine`.
//!
//! An engine receives `&dyn Host` and reaches nothing else. In a component the faces are the real
//! imports, in unit tests they are the [test bed](crate::testbed). Neither shows a token of ours.

use crate::database_plugin::{Configured, Credential, NewUser, Settings, StoreTime};
use crate::http::{Request, Response};
use bulkhead_wire::description::DatabaseDescription;
use bulkhead_wire::failure::{Failure, Kind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Everything that an engine may ask for.
pub trait Host {
    /// The mount's own records.
    fn storage(&self) -> &dyn Storage;
    /// The lease book.
    fn leases(&self) -> &dyn Leases;
    /// Store time and timers.
    fn clock(&self) -> &dyn Clock;
    /// Database plugins.
    fn databases(&self) -> &dyn Databases;
    /// Passwords by policy.
    fn passwords(&self) -> &dyn Passwords;
    /// Other servers.
    fn http(&self) -> &dyn Http;
    /// What the mount's calls keep for each other in memory.
    fn cache(&self) -> &dyn Cache;
    /// Randomness.
    fn random(&self) -> &dyn Random;
    /// The operator's log.
    fn log(&self) -> &dyn Log;
}

/// The mount's own storage inside the call's unit of work: writes are buffered, and the engine sees
/// its own.
///
/// Most code uses the JSON methods [`get`](trait.Storage.html#method.get) and
/// [`put`](trait.Storage.html#method.put).
pub trait Storage {
    /// The bytes under `key` with their place in the mount's history; `None` when it is absent,
    /// which is remembered too.
    ///
    /// # Errors
    /// Invalid request for keys outside the contract's rules; unavailable when the store cannot be
    /// read.
    fn entry_bytes(&self, key: &str) -> Result<Option<Entry<Vec<u8>>>, Failure>;

    /// The bytes under `key`.
    ///
    /// # Errors
    /// As [`entry_bytes`](Self::entry_bytes).
    fn get_bytes(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.entry_bytes(key)?.map(|entry| entry.value))
    }

    /// Buffers `value` under `key`.
    ///
    /// # Errors
    /// Invalid request for keys outside the contract's rules and values over 1 MiB.
    fn put_bytes(&self, key: &str, value: Vec<u8>) -> Result<(), Failure>;

    /// Buffers the removal of `key`. An absent key is success.
    ///
    /// # Errors
    /// As [`put_bytes`](Self::put_bytes).
    fn delete(&self, key: &str) -> Result<(), Failure>;

    /// Up to `limit` (1 to 1,000) keys below `prefix` and after `after`, in order and without the
    /// prefix.
    ///
    /// # Errors
    /// As [`get_bytes`](Self::get_bytes).
    fn keys(&self, prefix: &str, after: &str, limit: u32) -> Result<Vec<String>, Failure>;

    /// Commits what is buffered, before an effect. Earlier reads are no longer validated. Things
    /// that end should use [`Reservation`](crate::reservation::Reservation), and things that roll
    /// forward [`Intent`](crate::intent::Intent), which call this at the right moment. Gives the
    /// index of the commit; 0 where nothing was written, or the engine is not
    /// [`INDEXED`](crate::SecretsEngine::INDEXED).
    ///
    /// # Errors
    /// Conflict when something that was read has changed: pass it on, the host runs the call again
    /// if it may.
    fn checkpoint(&self) -> Result<u64, Failure>;
}

/// A record with its place in the mount's history. Both indexes are 0 for what the call wrote
/// itself and has not committed, and for every record of an engine that is not
/// [`INDEXED`](crate::SecretsEngine::INDEXED).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// What was stored.
    pub value: T,
    /// Index at which the key was created.
    pub created: u64,
    /// Index at which it was last written.
    pub modified: u64,
}

impl dyn Storage + '_ {
    /// The record under `key`.
    ///
    /// # Errors
    /// As [`Storage::get_bytes`]; internal when the record does not have the shape of `T`.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Failure> {
        Ok(self.entry(key)?.map(|entry| entry.value))
    }

    /// The record under `key` with its place in the mount's history.
    ///
    /// # Errors
    /// As [`get`](trait.Storage.html#method.get).
    pub fn entry<T: DeserializeOwned>(&self, key: &str) -> Result<Option<Entry<T>>, Failure> {
        let Some(Entry { value, created, modified }) = self.entry_bytes(key)? else {
            return Ok(None);
        };
        // The parser's own words are left out, because they can quote a stored secret.
        let value = serde_json::from_slice(&value).map_err(|_| {
            Failure::internal(format!(
                "the record {key:?} cannot be read; a newer version may have written it"
            ))
        })?;
        Ok(Some(Entry { value, created, modified }))
    }

    /// Buffers `record` under `key`.
    ///
    /// # Errors
    /// As [`Storage::put_bytes`]; internal when `record` cannot be written as JSON.
    pub fn put<T: Serialize>(&self, key: &str, record: &T) -> Result<(), Failure> {
        let bytes = serde_json::to_vec(record).map_err(|_| {
            Failure::internal(format!("the record {key:?} cannot be written as JSON"))
        })?;
        self.put_bytes(key, bytes)
    }
}

/// The lease book, as far as an engine may write in it.
pub trait Leases {
    /// Writes a lease down before the thing it will end exists. Use
    /// [`Reservation`](crate::reservation::Reservation), which keeps the order right.
    ///
    /// # Errors
    /// Invalid request for a `tag` outside 1 to 256 bytes or used before in the call.
    fn reserve(&self, tag: &str, lane: &str, internal: &Value) -> Result<(), Failure>;

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

    /// Forgets the timer or guard `key`, if there is one. Buffered like a write.
    ///
    /// # Errors
    /// Unavailable when the store cannot be read.
    fn cancel(&self, key: &str) -> Result<(), Failure>;
}

/// The connection a call is about. No `Debug`: its settings hold a password.
#[derive(Clone, PartialEq)]
pub struct Connection {
    /// The database plugin's name or an alias of it.
    pub plugin: String,
    /// Semantic version; empty for the one that the catalog chooses.
    pub version: String,
    /// The connection's name.
    pub name: String,
    /// Grows with every change, so that the host retires the sessions of older settings.
    pub generation: u64,
    /// As `configure` returned them.
    pub settings: Settings,
}

/// A database plugin as it would be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The version that runs.
    pub version: String,
    /// What it says of itself.
    pub description: DatabaseDescription,
}

/// Database plugins, reached through the host; each method but the first and the last is the
/// plugin's own function.
///
/// Failures carry the plugin's sentence. A code that only database plugins use (`refused`,
/// `statement-failed`, `owns-objects` …) arrives as an invalid request: a refusal of an upstream is
/// the caller's to solve (decision P4).
pub trait Databases {
    /// Finds the plugin.
    ///
    /// # Errors
    /// Not found, with a message that says which there are.
    fn resolve(&self, plugin: &str, version: &str) -> Result<Resolved, Failure>;
    /// Checks and normalises the connection's settings. No I/O.
    ///
    /// # Errors
    /// Invalid request for settings that the plugin cannot use.
    fn configure(&self, connection: &Connection) -> Result<Configured, Failure>;
    /// Whether the plugin can read the statements. No I/O.
    ///
    /// # Errors
    /// Invalid request naming the statement.
    fn check_statements(
        &self,
        connection: &Connection,
        statements: &[String],
    ) -> Result<(), Failure>;
    /// Logs in and asks a harmless question.
    ///
    /// # Errors
    /// Unreachable or timed out; invalid request when the login is refused.
    fn verify(&self, connection: &Connection) -> Result<(), Failure>;
    /// Chooses a new user's name. No I/O.
    ///
    /// # Errors
    /// Invalid request for a template that cannot be rendered.
    fn plan_username(
        &self,
        connection: &Connection,
        display_name: &str,
        role_name: &str,
    ) -> Result<String, Failure>;
    /// Creates the user, all or nothing where the database can. An effect.
    ///
    /// # Errors
    /// As [`verify`](Self::verify); invalid request when a statement fails.
    fn create_user(
        &self,
        connection: &Connection,
        user: &NewUser,
        statements: &[String],
        rollback: &[String],
    ) -> Result<(), Failure>;
    /// Gives `username` a new credential. An effect.
    ///
    /// # Errors
    /// As [`create_user`](Self::create_user).
    fn change_credential(
        &self,
        connection: &Connection,
        username: &str,
        credential: &Credential,
        current: Option<&Credential>,
        statements: &[String],
    ) -> Result<(), Failure>;
    /// Moves the date at which the database stops accepting the credential. An effect.
    ///
    /// # Errors
    /// As [`create_user`](Self::create_user).
    fn set_expiration(
        &self,
        connection: &Connection,
        username: &str,
        expires: StoreTime,
        statements: &[String],
    ) -> Result<(), Failure>;
    /// Removes the user, what it holds and its sessions; a user that is gone is success. An effect.
    ///
    /// # Errors
    /// As [`create_user`](Self::create_user).
    fn delete_user(
        &self,
        connection: &Connection,
        username: &str,
        statements: &[String],
    ) -> Result<(), Failure>;
    /// Whether `username` can log in with `credential`; `None` where the database cannot tell.
    ///
    /// # Errors
    /// Unreachable or timed out.
    fn check_credential(
        &self,
        connection: &Connection,
        username: &str,
        credential: &Credential,
    ) -> Result<Option<bool>, Failure>;
    /// Closes every session of this mount's connection `name`. A later call opens new ones.
    fn close(&self, name: &str);
}

/// Passwords by policy.
pub trait Passwords {
    /// A new password. An empty `policy` means the default one.
    ///
    /// # Errors
    /// Not found when there is no such policy.
    fn generate(&self, policy: &str) -> Result<String, Failure>;
}

/// Other servers. What may be asked is what the mount was granted, origin by origin; redirects are
/// not followed.
pub trait Http {
    /// Sends the request and waits for the whole answer. An effect, unless its method is GET or
    /// HEAD.
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
    /// For whoever develops the plugin.
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

/// The kind behind a code from a database plugin. Those that the contract does not list with a
/// status are refusals of the plugin or of its database, for the caller to solve; `internal` stays
/// a fault.
#[cfg_attr(
    not(all(target_family = "wasm", feature = "secrets-engine")),
    allow(dead_code, reason = "only the imports of a secrets engine speak in codes")
)]
pub(crate) fn database_kind(code: &str) -> Kind {
    match Kind::of_code(code) {
        Kind::Internal if code != Kind::Internal.code() => Kind::InvalidRequest,
        kind => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::database_kind;
    use bulkhead_wire::failure::Kind;

    #[test]
    fn a_refusal_of_the_database_is_the_callers_to_solve_and_a_fault_stays_a_fault() {
        for code in [
            "refused",
            "statement-failed",
            "owns-objects",
            "invalid-config",
            "unsupported",
            "its-own-code",
        ] {
            assert_eq!(database_kind(code), Kind::InvalidRequest, "{code}");
        }
        assert_eq!(database_kind("unreachable"), Kind::Unreachable);
        assert_eq!(database_kind("timed-out"), Kind::TimedOut);
        assert_eq!(database_kind("conflict"), Kind::Conflict);
        assert_eq!(database_kind("internal"), Kind::Internal);
    }
}
