//! Leases on the test bed: issue, renewal, revocation, and the undo of a reservation.

use super::{Reply, TestBed};
use crate::answer::Secret;
use crate::engine::{Lease, Renewal, RevocationReason, SecretsEngine};
use crate::mounted_plugin::MountedPlugin;
use bulkhead_wire::failure::{Failure, FailureKind};

impl<E: SecretsEngine> TestBed<E> {
    /// Renews a lease for the time that the engine grants.
    ///
    /// # Errors
    /// The failure of the engine; not found if the lease does not exist.
    pub fn renew(&self, tag: &str, increment: u64) -> Result<Renewal, Failure> {
        let lease = self.lease(tag)?;
        let renewed = self.settle(E::renew(&self.host, &self.context(), &lease, increment))?;
        self.host.prolong_lease(tag, renewed.ttl);
        Ok(renewed)
    }

    /// Revokes a lease.
    ///
    /// # Errors
    /// The failure of the engine, after which the lease stays; not found if the lease does not
    /// exist.
    pub fn revoke(&self, tag: &str, reason: RevocationReason) -> Result<(), Failure> {
        let lease = self.lease(tag)?;
        self.settle(E::revoke(&self.host, &self.context(), &lease, reason))?;
        self.host.forget_lease(tag);
        Ok(())
    }

    /// Returns a lease as the engine receives it.
    ///
    /// # Errors
    /// Not found if the lease does not exist.
    pub fn lease(&self, tag: &str) -> Result<Lease, Failure> {
        let unknown = || Failure::new(FailureKind::NotFound, format!("there is no lease {tag:?}"));
        self.host.lease(tag).ok_or_else(unknown)
    }
}

impl<P: MountedPlugin> TestBed<P> {
    pub(super) fn lease_out(
        &self,
        secret: Secret,
        warnings: Vec<String>,
    ) -> Result<Reply, Failure> {
        let ttl = if secret.ttl == 0 { self.mount.default_ttl } else { secret.ttl };
        let lease = secret.tag().map(str::to_owned);
        if let Some(tag) = &lease {
            self.host.confirm_lease(tag, ttl)?;
        }
        let (data, max_ttl) = (secret.data, secret.max_ttl);
        Ok(Reply { data, warnings, lease, ttl, max_ttl, ..Reply::default() })
    }

    /// Undoes a lease that a call reserved and did not confirm. After a failure the lease stays in
    /// the lease book, as in the real host.
    pub(super) fn undo(&self, lease: &Lease) {
        self.host.record(format!("undo {}", lease.tag));
        let context = self.context();
        let revoked = (self.revocation)(&self.host, &context, lease, RevocationReason::Undo);
        if self.settle(revoked).is_ok() {
            self.host.forget_lease(&lease.tag);
        }
    }
}
