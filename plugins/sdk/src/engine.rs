//! The trait of a secrets engine.

use crate::answer::Answer;
use crate::call::{Call, Context};
use crate::database_plugin::StoreTime;
use crate::host::Host;
use crate::metric::Metric;
use crate::raw_access::RawAccess;
use crate::table::{self, Row};
use bulkhead_wire::description::ComponentDescription;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::stored::Stored;

/// A secrets engine: its name and version, its table, and the renewal and revocation of its leases.
///
/// An engine must keep nothing between calls: each call runs in a fresh component instance, or in
/// an instance that served other calls of the same mount (decision T4). Lasting data goes through
/// [`Host::storage`].
pub trait SecretsEngine {
    /// Canonical name, also a mount type.
    const NAME: &'static str;
    /// Further mount types, named as clients of the field name the engine. Only for components that
    /// are part of the server.
    const ALIASES: &'static [&'static str] = &[];
    /// Semantic version; most engines use `env!("CARGO_PKG_VERSION")`.
    const VERSION: &'static str;
    /// Version of the stored data's shape. A change needs [`migrate`](Self::migrate).
    const SCHEMA: u32;
    /// Newest schema of stored data that this version reads, if later versions change the data in a
    /// way that this version tolerates. A mount can go back to this version from such a version.
    const READS_SCHEMA_UP_TO: Option<u32> = None;
    /// True if [`migrate`](Self::migrate), called with [`SCHEMA`](Self::SCHEMA), brings the records
    /// of a lower version of the API to the version that the mount's option `version` chooses.
    /// Otherwise only a mount without records changes its version.
    const UPGRADES_API: bool = false;
    /// One sentence for people.
    const ABOUT: &'static str;
    /// Grants that the engine needs beyond its own mount, each with a target
    /// (`http:https://login.example.com:443`) or as an act alone (`http`, for every target that the
    /// operator grants). The engine never gets a grant that is not in this list.
    const ASKS: &'static [&'static str] = &[];
    /// Metrics that the engine reports by [`Host::metrics`].
    const METRICS: &'static [Metric] = &[];
    /// The routes of the API.
    const TABLE: &'static [Row];
    /// True if every commit gets the next index of the mount, and every record the indexes of its
    /// creation and last change ([`Entry`](crate::host::Entry)). Each write then costs a little
    /// more.
    const INDEXED: bool = false;
    /// Headers and body size of the requests that the engine answers as plain HTTP ([`RawEngine`]);
    /// `None` for an engine that answers only the rows of its table.
    ///
    /// [`RawEngine`]: crate::raw::RawEngine
    const RAW: Option<RawAccess> = None;

    /// Builds the description that the host reads at registration.
    #[must_use]
    fn description() -> ComponentDescription {
        ComponentDescription {
            kind: "secrets-engine".to_owned(),
            name: Self::NAME.to_owned(),
            aliases: Self::ALIASES.iter().map(|name| (*name).to_owned()).collect(),
            version: Self::VERSION.to_owned(),
            schema: Self::SCHEMA,
            reads_schema_up_to: Self::READS_SCHEMA_UP_TO,
            indexed: Self::INDEXED,
            upgrades_api: Self::UPGRADES_API,
            asks: Self::ASKS.iter().map(|line| (*line).to_owned()).collect(),
            metrics: Self::METRICS.iter().map(Metric::described).collect(),
            about: Self::ABOUT.to_owned(),
            routes: Self::TABLE.iter().map(Row::route).collect(),
            raw: Self::RAW.map(RawAccess::described),
        }
    }

    /// Serves a request to a route of the table.
    ///
    /// # Errors
    /// The failure of the row's handler.
    fn handle(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
        table::dispatch(Self::TABLE, host, call)
    }

    /// Renews the user or other object behind `lease`. `increment` is the lifetime that the caller
    /// asks for, in seconds from now; 0 leaves the choice to the engine. The host caps and stores
    /// the result.
    ///
    /// # Errors
    /// The reason against a longer lifetime. Unsupported by default.
    fn renew(
        _host: &dyn Host,
        _context: &Context,
        lease: &Lease,
        _increment: u64,
    ) -> Result<Renewal, Failure> {
        let message = format!(
            "{} does not renew leases; ask for a new secret instead of {:?}",
            Self::NAME,
            lease.tag
        );
        Err(Failure::new(FailureKind::UnsupportedOperation, message))
    }

    /// Revokes the user or other object behind `lease`. Must be safe to repeat; an object that no
    /// longer exists is success.
    ///
    /// # Errors
    /// The host retries without limit after unreachable, timed out, conflict, unavailable and rate
    /// limited, and six times after any other failure. Unsupported by default.
    fn revoke(
        _host: &dyn Host,
        _context: &Context,
        lease: &Lease,
        _reason: RevocationReason,
    ) -> Result<(), Failure> {
        let message = format!("{} knows no way to end {:?}", Self::NAME, lease.tag);
        Err(Failure::new(FailureKind::UnsupportedOperation, message))
    }

    /// Migrates the mount's stored data from schema `from` to [`SCHEMA`](Self::SCHEMA), in one
    /// commit, or in several with [`MigrationSteps`](crate::migration::MigrationSteps). Runs again
    /// after a crash.
    ///
    /// # Errors
    /// Internal by default, for any schema other than [`SCHEMA`](Self::SCHEMA).
    fn migrate(_host: &dyn Host, _context: &Context, from: u32) -> Result<(), Failure> {
        if from == Self::SCHEMA {
            return Ok(());
        }
        let (name, version, schema) = (Self::NAME, Self::VERSION, Self::SCHEMA);
        Err(Failure::internal(format!(
            "{name} {version} stores data of schema {schema} and cannot read schema {from}; mount \
             a version for this schema"
        )))
    }

    /// Runs the timer `key`, or finishes the work of a call that set the guard `key` and ended
    /// without cancelling it ([`intent::key_of`](crate::intent::key_of) tells the two apart). Runs
    /// at least once; `attempt` starts at 1.
    ///
    /// # Errors
    /// Any failure leads to another attempt later. Internal by default.
    fn wake(_host: &dyn Host, _context: &Context, key: &str, _attempt: u32) -> Result<(), Failure> {
        Err(Failure::internal(format!(
            "{} was woken for {key:?}, but schedules nothing",
            Self::NAME
        )))
    }
}

/// A lease from the view of its engine. No `Debug`: the internal data may be a secret.
#[derive(Clone, PartialEq)]
pub struct Lease {
    /// Tag of the reservation.
    pub tag: String,
    /// Internal data of the reservation or the secret, as text.
    pub internal: String,
    /// Time of issue.
    pub issued: StoreTime,
    /// End of the lease, unless renewed.
    pub expires: StoreTime,
}

impl Lease {
    /// Reads the internal data as a `T`.
    ///
    /// # Errors
    /// Internal if the data is not a `T`, or of a later version.
    pub fn internal<T: Stored>(&self) -> Result<T, Failure> {
        T::from_bytes(self.internal.as_bytes()).map_err(|_| {
            Failure::internal(format!(
                "the lease {:?} was made by another version and cannot be read",
                self.tag
            ))
        })
    }
}

/// The lifetimes that a renewal grants, in seconds as in a [`Secret`](crate::answer::Secret).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Lifetime from now.
    pub ttl: u64,
    /// Maximum lifetime from issue over all renewals; 0 means the mount's maximum.
    pub max_ttl: u64,
}

/// The reason for the end of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationReason {
    /// The lease has expired.
    Expired,
    /// An operator or the caller revoked the lease.
    Requested,
    /// The token that asked for the secret has ended.
    TokenEnded,
    /// The call that reserved the lease did not confirm it.
    Undo,
    /// A reason that only a later host knows. The lease ends in any case.
    Other,
}

impl RevocationReason {
    /// Returns the reason for a word of the contract.
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
    use super::{Lease, RevocationReason, SecretsEngine};
    use crate::call::Context;
    use crate::table::Row;
    use crate::testbed::TestHost;
    use bulkhead_wire::failure::FailureKind;
    use bulkhead_wire::stored::Stored;
    use serde::{Deserialize, Serialize};

    struct BareEngine;

    #[derive(Serialize, Deserialize)]
    struct DoorData {
        number: u32,
    }

    impl Stored for DoorData {
        const KIND: &'static str = "door";
    }

    impl SecretsEngine for BareEngine {
        const NAME: &'static str = "bare";
        const VERSION: &'static str = "1.0.0";
        const SCHEMA: u32 = 2;
        const ABOUT: &'static str = "Does nothing.";
        const TABLE: &'static [Row] = &[];
    }

    #[test]
    fn engine_without_leases_timers_or_schemas_explains_refusal() {
        let (host, context) = (TestHost::default(), Context::default());
        let lease = Lease { tag: "t".to_owned(), internal: "{}".to_owned(), issued: 0, expires: 0 };
        assert_eq!(
            BareEngine::renew(&host, &context, &lease, 0).err().unwrap().kind,
            FailureKind::UnsupportedOperation
        );
        assert_eq!(
            BareEngine::revoke(&host, &context, &lease, RevocationReason::Expired)
                .err()
                .unwrap()
                .kind,
            FailureKind::UnsupportedOperation
        );
        let woken = BareEngine::wake(&host, &context, "rotate/a", 1).err().unwrap();
        assert!(woken.message.contains("\"rotate/a\""));
        assert!(BareEngine::migrate(&host, &context, 2).is_ok());
        assert!(
            BareEngine::migrate(&host, &context, 1).err().unwrap().message.contains("schema 1")
        );
    }

    #[test]
    fn unreadable_lease_fault_hides_lease_content() {
        let lease = Lease {
            tag: "t".to_owned(),
            internal: r#"{"pin": "hunter2"}"#.to_owned(),
            issued: 0,
            expires: 0,
        };
        let fault = lease.internal::<DoorData>().err().unwrap();
        assert!(!fault.message.contains("hunter2"), "{}", fault.message);
    }

    #[test]
    fn revocation_reason_of_later_host_still_ends_lease() {
        assert_eq!(RevocationReason::of_word("undo"), RevocationReason::Undo);
        assert_eq!(RevocationReason::of_word("moon-phase"), RevocationReason::Other);
    }
}
