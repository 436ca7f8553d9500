//! Things that roll forward: written down before they are changed, so that no crash leaves a
//! password in force that the store does not know.
//!
//! The fault this file rules out: a process that dies between `ALTER ROLE … PASSWORD` and the
//! commit that stores the password. The order is always the same, and written only here: candidate
//! and guard, checkpoint, effect, verify, and the new state in the commit that removes the intent.
//! Each step takes what the step before it gave, so that another order does not compile. If
//! anything goes wrong after the checkpoint, the guard wakes the engine, which looks what is in
//! force and goes on from there. **No candidate is forgotten before another is proven.**
//!
//! # A password that is changed
//!
//! ```
//! use bulkhead_sdk::database_plugin::Credential;
//! use bulkhead_sdk::host::Connection;
//! use bulkhead_sdk::intent::{self, Candidates, Found, Intent, Proven};
//! use bulkhead_sdk::table::{Row, write};
//! use bulkhead_sdk::{Answer, Call, Context, Failure, Host, SecretsEngine};
//!
//! struct Rotation;
//!
//! impl SecretsEngine for Rotation {
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
//! fn rotate(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
//!     let intent = Intent::begin(host, "app", "orders", host.passwords().generate("")?)?;
//!     store(host, change(host, intent)?)?;
//!     Ok(Answer::nothing())
//! }
//!
//! /// What a call that failed or died left behind.
//! fn finish(host: &dyn Host) -> Result<(), Failure> {
//!     let Some(intent) = Intent::recover(host, "app")? else { return Ok(()) };
//!     let intent = match intent.look(|candidate: &String| works(host, candidate))? {
//!         Found::InForce(proven) => return store(host, proven),
//!         Found::Nowhere(intent) => intent,
//!     };
//!     let current: Option<String> = host.storage().get_plain("password")?;
//!     let intent = match current {
//!         // The old one still works: the candidate may be one that the target refuses.
//!         Some(old) if works(host, &old)? => {
//!             intent.restart(host, host.passwords().generate("")?, Candidates::Disproven)?
//!         }
//!         // Nothing is known to work: the same candidate once more.
//!         _ => intent,
//!     };
//!     store(host, change(host, intent)?)
//! }
//!
//! fn change(host: &dyn Host, intent: Intent<String>) -> Result<Proven<String>, Failure> {
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
//! fn store(host: &dyn Host, proven: Proven<String>) -> Result<(), Failure> {
//!     proven.confirm(host, |password, ()| host.storage().put_plain("password", password))
//! }
//!
//! fn works(host: &dyn Host, password: &str) -> Result<bool, Failure> {
//!     let held = Credential::Password(password.to_owned());
//!     Ok(host.databases().check_credential(&orders(), "app", &held)?.unwrap_or(false))
//! }
//! # fn orders() -> Connection {
//! #     Connection {
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
//! # databases.create_user(&orders(), &first, &[], &[]).expect("a user");
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
//! Where the provider chooses the secret, the candidate is what existed before (the ids of the
//! keys), the effect gives what it made, and [`Proven::confirm`] gets it. A recovery cannot learn a
//! secret that was shown once: it lists what exists, deletes what is new and ours, and then makes
//! again ([`Intent::make`] on the recovered intent).

mod under_way;

pub use under_way::{hasten, is_open, key_of};

use crate::host::{Host, Level};
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::hexadecimal;
use bulkhead_wire::stored::Stored;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the keys of the records and timers of intents begin with.
const PREFIX: &str = "intent/";
/// Most candidates of one intent. Each look may be a login, and a target that counts failed logins
/// locks the account.
const MOST_CANDIDATES: usize = 32;
/// Random bytes of the name that tells one hold of an intent from every other.
const HOLD: u32 = 16;

/// As it is stored, under the key of its timer. A candidate that is a struct follows the rule of
/// [`bulkhead_wire::stored`], too: it is part of this record.
#[derive(Serialize, Deserialize)]
struct Record<C> {
    /// Changes with every call that takes the intent up, so that only the last of them can confirm
    /// it.
    hold: String,
    lane: String,
    newest: C,
    /// Oldest first.
    older: Vec<C>,
}

impl<C: Serialize + DeserializeOwned> Stored for Record<C> {
    const KIND: &'static str = "intent";
}

/// A change outside that is written down, committed and guarded, and of which it is not known yet
/// whether it happened.
///
/// `C` is the candidate: a password, a key, or what a provider had before. No `Debug`: it is a
/// secret.
#[must_use = "an intent that is not confirmed is finished by the engine's wake"]
pub struct Intent<C> {
    key: String,
    record: Record<C>,
}

/// Proof that the candidate is in force. `T` is what the effect made besides.
#[must_use = "what is in force is stored by confirming it"]
pub struct Proven<C, T = ()> {
    key: String,
    hold: String,
    candidate: C,
    made: T,
}

/// Where a recovery stands.
pub enum Found<C> {
    /// A candidate is in force: confirm it.
    InForce(Proven<C>),
    /// None is. Look whether what was before is, and [`restart`](Intent::restart),
    /// [`make`](Intent::make) the newest again, or [`give_up`](Intent::give_up).
    Nowhere(Intent<C>),
}

/// What becomes of the candidates so far when there is a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// Any of them may be in force, so they are kept.
    Kept,
    /// What was before the intent is proven to be in force, so that none of them is.
    Disproven,
}

/// Why an intent may end without a candidate that is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// What was before the intent is proven to be in force, and is to stay.
    Unchanged,
    /// What it was about is gone: the role was deleted, the account removed.
    Unwanted,
}

impl<C: Serialize + DeserializeOwned> Intent<C> {
    /// Writes down that `candidate` is about to be put in force, with a guard, and commits both
    /// with what the call buffered before. `key` names what is changed, within the rules of
    /// storage keys; `lane` is the target whose troubles must not stall others.
    ///
    /// # Errors
    /// Unavailable while an earlier intent with that key is not finished. What storage, clock or
    /// checkpoint refused.
    pub fn begin(host: &dyn Host, key: &str, lane: &str, candidate: C) -> Result<Self, Failure> {
        if is_open(host, key)? {
            let message = format!(
                "an earlier change of {key:?} is not finished yet; it goes on by itself, try later"
            );
            return Err(Failure::new(Kind::Unavailable, message));
        }
        let record = Record {
            hold: new_hold(host),
            lane: lane.to_owned(),
            newest: candidate,
            older: Vec::new(),
        };
        Self { key: key.to_owned(), record }.write_down(host)
    }

    /// Takes up what an earlier call left, if it left anything; only this call can confirm it then.
    /// For `wake`, which never runs while the call that guards the key does. A handler that
    /// recovers takes the intent away even from a call that is still at work on it.
    ///
    /// # Errors
    /// Internal when the intent has another shape: a newer version wrote it. Unavailable and
    /// conflict as [`begin`](Self::begin).
    pub fn recover(host: &dyn Host, key: &str) -> Result<Option<Self>, Failure> {
        let Some(record) = host.storage().get::<Record<C>>(&name(key))? else { return Ok(None) };
        let record = Record { hold: new_hold(host), ..record };
        Self { key: key.to_owned(), record }.write_down(host).map(Some)
    }

    /// Every candidate that may be in force, the newest first.
    pub fn candidates(&self) -> impl Iterator<Item = &C> {
        std::iter::once(&self.record.newest).chain(self.record.older.iter().rev())
    }

    /// Puts the newest candidate in force and verifies that it is. `verify` asks the target, as its
    /// user would.
    ///
    /// # Errors
    /// What `effect` or `verify` refused. The handler passes it on; intent and guard stay, and
    /// recovery decides.
    pub fn make<T>(
        self,
        effect: impl FnOnce(&C) -> Result<T, Failure>,
        verify: impl FnOnce(&C, &T) -> Result<(), Failure>,
    ) -> Result<Proven<C, T>, Failure> {
        let candidate = self.record.newest;
        let made = effect(&candidate)?;
        verify(&candidate, &made)?;
        Ok(Proven { key: self.key, hold: self.record.hold, candidate, made })
    }

    /// Looks which candidate is in force, the newest first.
    ///
    /// # Errors
    /// What `in_force` refused, because it could not tell. Nothing is lost.
    pub fn look(
        self,
        mut in_force: impl FnMut(&C) -> Result<bool, Failure>,
    ) -> Result<Found<C>, Failure> {
        let Self { key, record } = self;
        if in_force(&record.newest)? {
            return Ok(Found::InForce(Proven {
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
                return Ok(Found::InForce(Proven { key, hold: record.hold, candidate, made: () }));
            }
        }
        Ok(Found::Nowhere(Self { key, record: Record { older, ..record } }))
    }

    /// Writes down a new candidate and commits it, as [`begin`](Self::begin) did the first.
    ///
    /// # Errors
    /// Unavailable when another call took the intent up or finished it; internal when too many
    /// candidates are [kept](Candidates::Kept), which an operator must then tell apart. The intent
    /// stays.
    pub fn restart(
        self,
        host: &dyn Host,
        candidate: C,
        earlier: Candidates,
    ) -> Result<Self, Failure> {
        let Self { key, record } = self;
        check_hold(host, &key, &record.hold)?;
        let mut older = record.older;
        match earlier {
            Candidates::Kept => older.push(record.newest),
            Candidates::Disproven => older.clear(),
        }
        if older.len() >= MOST_CANDIDATES {
            return Err(Failure::internal(format!(
                "{MOST_CANDIDATES} candidates for {key:?} are kept and none is known to be in \
                 force; find out at the target why, the newest can still be tried"
            )));
        }
        Self { key, record: Record { newest: candidate, older, ..record } }.write_down(host)
    }

    /// Forgets the intent and its candidates, in the commit that ends the call, and says so in the
    /// log.
    ///
    /// # Errors
    /// Unavailable when another call took the intent up or finished it.
    pub fn give_up(self, host: &dyn Host, because: Ended) -> Result<(), Failure> {
        check_hold(host, &self.key, &self.record.hold)?;
        forget(host, &self.key)?;
        let cause = match because {
            Ended::Unchanged => "unchanged",
            Ended::Unwanted => "unwanted",
        };
        host.log().write(
            Level::Warn,
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

impl<C, T> Proven<C, T> {
    /// Lets `store` put what is in force into the mount's records, and ends the intent: all in the
    /// commit that ends the call, which fails if another call takes the intent up before it. No
    /// checkpoint may come between.
    ///
    /// # Errors
    /// Unavailable when another call took the intent up or finished it: what is in force now is for
    /// that call to say, and nothing of this one is stored. What `store` refused.
    pub fn confirm<R>(
        self,
        host: &dyn Host,
        store: impl FnOnce(&C, T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        check_hold(host, &self.key, &self.hold)?;
        // First, so that a checkpoint in `store` would end the intent together with what it stores.
        forget(host, &self.key)?;
        store(&self.candidate, self.made)
    }
}

fn name(key: &str) -> String {
    format!("{PREFIX}{key}")
}

fn new_hold(host: &dyn Host) -> String {
    hexadecimal::text(&host.random().bytes(HOLD))
}

/// Reads the intent again, in the segment that is about to be committed: a checkpoint forgot the
/// first read, and the commit checks this one.
fn check_hold(host: &dyn Host, key: &str, hold: &str) -> Result<(), Failure> {
    match host.storage().get::<Record<Value>>(&name(key))? {
        Some(record) if record.hold == hold => Ok(()),
        _ => {
            let message = format!(
                "another call has taken up or finished the change of {key:?}; read what is in \
                 force, try again"
            );
            Err(Failure::new(Kind::Unavailable, message))
        }
    }
}

fn forget(host: &dyn Host, key: &str) -> Result<(), Failure> {
    let name = name(key);
    host.storage().delete(&name)?;
    host.clock().cancel(&name)
}

#[cfg(test)]
mod tests;
