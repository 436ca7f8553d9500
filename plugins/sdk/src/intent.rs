//! Changes that roll forward. Each change is recorded before it is made, so that no crash leaves a
//! password in force that the store does not know.
//!
//! The fault this file rules out: a process that dies between `ALTER ROLE … PASSWORD` and the
//! commit that stores the password. The order is written only here: candidate and guard,
//! checkpoint, effect, verification, and the new state in the commit that removes the intent. Each
//! step consumes the result of the previous step, so that another order does not compile. If a step
//! after the checkpoint fails, the guard wakes the engine, which finds the candidate in force and
//! continues. **No candidate is forgotten before another is proven.**
//!
//! # Change of a password
//!
//! ```
//! use bulkhead_sdk::database_plugin::Credential;
//! use bulkhead_sdk::host::DatabaseConnection;
//! use bulkhead_sdk::intent::{self, EarlierCandidates, CandidateSearch, Intent, ProvenCandidate};
//! use bulkhead_sdk::table::{Row, write};
//! use bulkhead_sdk::{Answer, Call, Context, Failure, Host, MountedPlugin, SecretsEngine};
//!
//! struct Rotation;
//!
//! impl MountedPlugin for Rotation {
//!     const NAME: &'static str = "rotation";
//!     const VERSION: &'static str = "1.0.0";
//!     const SCHEMA: u32 = 1;
//!     const ABOUT: &'static str = "Changes the password of the user `app`.";
//!     const TABLE: &'static [Row] = &[write("rotate", rotate).about("Changes it now.")];
//!
//!     fn wake(host: &dyn Host, _: &Context, key: &str, _attempt: u32) -> Result<(), Failure> {
//!         match intent::key_of(key) {
//!             Some("app") => finish(host),
//!             _ => Ok(()),
//!         }
//!     }
//! }
//!
//! impl SecretsEngine for Rotation {}
//!
//! fn rotate(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
//!     let intent = Intent::begin(host, "app", "orders", host.passwords().generate("")?)?;
//!     store(host, change(host, intent)?)?;
//!     Ok(Answer::nothing())
//! }
//!
//! /// Finishes the change of a call that failed or died.
//! fn finish(host: &dyn Host) -> Result<(), Failure> {
//!     let Some(intent) = Intent::recover(host, "app")? else { return Ok(()) };
//!     let intent = match intent.find_in_force(|candidate: &String| works(host, candidate))? {
//!         CandidateSearch::InForce(proven) => return store(host, proven),
//!         CandidateSearch::Nowhere(intent) => intent,
//!     };
//!     let current: Option<String> = host.storage().get_plain("password")?;
//!     let intent = match current {
//!         // The old password still works: perhaps the target refuses the candidate.
//!         Some(old) if works(host, &old)? => {
//!             intent.restart(host, host.passwords().generate("")?, EarlierCandidates::Disproven)?
//!         }
//!         // No password is known to work: try the same candidate again.
//!         _ => intent,
//!     };
//!     store(host, change(host, intent)?)
//! }
//!
//! fn change(host: &dyn Host, intent: Intent<String>) -> Result<ProvenCandidate<String>, Failure> {
//!     intent.make(
//!         |new| {
//!             let new = Credential::Password(new.clone());
//!             host.databases().change_credential(&orders(), "app", &new, None, &[])
//!         },
//!         |new, ()| match works(host, new)? {
//!             true => Ok(()),
//!             false => Err(Failure::invalid("the new password does not work")),
//!         },
//!     )
//! }
//!
//! fn store(host: &dyn Host, proven: ProvenCandidate<String>) -> Result<(), Failure> {
//!     proven.confirm(host, |password, ()| host.storage().put_plain("password", password))
//! }
//!
//! fn works(host: &dyn Host, password: &str) -> Result<bool, Failure> {
//!     let credential = Credential::Password(password.to_owned());
//!     Ok(host.databases().check_credential(&orders(), "app", &credential)?.unwrap_or(false))
//! }
//! # fn orders() -> DatabaseConnection {
//! #     DatabaseConnection {
//! #         plugin: "test".to_owned(),
//! #         version: String::new(),
//! #         name: "orders".to_owned(),
//! #         generation: 1,
//! #         settings: serde_json::Map::new(),
//! #     }
//! # }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use bulkhead_sdk::database_plugin::NewUser;
//! use bulkhead_sdk::testbed::TestBed;
//! use serde_json::json;
//!
//! let bed = TestBed::<Rotation>::new()?;
//! # let first = Credential::Password("first".to_owned());
//! # let first = NewUser { username: "app".to_owned(), credential: first, expires: 0 };
//! # let databases = (&bed.host as &dyn Host).databases();
//! # databases.create_accounts(&orders(), &first, &[], &[]).expect("a user");
//! bed.host.die_after("change-credential");
//! assert!(bed.write("rotate", &json!({})).is_err(), "only the database knows the new password");
//! assert_eq!(bed.run_guards()?, 1);
//! assert_eq!(bed.host.stored("password"), Some(json!("Generated-Password-1")), "rolled forward");
//! # Ok(())
//! # }
//! ```
//!
//! # Secrets that a provider makes
//!
//! If the provider chooses the secret, the candidate is the state before the change (the ids of the
//! existing keys), the effect returns the new secret, and [`ProvenCandidate::confirm`] passes the
//! secret on. A recovery cannot learn a secret shown only once: the recovery lists the keys,
//! deletes the new keys of this engine, and makes a key again ([`Intent::make`] on the recovered
//! intent).

mod hold;
mod open;

use crate::host::{Host, LogLevel};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::stored::Stored;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use hold::{check_hold, forget, name, new_hold};
pub use open::{is_open, make_due, step_aside};

/// Prefix of the keys of intent records and their timers.
const PREFIX: &str = "intent/";
/// Maximum number of candidates of an intent. A target that counts failed logins locks the account.
const MOST_CANDIDATES: usize = 32;
/// Random bytes in the name of a hold, which tells one call's hold of an intent from every other.
const HOLD: u32 = 16;

/// Returns the key of the intent with the timer `timer`; `None` for an engine's own timers, which
/// must not have keys that begin with `intent/`.
#[must_use]
pub fn key_of(timer: &str) -> Option<&str> {
    timer.strip_prefix(PREFIX)
}

/// The stored form of an intent, under the key of the intent's timer. A candidate that is a struct
/// follows the rule of [`bulkhead_wire::stored`], too, because the candidate is part of this
/// record.
#[derive(Serialize, Deserialize)]
struct IntentRecord<C> {
    /// Name that changes with every call that takes over the intent, so that only the last call can
    /// confirm the intent.
    hold: String,
    lane: String,
    newest: C,
    /// Earlier candidates, oldest first.
    older: Vec<C>,
}

impl<C: Serialize + DeserializeOwned> Stored for IntentRecord<C> {
    const KIND: &'static str = "intent";
}

/// An external change that is recorded, committed and guarded, with a result that is not known yet.
///
/// `C` is the candidate: a password, a key, or the provider's state before the change. No `Debug`:
/// the candidate is a secret.
#[must_use = "an unconfirmed intent is finished by the engine's wake"]
pub struct Intent<C> {
    key: String,
    record: IntentRecord<C>,
}

/// Proof that the candidate is in force. `T` is the other result of the effect.
#[must_use = "only a confirmation stores the new state"]
pub struct ProvenCandidate<C, T = ()> {
    key: String,
    hold: String,
    candidate: C,
    made: T,
}

/// Result of a search for the candidate in force.
pub enum CandidateSearch<C> {
    /// A candidate is in force: confirm the candidate.
    InForce(ProvenCandidate<C>),
    /// No candidate is in force. Check whether the state before the intent is in force, and
    /// [`restart`](Intent::restart), [`make`](Intent::make) the newest candidate again, or
    /// [`abandon`](Intent::abandon).
    Nowhere(Intent<C>),
}

/// Treatment of the earlier candidates when a new candidate is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierCandidates {
    /// Keeps the earlier candidates, because any of them may be in force.
    Kept,
    /// Drops the earlier candidates, because the state before the intent is proven to be in force.
    Disproven,
}

/// Reason to end an intent without a candidate in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntentEndReason {
    /// The state before the intent is proven to be in force, and is to stay.
    Unchanged,
    /// The object of the change is gone: the role was deleted, the account removed.
    Unwanted,
}

impl<C: Serialize + DeserializeOwned> Intent<C> {
    /// Records that `candidate` is about to be put in force, sets a guard, and commits both
    /// together with the buffered writes of the call. `key` names the object of the change, within
    /// the rules of storage keys; `lane` names the target, so that trouble with this target does
    /// not delay work for others.
    ///
    /// # Errors
    /// Unavailable while an earlier intent with that key is not finished. Failures of storage,
    /// clock or checkpoint.
    pub fn begin(host: &dyn Host, key: &str, lane: &str, candidate: C) -> Result<Self, Failure> {
        if is_open(host, key)? {
            let message = format!(
                "an earlier change of {key:?} is not finished yet and goes on by itself; try later"
            );
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        let (hold, lane) = (new_hold(host), lane.to_owned());
        let record = IntentRecord { hold, lane, newest: candidate, older: Vec::new() };
        Self { key: key.to_owned(), record }.write_down(host)
    }

    /// Takes over the intent of an earlier call, if there is one; from then on only this call can
    /// confirm the intent. For `wake`, which never runs while the call with the guard runs. A
    /// handler that recovers takes the intent away even from a running call.
    ///
    /// # Errors
    /// Internal if the intent has another shape, because a newer version wrote the intent.
    /// Unavailable and conflict as [`begin`](Self::begin).
    pub fn recover(host: &dyn Host, key: &str) -> Result<Option<Self>, Failure> {
        let Some(record) = host.storage().get::<IntentRecord<C>>(&name(key))? else {
            return Ok(None);
        };
        let record = IntentRecord { hold: new_hold(host), ..record };
        Self { key: key.to_owned(), record }.write_down(host).map(Some)
    }

    /// Iterates over every candidate that may be in force, the newest first.
    pub fn candidates(&self) -> impl Iterator<Item = &C> {
        std::iter::once(&self.record.newest).chain(self.record.older.iter().rev())
    }

    /// Puts the newest candidate in force by `effect` and verifies the change by `verify`, which
    /// asks the target with the login of the target's user.
    ///
    /// # Errors
    /// Failures of `effect` or `verify`. The handler passes the failure on; intent and guard stay,
    /// and recovery decides.
    pub fn make<T>(
        self,
        effect: impl FnOnce(&C) -> Result<T, Failure>,
        verify: impl FnOnce(&C, &T) -> Result<(), Failure>,
    ) -> Result<ProvenCandidate<C, T>, Failure> {
        let candidate = self.record.newest;
        let output = effect(&candidate)?;
        verify(&candidate, &output)?;
        Ok(ProvenCandidate { key: self.key, hold: self.record.hold, candidate, made: output })
    }

    /// Searches for the candidate in force, the newest first.
    ///
    /// # Errors
    /// A failure of `in_force`, if it cannot tell. The intent stays in the store.
    pub fn find_in_force(
        self,
        mut in_force: impl FnMut(&C) -> Result<bool, Failure>,
    ) -> Result<CandidateSearch<C>, Failure> {
        let Self { key, record } = self;
        if in_force(&record.newest)? {
            return Ok(CandidateSearch::InForce(ProvenCandidate {
                key,
                hold: record.hold,
                candidate: record.newest,
                made: (),
            }));
        }
        let mut older = record.older;
        for at in (0..older.len()).rev() {
            if older.get(at).map_or(Ok(false), &mut in_force)? {
                let candidate = older.swap_remove(at);
                return Ok(CandidateSearch::InForce(ProvenCandidate {
                    key,
                    hold: record.hold,
                    candidate,
                    made: (),
                }));
            }
        }
        Ok(CandidateSearch::Nowhere(Self { key, record: IntentRecord { older, ..record } }))
    }

    /// Records and commits a new candidate, as [`begin`](Self::begin) did with the first candidate.
    ///
    /// # Errors
    /// Unavailable if another call took over or finished the intent; internal if too many
    /// candidates are [kept](EarlierCandidates::Kept), which an operator must then tell apart. The
    /// intent stays.
    pub fn restart(
        self,
        host: &dyn Host,
        candidate: C,
        earlier: EarlierCandidates,
    ) -> Result<Self, Failure> {
        let Self { key, record } = self;
        check_hold(host, &key, &record.hold)?;
        let mut older = record.older;
        match earlier {
            EarlierCandidates::Kept => older.push(record.newest),
            EarlierCandidates::Disproven => older.clear(),
        }
        if older.len() >= MOST_CANDIDATES {
            return Err(Failure::internal(format!(
                "{MOST_CANDIDATES} candidates for {key:?} are kept and none is known to be in \
                 force; find out at the target why, the newest can still be tried"
            )));
        }
        Self { key, record: IntentRecord { newest: candidate, older, ..record } }.write_down(host)
    }

    /// Ends the intent and forgets its candidates, in the commit that ends the call, and logs the
    /// reason.
    ///
    /// # Errors
    /// Unavailable if another call took over or finished the intent.
    pub fn abandon(self, host: &dyn Host, because: IntentEndReason) -> Result<(), Failure> {
        check_hold(host, &self.key, &self.record.hold)?;
        forget(host, &self.key)?;
        let cause = match because {
            IntentEndReason::Unchanged => "unchanged",
            IntentEndReason::Unwanted => "unwanted",
        };
        host.log().write(
            LogLevel::Warn,
            "intent-given-up",
            &[("intent", &self.key), ("cause", cause)],
        );
        Ok(())
    }

    fn write_down(self, host: &dyn Host) -> Result<Self, Failure> {
        let name = name(&self.key);
        host.storage().put(&name, &self.record)?;
        host.clock().guard(&name, &self.record.lane)?;
        host.storage().checkpoint()?;
        Ok(self)
    }
}

impl<C, T> ProvenCandidate<C, T> {
    /// Lets `store` write the value in force to the mount's records, and ends the intent.
    /// Everything is in the commit that ends the call, which fails if another call takes over the
    /// intent before that commit. The call must not make a checkpoint in between.
    ///
    /// # Errors
    /// Unavailable if another call took over or finished the intent: that call decides about the
    /// value in force, and nothing of this call is stored. Failures of `store`.
    pub fn confirm<R>(
        self,
        host: &dyn Host,
        store: impl FnOnce(&C, T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        check_hold(host, &self.key, &self.hold)?;
        // First, so that a checkpoint in `store` would end the intent together with the stored
        // values.
        forget(host, &self.key)?;
        store(&self.candidate, self.made)
    }
}

#[cfg(test)]
mod tests;
