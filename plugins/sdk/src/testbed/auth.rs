//! Test bed of an auth method: the bed of a mounted plugin, with logins and their renewal.

use super::TestBed;
use crate::auth_method::{AuthMethod, HeldLogin};
use crate::call::Context;
use crate::engine::{Lease, RevocationReason};
use crate::host::Host;
use crate::login::Login;
use bulkhead_wire::failure::{Failure, FailureKind};
use serde_json::Value;
use std::ops::{Deref, DerefMut};

/// An auth method mounted below `auth/` in a host in memory. Dereferences to [`TestBed`].
pub struct AuthBed<M>(TestBed<M>);

impl<M: AuthMethod> AuthBed<M> {
    /// Registers the auth method and mounts the method.
    ///
    /// # Errors
    /// The mistakes in the method's table.
    pub fn new() -> Result<Self, String> {
        let mut bed = TestBed::<M>::mounted(M::description(), refuse_revocation)?;
        bed.mount.path = format!("auth/{}/", M::NAME);
        Ok(Self(bed))
    }

    /// Logs in.
    ///
    /// # Errors
    /// The failure that a caller would receive; internal if the answer is not a login.
    pub fn login(&self, path: &str, body: &Value) -> Result<Login, Failure> {
        let reply = self.0.write(path, body)?;
        reply.login.ok_or_else(|| Failure::internal(format!("{path} answered no login")))
    }

    /// Renews a login. The host's limits are not applied.
    ///
    /// # Errors
    /// The failure of the method; internal if the method answered another alias.
    pub fn renew_login(&self, login: &Login, increment: u64) -> Result<Login, Failure> {
        let now = self.0.host.clock().now();
        let held_login = HeldLogin {
            alias: login.alias.clone(),
            policies: login.token.token_policies.clone(),
            metadata: login.metadata.clone(),
            internal: login.internal.clone(),
            issued: now,
            expires: now,
        };
        let context = self.0.context();
        let renewed = M::renew_login(&self.0.host, &context, &held_login, increment);
        let renewed = self.0.settle(renewed.and_then(Login::within_bounds))?;
        match renewed.alias == login.alias {
            true => Ok(renewed),
            false => Err(Failure::internal("a login was renewed for another alias")),
        }
    }
}

impl<M> Deref for AuthBed<M> {
    type Target = TestBed<M>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<M> DerefMut for AuthBed<M> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Refuses the undo of a reservation: an auth method has no leases.
fn refuse_revocation(
    _host: &dyn Host,
    _context: &Context,
    lease: &Lease,
    _reason: RevocationReason,
) -> Result<(), Failure> {
    let message = format!("an auth method knows no way to end {:?}", lease.tag);
    Err(Failure::new(FailureKind::UnsupportedOperation, message))
}
