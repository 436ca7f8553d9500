//! The `leases` import: reservations, written by core into the call's unit of work.

use crate::bindings::secrets_engine::bulkhead::plugin::leases::Host;
use crate::contract::Failure;
use crate::grants::Act;
use crate::host_services::ReservationRequest;
use crate::state::{CallState, refusal};
use std::sync::Arc;

impl Host for CallState {
    fn reserve(
        &mut self,
        tag: String,
        lane: String,
        internal: String,
    ) -> wasmtime::Result<Result<String, Failure>> {
        granted!(self, Act::Leases);
        let texts = [&tag, &lane, &internal].map(String::len).into_iter().sum();
        self.charge_row(texts)?;
        if let Err(refused) = self.check_lane(&lane).and_then(|()| self.check_name("tag", &tag)) {
            return Ok(Err(refused));
        }
        let services = Arc::clone(&self.context.services);
        let reservation = ReservationRequest { tag, lane, internal };
        Ok(match self.unit() {
            Ok(unit) => services.reserve(unit, reservation).map_err(|failure| refusal(&failure)),
            Err(refused) => Err(refused),
        })
    }

    async fn amend(
        &mut self,
        tag: String,
        internal: String,
    ) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Leases);
        self.charge_row(tag.len().saturating_add(internal.len()))?;
        let services = Arc::clone(&self.context.services);
        Ok(match self.unit() {
            Ok(unit) => {
                let amended = services.amend(unit, &tag, internal).await;
                amended.map_err(|failure| refusal(&failure))
            }
            Err(refused) => Err(refused),
        })
    }

    fn end_issued(&mut self, handle: String) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Leases);
        // Two rows: the reservation and the lease.
        self.charge_row(handle.len())?;
        self.charge_row(handle.len())?;
        let services = Arc::clone(&self.context.services);
        Ok(match self.unit() {
            Ok(unit) => services.end_issued(unit, &handle).map_err(|failure| refusal(&failure)),
            Err(refused) => Err(refused),
        })
    }

    fn end(&mut self, tag: String) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Leases);
        if let Err(refused) = self.unit() {
            return Ok(Err(refused));
        }
        Ok(self.context.services.withdraw(&tag).map_err(|failure| refusal(&failure)))
    }

    async fn count(&mut self, lane: String) -> wasmtime::Result<Result<u32, Failure>> {
        granted!(self, Act::Leases);
        if let Err(refused) = self.unit() {
            return Ok(Err(refused));
        }
        Ok(self.context.services.lease_count(&lane).await.map_err(|failure| refusal(&failure)))
    }
}
