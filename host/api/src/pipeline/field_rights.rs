//! Checks the rights of fields: a change of some fields needs `sudo` on the path of the request.
//! This check is the only one, for the host's endpoints and the routes of components (decision
//! H74).
//!
//! This file prevents a caller with the right to an object from taking a larger right through a
//! field of the object: grants of a mount's plugin, the version of a plugin, the lockout of names.

use super::destination::{Destination, ServingCode};
use super::operation::operation;
use crate::endpoints::{Endpoint, PresentQuestion, RequestFields};
use bulkhead_core::Core;
use bulkhead_core::permit::Permit;
use bulkhead_store::{Address, Unit};
use bulkhead_wire::description::Route;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::field_rights::{PresentValues, changed_sudo_fields, has_sudo_field};
use bulkhead_wire::request::Request;
use bulkhead_wire::stored;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A request allowed by policy, before the check of the fields.
pub(super) struct FieldRequest<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) request: &'a Request,
    pub(super) destination: &'a Destination<'a>,
    pub(super) object: Option<&'a Address>,
    /// Canonical fields, without the defaults of the row.
    pub(super) values: &'a Map<String, Value>,
    pub(super) creates: bool,
}

impl FieldRequest<'_> {
    /// Refuses fields that need `sudo` and change something, unless `permit` has `sudo`. The
    /// present values are read in the unit: if they change meanwhile, the request is checked again.
    ///
    /// # Errors
    /// 403 with the names of the fields and the path; the store's failure.
    pub(super) async fn check(&self, unit: &mut Unit, permit: &Permit) -> Result<(), Failure> {
        let route = self.destination.known_route()?;
        if permit.has_sudo() || !has_sudo_field(&route.fields, self.values) {
            return Ok(());
        }
        let present = self.present_values(route, unit).await?;
        let changed = changed_sudo_fields(&route.fields, self.values, &present);
        if changed.is_empty() { Ok(()) } else { Err(self.refusal(&changed)) }
    }

    /// Returns the values that the object of the request has now.
    async fn present_values(
        &self,
        route: &Route,
        unit: &mut Unit,
    ) -> Result<PresentValues, Failure> {
        if let ServingCode::Host(Endpoint { present: Some(reader), .. }) = &self.destination.place {
            let fields = RequestFields::new(self.values);
            let present = reader.handle(PresentQuestion { core: self.core, unit, fields }).await?;
            return Ok(PresentValues::Known(present));
        }
        let row = match self.object {
            Some(address) => unit.get(address).await?,
            None => None,
        };
        Ok(match row {
            Some(row) => {
                stored::members_of(&row.body).map_or(PresentValues::Unknown, PresentValues::Known)
            }
            None => PresentValues::defaults(route),
        })
    }

    fn refusal(&self, changed: &[String]) -> Failure {
        let names: Vec<String> = changed.iter().map(|name| quoted(name)).collect();
        let (act, path) = (operation(self.request.verb, self.creates).word(), &self.request.path);
        Failure::denied(format!(
            "this token may not {act} {path} with a change of {}, which needs sudo; grant sudo for \
             this path too, or leave the parameter out",
            names.join(", ")
        ))
        .recordable()
    }
}
