//! The trait of a secrets engine.

use crate::call::Context;
use crate::database_plugin::StoreTime;
use crate::host::Host;
use crate::mounted_plugin::{self, MountedPlugin};
use crate::raw_access::RawAccess;
use bulkhead_wire::description::ComponentDescription;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::stored::Stored;

/// A secrets engine: a plugin with leases, which the engine renews and revokes.
pub trait SecretsEngine: MountedPlugin {
    /// True if [`migrate`](MountedPlugin::migrate), called with [`SCHEMA`](MountedPlugin::SCHEMA),
    /// brings the records of a lower version of the API to the version that the mount's option
    /// `version` chooses. Otherwise only a mount without records changes its version.
    const UPGRADES_API: bool = false;
    /// Headers and body size of the requests that the engine answers as plain HTTP ([`RawEngine`]);
    /// `None` for an engine that answers only the rows of its table.
    ///
    /// [`RawEngine`]: crate::raw::RawEngine
    const RAW: Option<RawAccess> = None;

    /// Builds the description that the host reads at registration.
    #[must_use]
    fn description() -> ComponentDescription {
        ComponentDescription {
            upgrades_api: Self::UPGRADES_API,
            raw: Self::RAW.map(RawAccess::described),
            ..mounted_plugin::description::<Self>("secrets-engine")
        }
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
    use crate::mounted_plugin::MountedPlugin;
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

    impl MountedPlugin for BareEngine {
        const NAME: &'static str = "bare";
        const VERSION: &'static str = "1.0.0";
        const SCHEMA: u32 = 2;
        const ABOUT: &'static str = "Does nothing.";
        const TABLE: &'static [Row] = &[];
    }

    impl SecretsEngine for BareEngine {}

    #[test]
    fn engine_without_leases_explains_refusal() {
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
