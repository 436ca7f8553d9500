//! The operation of a request: the word that policies allow and audit lines show. The presence of
//! an object decides between create and update.

use super::destination::{Destination, ServingCode};
use crate::endpoints::CUBBYHOLE_EXISTENCE;
use bulkhead_access::cubbyhole;
use bulkhead_access::tokens::Caller;
use bulkhead_store::{Address, Space, Unit};
use bulkhead_wire::description::{Operation, Route, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::route;

/// Returns the operation of a verb; a write `creates` or updates.
pub(super) fn operation(verb: Verb, creates: bool) -> Operation {
    match verb {
        Verb::Read => Operation::Read,
        Verb::Write if creates => Operation::Create,
        Verb::Write => Operation::Update,
        Verb::Patch => Operation::Patch,
        Verb::Delete => Operation::Delete,
        Verb::List => Operation::List,
    }
}

/// Returns whether a write to `object` creates the object. The presence is read in the unit, so
/// that the commit checks the presence again.
pub(super) async fn creates_object(
    unit: &mut Unit,
    object: Option<&Address>,
) -> Result<bool, Failure> {
    match object {
        Some(address) => Ok(!unit.is_present(address).await?),
        None => Ok(false),
    }
}

/// Returns the address of the object that a write to the route creates or updates; `None` if the
/// route does not tell the two apart.
pub(super) fn object_address(
    destination: &Destination<'_>,
    route: &Route,
    caller: Option<&Caller>,
) -> Option<Address> {
    let pattern = route.existence.as_ref()?;
    let key = route::fill_pattern(pattern, &destination.captures);
    match &destination.place {
        ServingCode::Host(_) if pattern == CUBBYHOLE_EXISTENCE => {
            let (_, path) = destination.captures.first()?;
            Some(cubbyhole::address(&caller?.hash, path))
        }
        ServingCode::Host(_) => Some(Address::new(Space::Core, key)),
        ServingCode::Mount(_, mount) | ServingCode::Raw(mount) => {
            Some(Address::new(Space::Data, format!("{}/{key}", mount.record.uuid)))
        }
    }
}
