//! What a secrets engine is.

use crate::answer::Answer;
use crate::call::{Call, Context};
use crate::database_plugin::StoreTime;
use crate::host::Host;
use crate::metric::Metric;
use crate::raw_access::RawAccess;
use crate::table::{self, Row};
use bulkhead_wire::description::Description;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::stored::Stored;

/// A secrets engine: who it is, its table, and what becomes of its leases.
///
/// It keeps nothing between calls: each runs in a component of its own, and what must last goes
/// through [`Host::storage`].
pub trait SecretsEngine {
    /// Canonical name, also the type under which it is mounted.
    const NAME: &'static str;
    /// Other types under which it may be mounted, as clients of the field name them. For components
    /// of the server only.
    const ALIASES: &'static [&'static str] = &[];
    /// Semantic version; most engines say `env!("CARGO_PKG_VERSION")`.
    const VERSION: &'static str;
    /// Version of the stored data's shape. A change needs [`migrate`](Self::migrate).
    const SCHEMA: u32;
    /// Newest schema of stored data that this version reads, if later versions change the data in a
    /// way that this version tolerates. A mount can go back to this version from such a version.
    const READS_SCHEMA_UP_TO: Option<u32> = None;
    /// One sentence for people.
    const ABOUT: &'static str;
    /// What it wants to do beyond its own mount, as lines of grants:
    /// `http:https://login.example.com:443`, or an act alone, `http`, for all that an operator
    /// grants. It gets no more than it asks for.
    const ASKS: &'static [&'static str] = &[];
    /// What it may tell the operator in figures, by [`Host::metrics`].
    const METRICS: &'static [Metric] = &[];
    /// The API.
    const TABLE: &'static [Row];
    /// Whether every commit gets the next index of its mount, and every record the indexes at which
    /// it was created and last modified ([`Entry`](crate::host::Entry)). It costs each write a
    /// little.
    const INDEXED: bool = false;
    /// What it reads of the requests that it answers as plain HTTP ([`RawEngine`]); `None` for an
    /// engine that answers the rows of its table alone.
    ///
    /// [`RawEngine`]: crate::raw::RawEngine
    const RAW: Option<RawAccess> = None;

    /// What the host learns at registration.
    #[must_use]
    fn description() -> Description {
        Description {
            kind: "secrets-engine".to_owned(),
            name: Self::NAME.to_owned(),
            aliases: Self::ALIASES.iter().map(|name| (*name).to_owned()).collect(),
            version: Self::VERSION.to_owned(),
            schema: Self::SCHEMA,
            reads_schema_up_to: Self::READS_SCHEMA_UP_TO,
            indexed: Self::INDEXED,
            asks: Self::ASKS.iter().map(|line| (*line).to_owned()).collect(),
            metrics: Self::METRICS.iter().map(Metric::described).collect(),
            about: Self::ABOUT.to_owned(),
            routes: Self::TABLE.iter().map(Row::route).collect(),
            raw: Self::RAW.map(RawAccess::described),
        }
    }

    /// Serves one request of the table.
    ///
    /// # Errors
    /// What the row's handler refused.
    fn handle(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
        table::dispatch(Self::TABLE, host, call)
    }

    /// Prolongs the thing behind `lease`. `increment` is what the caller asks for in seconds from
    /// now; 0 leaves it to the engine. The host caps and stores the result.
    ///
    /// # Errors
    /// What keeps the thing from living longer; unsupported, unless an engine says otherwise.
    fn renew(
        _host: &dyn Host,
        _context: &Context,
        lease: &Lease,
        _increment: u64,
    ) -> Result<Renewal, Failure> {
        let message = format!(
            "{} does not renew its leases; ask for a new secret instead of {:?}",
            Self::NAME,
            lease.tag
        );
        Err(Failure::new(Kind::UnsupportedOperation, message))
    }

    /// Ends the thing behind `lease`. Must be safe to repeat; a thing that is gone is success.
    ///
    /// # Errors
    /// Unreachable, timed out, conflict, unavailable and rate limited are tried again for ever,
    /// anything else six times. Unsupported, unless an engine says otherwise.
    fn revoke(
        _host: &dyn Host,
        _context: &Context,
        lease: &Lease,
        _reason: Reason,
    ) -> Result<(), Failure> {
        let message = format!("{} knows no way to end {:?}", Self::NAME, lease.tag);
        Err(Failure::new(Kind::UnsupportedOperation, message))
    }

    /// Brings the mount's stored data from schema `from` to [`SCHEMA`](Self::SCHEMA). Runs again
    /// after a crash.
    ///
    /// # Errors
    /// Internal, unless an engine says otherwise, for any other schema than its own.
    fn migrate(_host: &dyn Host, _context: &Context, from: u32) -> Result<(), Failure> {
        if from == Self::SCHEMA {
            return Ok(());
        }
        let (name, version, schema) = (Self::NAME, Self::VERSION, Self::SCHEMA);
        Err(Failure::internal(format!(
            "{name} {version} stores data of schema {schema} and cannot read schema {from}; mount \
             a version that does"
        )))
    }

    /// Time has come for `key`, scheduled with the clock, or a call that guarded it ended
    /// unfinished ([`intent::key_of`](crate::intent::key_of) tells). At least once; `attempt`
    /// starts at 1.
    ///
    /// # Errors
    /// A failure means another attempt later. Internal, unless an engine says otherwise.
    fn wake(_host: &dyn Host, _context: &Context, key: &str, _attempt: u32) -> Result<(), Failure> {
        Err(Failure::internal(format!(
            "{} was woken for {key:?}, but schedules nothing",
            Self::NAME
        )))
    }
}

/// A lease as the engine that made it sees it. No `Debug`: what it stored may be a secret.
#[derive(Clone, PartialEq)]
pub struct Lease {
    /// As it was reserved.
    pub tag: String,
    /// What the reservation or the secret stored, as it was written.
    pub internal: String,
    /// When it was issued.
    pub issued: StoreTime,
    /// When it ends as things stand.
    pub expires: StoreTime,
}

impl Lease {
    /// What the reservation stored, as the type it was made from.
    ///
    /// # Errors
    /// Internal when it is none of `T`, or of a later version.
    pub fn internal<T: Stored>(&self) -> Result<T, Failure> {
        T::from_bytes(self.internal.as_bytes()).map_err(|_| {
            Failure::internal(format!(
                "the lease {:?} was made by another version and cannot be read",
                self.tag
            ))
        })
    }
}

/// What a renewal may grant, in seconds as in a [`Secret`](crate::answer::Secret).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// From now.
    pub ttl: u64,
    /// From issue, over all renewals; 0 means the mount's maximum.
    pub max_ttl: u64,
}

/// Why a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its time is over.
    Expired,
    /// An operator or the caller asked for it.
    Requested,
    /// The token that asked for the secret has ended.
    TokenEnded,
    /// The call that reserved it did not confirm it.
    Undo,
    /// A reason that only a later host knows. The lease ends all the same.
    Other,
}

impl Reason {
    /// The reason behind a word of the contract.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        match word {
            "expired" => Self::Expired,
            "requested" => Self::Requested,
            "token-ended" => Self::TokenEnded,
            "undo" => Self::Undo,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lease, Reason, SecretsEngine};
    use crate::call::Context;
    use crate::table::Row;
    use crate::testbed::TestHost;
    use bulkhead_wire::failure::Kind;
    use bulkhead_wire::stored::Stored;
    use serde::{Deserialize, Serialize};

    struct Bare;

    #[derive(Serialize, Deserialize)]
    struct Door {
        number: u32,
    }

    impl Stored for Door {
        const KIND: &'static str = "door";
    }

    impl SecretsEngine for Bare {
        const NAME: &'static str = "bare";
        const VERSION: &'static str = "1.0.0";
        const SCHEMA: u32 = 2;
        const ABOUT: &'static str = "Does nothing.";
        const TABLE: &'static [Row] = &[];
    }

    #[test]
    fn an_engine_that_says_nothing_about_leases_timers_or_schemas_refuses_in_words() {
        let (host, context) = (TestHost::default(), Context::default());
        let lease = Lease { tag: "t".to_owned(), internal: "{}".to_owned(), issued: 0, expires: 0 };
        assert_eq!(
            Bare::renew(&host, &context, &lease, 0).err().unwrap().kind,
            Kind::UnsupportedOperation
        );
        assert_eq!(
            Bare::revoke(&host, &context, &lease, Reason::Expired).err().unwrap().kind,
            Kind::UnsupportedOperation
        );
        let woken = Bare::wake(&host, &context, "rotate/a", 1).err().unwrap();
        assert!(woken.message.contains("\"rotate/a\""));
        assert!(Bare::migrate(&host, &context, 2).is_ok());
        assert!(Bare::migrate(&host, &context, 1).err().unwrap().message.contains("schema 1"));
    }

    #[test]
    fn a_lease_that_another_version_made_is_a_fault_that_does_not_show_what_it_held() {
        let lease = Lease {
            tag: "t".to_owned(),
            internal: r#"{"pin": "hunter2"}"#.to_owned(),
            issued: 0,
            expires: 0,
        };
        let fault = lease.internal::<Door>().err().unwrap();
        assert!(!fault.message.contains("hunter2"), "{}", fault.message);
    }

    #[test]
    fn a_reason_of_a_later_host_still_ends_the_lease() {
        assert_eq!(Reason::of_word("undo"), Reason::Undo);
        assert_eq!(Reason::of_word("moon-phase"), Reason::Other);
    }
}
