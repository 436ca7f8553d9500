//! Where a request goes: an endpoint of the host, or a route of a mount's component.

use crate::api::{self, Endpoint, PublicEndpoint};
use crate::core::Core;
use crate::mounts::Mount;
use bulkhead_wire::description::Route;
use bulkhead_wire::failure::{Failure, Kind, quoted};
use bulkhead_wire::request::Request;
use bulkhead_wire::route::Match;
use std::sync::Arc;

/// What answers.
pub(super) enum Place {
    /// An endpoint of the host itself.
    Host(Endpoint),
    /// A row of a mount's route table, by its index.
    Mount(usize, Arc<Mount>),
}

/// A request's place, and what its path carried.
pub(super) struct Destination {
    pub(super) place: Place,
    pub(super) captures: Vec<(String, String)>,
}

impl Destination {
    /// The endpoint, if it asks for no token.
    pub(super) fn public<'a>(&'a self, core: &'a Core) -> Option<PublicEndpoint<'a>> {
        match &self.place {
            Place::Host(endpoint) => core.process.table.public(*endpoint, &self.captures),
            Place::Mount(..) => None,
        }
    }

    /// The row of the table.
    pub(super) fn route<'a>(&'a self, core: &'a Core) -> Option<&'a Route> {
        match &self.place {
            Place::Host(endpoint) => core.process.table.route(*endpoint),
            Place::Mount(index, mount) => mount.plugin.table.routes().get(*index),
        }
    }
}

/// Finds the place, from what the table of the `host` says. The failure (404 or 405) is for those
/// whose policy allows the path.
pub(super) fn find(
    core: &Core,
    request: &Request,
    host: Result<Option<api::Found>, Failure>,
) -> Result<Destination, Failure> {
    if let Some((endpoint, captures)) = host? {
        return Ok(Destination { place: Place::Host(endpoint), captures });
    }
    let Some((mount, below)) = core.mounts.route(&request.path) else {
        return Err(core
            .mounts
            .stranded_at(&request.path)
            .unwrap_or_else(|| unmounted(&request.path)));
    };
    let found = match mount.plugin.table.find(request.verb, below) {
        Match::Row { index, captures, .. } => Ok((index, captures)),
        Match::NoPath => Err(Failure::new(
            Kind::NotFound,
            format!(
                "unsupported path {}: the engine at {} has no such route",
                quoted(&request.path),
                mount.record.path
            ),
        )),
        Match::NoVerb => Err(unsupported(&request.path)),
    };
    let (index, captures) = found?;
    Ok(Destination { place: Place::Mount(index, mount), captures })
}

/// 404, in the words that clients look for (decision H4).
pub(super) fn unmounted(path: &str) -> Failure {
    let path = quoted(path);
    Failure::new(
        Kind::NotFound,
        format!("no handler for route {path}. route entry not found: nothing is mounted there"),
    )
}

/// 405.
pub(crate) fn unsupported(path: &str) -> Failure {
    let message = format!("unsupported operation: {} does not answer this method", quoted(path));
    Failure::new(Kind::UnsupportedOperation, message)
}
