//! The `passwords` import: core generates passwords, and each joins the secret set at once.

use crate::bindings::secrets_engine::bulkhead::plugin::passwords::Host;
use crate::contract::Failure;
use crate::grants::Act;
use crate::limits;
use crate::state::{CallState, refusal};
use bulkhead_wire::failure::{Failure as Refused, FailureKind};
use std::sync::Arc;

impl Host for CallState {
    async fn generate(&mut self, policy: String) -> wasmtime::Result<Result<String, Failure>> {
        granted!(self, Act::Passwords);
        // The unit of work keeps the policy until the commit, and generating a password is work.
        self.charge_row(policy.len())?;
        self.charge_work(limits::PASSWORD_BYTES)?;
        let services = Arc::clone(&self.context.services);
        let password = match self.unit() {
            Ok(unit) => services.password(unit, &policy).await,
            Err(refused) => return Ok(Err(refused)),
        };
        self.return_password(password)
    }

    fn generate_from(
        &mut self,
        length: u32,
        alphabet: String,
    ) -> wasmtime::Result<Result<String, Failure>> {
        granted!(self, Act::Passwords);
        self.charge_work(limits::PASSWORD_BYTES)?;
        let password = self.context.services.password_from(length, &alphabet);
        self.return_password(password)
    }
}

impl CallState {
    /// Returns a password to the component. Records a conflict, as storage does.
    fn return_password(
        &mut self,
        password: Result<String, Refused>,
    ) -> wasmtime::Result<Result<String, Failure>> {
        match &password {
            Ok(password) => {
                self.context.tree.secrets.add(password);
                self.charge(password.len())?;
            }
            Err(failure) => self.conflict |= failure.kind == FailureKind::Conflict,
        }
        Ok(password.map_err(|failure| refusal(&failure)))
    }
}
