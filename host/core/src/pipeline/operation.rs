//! The operation of a request: the word that policies allow and audit lines show.

use super::destination::{Destination, ServingCode};
use crate::api::CUBBYHOLE_EXISTENCE;
use crate::cubbyhole;
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

/// Returns whether a write creates an object. Read in the unit, so that the commit checks it again.
pub(super) async fn creates(
    unit: &mut Unit,
    destination: &Destination<'_>,
    route: &Route,
    caller: Option<&Caller>,
) -> Result<bool, Failure> {
    let Some(pattern) = &route.existence else { return Ok(false) };
    let key = route::fill_pattern(pattern, &destination.captures);
    let captured = destination.captures.first();
    let address = match &destination.place {
        ServingCode::Host(_) if pattern == CUBBYHOLE_EXISTENCE => match (caller, captured) {
            (Some(caller), Some((_, path))) => cubbyhole::address(&caller.hash, path),
            _ => return Ok(false),
        },
        ServingCode::Host(_) => Address::new(Space::Core, key),
        ServingCode::Mount(_, mount) | ServingCode::Raw(mount) => {
            Address::new(Space::Data, format!("{}/{key}", mount.record.uuid))
        }
    };
    Ok(unit.get(&address).await?.is_none())
}
