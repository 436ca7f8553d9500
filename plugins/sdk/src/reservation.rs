//! Reservations: a lease is stored before its credential exists, so that a crash leaves no
//! credential without a lease.
//!
//! This file prevents a process that dies between `CREATE ROLE` and the answer from leaving a user
//! that lives forever. The order is always the same, and is defined only here: reserve, checkpoint,
//! effect, answer with the same tag. If anything fails after the checkpoint, the host calls the
//! engine's own `revoke` with reason `undo`.

use crate::answer::{Answer, Secret};
pub use crate::host::CreationFailure;
use crate::host::Host;
use crate::internal::internal_text;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored::Stored;
use serde::Serialize;

/// A lease that is not stored yet.
pub struct Reservation {
    tag: String,
    lane: String,
    internal: String,
}

impl Reservation {
    /// Prepares the lease of a credential. `tag` names the credential (1 to 256 bytes, unique in
    /// the call); `lane` names the target, so that an unreachable target does not delay the leases
    /// of others. Renewal and revocation must work from `internal` alone.
    ///
    /// # Errors
    /// Internal if `internal` cannot be serialised as JSON.
    pub fn new(tag: &str, lane: &str, internal: &impl Stored) -> Result<Self, Failure> {
        Ok(Self { tag: tag.to_owned(), lane: lane.to_owned(), internal: internal_text(internal)? })
    }

    /// Stores and commits the lease, and then runs `effect`, which creates the credential.
    ///
    /// # Errors
    /// The failure of the lease book, the checkpoint or `effect`. The handler returns the failure;
    /// the host undoes the rest.
    pub fn make(
        self,
        host: &dyn Host,
        effect: impl FnOnce() -> Result<(), CreationFailure>,
    ) -> Result<CreationProof, Failure> {
        self.reserve(host)?.make(host, effect)
    }

    /// Stores the lease, which [`ReservedLease::make`] then commits. For an engine that keeps the
    /// handle of the lease in its own records.
    ///
    /// # Errors
    /// The failure of the lease book.
    pub fn reserve(self, host: &dyn Host) -> Result<ReservedLease, Failure> {
        let handle = host.leases().reserve(&self.tag, &self.lane, &self.internal)?;
        Ok(ReservedLease { tag: self.tag, internal: self.internal, handle })
    }
}

/// A lease that is stored but not committed.
#[must_use = "an unused reservation is undone"]
pub struct ReservedLease {
    tag: String,
    internal: String,
    handle: String,
}

impl ReservedLease {
    /// Returns the handle by which a later call of this mount can end the lease
    /// ([`Leases::end_issued`](crate::host::Leases::end_issued)). The handle is not a lease id.
    #[must_use]
    pub fn handle(&self) -> &str {
        &self.handle
    }

    /// Commits the lease, and then runs `effect`, which creates the credential.
    ///
    /// # Errors
    /// As [`Reservation::make`].
    pub fn make(
        self,
        host: &dyn Host,
        effect: impl FnOnce() -> Result<(), CreationFailure>,
    ) -> Result<CreationProof, Failure> {
        host.storage().checkpoint()?;
        match effect() {
            Ok(()) => Ok(CreationProof { tag: self.tag, internal: self.internal }),
            Err(CreationFailure::Perhaps(failure)) => Err(failure),
            Err(CreationFailure::Surely(failure)) => {
                host.leases().end(&self.tag)?;
                Err(failure)
            }
        }
    }
}

/// Proof that the credential exists and its lease is committed.
#[must_use = "an unconfirmed reservation is undone"]
pub struct CreationProof {
    tag: String,
    /// Data stored for revocation, to be restored if the next step was certainly not taken.
    internal: String,
}

impl CreationProof {
    /// Takes the next step of a credential that is created in several steps: commits `internal`,
    /// the data for revocation, and then runs `effect`. If the step was certainly not taken, the
    /// previous data is restored, so that the undo does not look for an object that never existed.
    ///
    /// # Errors
    /// The failure of the lease book, the checkpoint or `effect`. The handler returns the failure;
    /// the host undoes every step that may have been taken.
    pub fn make_next(
        self,
        host: &dyn Host,
        internal: &impl Stored,
        effect: impl FnOnce() -> Result<(), CreationFailure>,
    ) -> Result<Self, Failure> {
        let next = internal_text(internal)?;
        host.leases().amend(&self.tag, &next)?;
        host.storage().checkpoint()?;
        match effect() {
            Ok(()) => Ok(Self { internal: next, ..self }),
            Err(CreationFailure::Perhaps(failure)) => Err(failure),
            Err(CreationFailure::Surely(failure)) => {
                host.leases().amend(&self.tag, &self.internal)?;
                host.storage().checkpoint()?;
                Err(failure)
            }
        }
    }

    /// Replaces the data for revocation when the credential is complete; committed together with
    /// the answer.
    ///
    /// # Errors
    /// The failure of the lease book.
    pub fn settle(self, host: &dyn Host, internal: &impl Stored) -> Result<Self, Failure> {
        let internal = internal_text(internal)?;
        host.leases().amend(&self.tag, &internal)?;
        Ok(Self { internal, ..self })
    }

    /// Returns the answer that confirms a renewable lease of `ttl` seconds, and of at most
    /// `max_ttl` seconds over all renewals (0 means the mount's maximum).
    ///
    /// # Errors
    /// Internal if `data` does not serialise to an object.
    pub fn secret(self, data: &impl Serialize, ttl: u64, max_ttl: u64) -> Result<Answer, Failure> {
        Ok(Answer::secret(Secret::confirming(self.tag, data, ttl, max_ttl)?))
    }

    /// Returns the answer that confirms a lease of `ttl` seconds that cannot be renewed.
    ///
    /// # Errors
    /// Internal if `data` does not serialise to an object.
    pub fn fixed_secret(self, data: &impl Serialize, ttl: u64) -> Result<Answer, Failure> {
        let mut secret = Secret::confirming(self.tag, data, ttl, 0)?;
        secret.renewable = false;
        Ok(Answer::secret(secret))
    }
}

#[cfg(test)]
mod tests {
    use crate::table::{Row, read};
    use crate::testbed::TestBed;
    use crate::{
        Answer, Call, Context, Failure, FailureKind, Host, Lease, MountedPlugin, RevocationReason,
        SecretsEngine,
    };
    use bulkhead_wire::stored::Stored;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::{CreationFailure, Reservation};

    struct DoorEngine;

    #[derive(Serialize, Deserialize)]
    struct DoorLease {
        number: u32,
    }

    impl Stored for DoorLease {
        const KIND: &'static str = "door";
    }

    impl MountedPlugin for DoorEngine {
        const NAME: &'static str = "doors";
        const VERSION: &'static str = "1.0.0";
        const SCHEMA: u32 = 1;
        const ABOUT: &'static str = "Opens doors for a while.";
        const TABLE: &'static [Row] = &[
            read("open", open).about("Opens the door.").leases(),
            read("widen", widen).about("Opens two doors, of which the second one jams.").leases(),
            read("stop", stop).about("Opens a door, and no second one.").leases(),
            read("furnish", furnish).about("Opens a door, and remembers what is inside.").leases(),
            read("lend", lend).about("Opens the door, and remembers its lease.").leases(),
            read("close", close).about("Closes the door before its time."),
            read("forget", forget).about("Opens the door and answers something else."),
            read("jam", jam).about("Does not open the door.").leases(),
        ];
    }

    impl SecretsEngine for DoorEngine {
        fn revoke(
            host: &dyn Host,
            _context: &Context,
            lease: &Lease,
            _reason: RevocationReason,
        ) -> Result<(), Failure> {
            host.storage().put_plain("kept", &lease.internal)?;
            host.storage().put_plain("closed", &lease.tag)
        }
    }

    fn open(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
        host.storage().put_plain("before", &1_u32)?;
        let lease = Reservation::new("door-1", "house", &DoorLease { number: 1 })?
            .make(host, || Ok(host.storage().put_plain("effect", &call.id)?))?;
        lease.secret(&json!({"code": "1234"}), 60, 120)
    }

    fn jam(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
        let refused = || Err(CreationFailure::Surely(Failure::invalid("the door does not fit")));
        Reservation::new("door-1", "house", &DoorLease { number: 1 })?.make(host, refused)?.secret(
            &json!({}),
            60,
            120,
        )
    }

    fn widen(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
        Reservation::new("door-1", "house", &DoorLease { number: 1 })?
            .make(host, || Ok(()))?
            .make_next(host, &DoorLease { number: 2 }, || {
                Err(Failure::invalid("the door jams").into())
            })?
            .secret(&json!({}), 60, 120)
    }

    fn stop(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
        let refused = || Err(CreationFailure::Surely(Failure::invalid("there is no second door")));
        Reservation::new("door-1", "house", &DoorLease { number: 1 })?
            .make(host, || Ok(()))?
            .make_next(host, &DoorLease { number: 2 }, refused)?
            .secret(&json!({}), 60, 120)
    }

    fn furnish(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
        Reservation::new("door-1", "house", &DoorLease { number: 1 })?
            .make(host, || Ok(()))?
            .settle(host, &DoorLease { number: 3 })?
            .fixed_secret(&json!({}), 60)
    }

    fn lend(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
        let reserved =
            Reservation::new("door-1", "house", &DoorLease { number: 1 })?.reserve(host)?;
        host.storage().put_plain("handle", reserved.handle())?;
        reserved.make(host, || Ok(()))?.secret(&json!({}), 60, 120)
    }

    fn close(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
        let handle: String = host.storage().get_plain("handle")?.ok_or_else(Failure::absent)?;
        host.leases().end_issued(&handle)?;
        Ok(Answer::nothing())
    }

    fn forget(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
        open(host, call)?;
        Ok(Answer::nothing())
    }

    #[test]
    fn confirmed_reservation_becomes_lease_with_internal_data() {
        let bed = TestBed::<DoorEngine>::new().unwrap();
        let reply = bed.read("open").unwrap();
        assert_eq!((reply.lease.as_deref(), reply.ttl, reply.max_ttl), (Some("door-1"), 60, 120));
        assert_eq!(bed.host.steps(), ["reserve door-1 in house", "checkpoint"]);
        assert_eq!(bed.lease("door-1").unwrap().internal, r#"{"number":1}"#);
    }

    #[test]
    fn effect_without_recorded_lease_does_not_happen() {
        for step in ["reserve", "checkpoint"] {
            let bed = TestBed::<DoorEngine>::new().unwrap();
            bed.host.refuse(step, Failure::new(FailureKind::Conflict, "another call was faster"));
            assert_eq!(bed.read("open").err().unwrap().kind, FailureKind::Conflict);
            assert_eq!(bed.host.stored("effect"), None);
            assert_eq!(bed.host.stored("before"), None, "earlier buffered writes are dropped");
            assert!(bed.host.lease_tags().is_empty());
        }
    }

    #[test]
    fn an_effect_that_no_answer_confirms_is_undone() {
        let bed = TestBed::<DoorEngine>::new().unwrap();
        bed.read("forget").unwrap();
        assert_eq!(bed.host.steps(), ["reserve door-1 in house", "checkpoint", "undo door-1"]);
        assert_eq!(bed.host.stored("closed"), Some(json!("door-1")));
        assert!(bed.host.lease_tags().is_empty());
    }

    #[test]
    fn reservation_creating_nothing_is_withdrawn_not_undone() {
        let bed = TestBed::<DoorEngine>::new().unwrap();
        assert_eq!(bed.read("jam").err().unwrap().message, "the door does not fit");
        assert_eq!(bed.host.steps(), ["reserve door-1 in house", "checkpoint", "end door-1"]);
        assert_eq!(bed.host.stored("closed"), None);
        assert!(bed.host.lease_tags().is_empty());
    }

    #[test]
    fn undo_knows_next_object_before_creation() {
        let bed = TestBed::<DoorEngine>::new().unwrap();
        assert_eq!(bed.read("widen").err().unwrap().message, "the door jams");
        let steps = ["reserve door-1 in house", "checkpoint", "amend door-1", "checkpoint"];
        assert_eq!(bed.host.steps(), [&steps[..], &["undo door-1"]].concat());
        assert_eq!(bed.host.stored("kept"), Some(json!(r#"{"number":2}"#)));
        for step in ["amend", "checkpoint"] {
            let bed = TestBed::<DoorEngine>::new().unwrap();
            bed.host.refuse(step, Failure::new(FailureKind::Conflict, "another call was faster"));
            assert_eq!(bed.read("widen").err().unwrap().kind, FailureKind::Conflict);
        }
    }

    #[test]
    fn step_surely_not_taken_is_forgotten_before_undo() {
        let bed = TestBed::<DoorEngine>::new().unwrap();
        assert_eq!(bed.read("stop").err().unwrap().message, "there is no second door");
        assert_eq!(bed.host.stored("kept"), Some(json!(r#"{"number":1}"#)));
        assert!(bed.host.lease_tags().is_empty());
    }

    #[test]
    fn facts_of_complete_object_commit_with_answer() {
        let bed = TestBed::<DoorEngine>::new().unwrap();
        bed.read("furnish").unwrap();
        let steps = ["reserve door-1 in house", "checkpoint", "amend door-1"];
        assert_eq!(bed.host.steps(), steps);
        assert_eq!(bed.lease("door-1").unwrap().internal, r#"{"number":3}"#);
    }

    #[test]
    fn lease_ended_by_other_call_skips_revocation() {
        let bed = TestBed::<DoorEngine>::new().unwrap();
        bed.read("lend").unwrap();
        bed.host
            .refuse("end-issued", Failure::new(FailureKind::Unavailable, "the store went away"));
        assert!(bed.read("close").is_err());
        assert_eq!(bed.host.lease_tags(), ["door-1"]);
        for _ in 0..2 {
            assert!(bed.read("close").is_ok());
            assert!(bed.host.lease_tags().is_empty());
        }
        assert_eq!(bed.host.stored("closed"), None);
    }

    #[test]
    fn writes_before_failed_effect_stay_committed() {
        let bed = TestBed::<DoorEngine>::new().unwrap();
        bed.host.lose_reply(
            "checkpoint",
            Failure::new(FailureKind::Unavailable, "the store went away"),
        );
        assert!(bed.read("open").is_err());
        assert_eq!(bed.host.stored("before"), Some(json!(1)));
        assert_eq!(bed.host.stored("effect"), None);
        assert_eq!(
            bed.host.stored("closed"),
            Some(json!("door-1")),
            "the lease was written down, so it is ended"
        );
    }
}
