//! The destination of a request: an endpoint of the host, or a route of a mount's component.

use crate::endpoints::{Endpoint, EndpointHandler, FoundEndpoint, PublicEndpoint, unsupported};
use bulkhead_core::Core;
use bulkhead_core::catalog::ApiSuccessor;
use bulkhead_core::lifecycle;
use bulkhead_core::mounts::{GateEntry, Mount, MountEntryOutcome};
use bulkhead_store::Unit;
use bulkhead_wire::description::Route;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::request::Request;
use bulkhead_wire::route::RouteMatch;
use std::sync::Arc;

/// Name of the host among mounts.
const HOST: &str = "sys/";

/// Milliseconds after which a client may ask a mount again that is being migrated.
const RETRY_AFTER: u64 = 10_000;

/// The code that serves a request.
pub(super) enum ServingCode<'a> {
    /// An endpoint of the host itself.
    Host(&'a Endpoint),
    /// A row of a mount's route table, by its index.
    Mount(usize, Arc<Mount>),
    /// A mount with a component for plain HTTP, on a path without a row.
    Raw(Arc<Mount>),
}

/// The place of a request, and the captures of its path.
pub(super) struct Destination<'a> {
    pub(super) place: ServingCode<'a>,
    pub(super) captures: Vec<(String, String)>,
}

impl Destination<'_> {
    /// Returns the endpoint if it needs no token.
    pub(super) fn public(&self) -> Option<PublicEndpoint<'_>> {
        let ServingCode::Host(Endpoint { route, answers, .. }) = &self.place else { return None };
        let EndpointHandler::WithoutToken(handler) = answers else { return None };
        Some(PublicEndpoint { route, handler, captures: &self.captures })
    }

    /// Returns true for a mount's route that needs no token: a login or a public route.
    pub(super) fn is_open_row(&self) -> bool {
        matches!(self.place, ServingCode::Mount(..))
            && self.route().is_some_and(Route::needs_no_token)
    }

    /// Returns the path of the mount; `sys/` for an endpoint of the host.
    pub(super) fn mount(&self) -> &str {
        match &self.place {
            ServingCode::Host(_) => HOST,
            ServingCode::Mount(_, mount) | ServingCode::Raw(mount) => mount.record.path.as_str(),
        }
    }

    /// Returns true for a login at a mount.
    pub(super) fn is_login(&self) -> bool {
        matches!(self.place, ServingCode::Mount(..))
            && self.route().is_some_and(|route| route.login)
    }

    /// Returns true for plain HTTP, which needs no token of the host.
    pub(super) fn is_raw(&self) -> bool {
        matches!(self.place, ServingCode::Raw(_))
    }

    /// Returns true if the endpoint is served even if no audit device records the request.
    pub(super) fn goes_unrecorded(&self) -> bool {
        let ServingCode::Host(endpoint) = &self.place else { return false };
        endpoint.goes_unrecorded()
    }

    /// Returns true if the endpoint takes a body that is stored in a file.
    pub(super) fn takes_file(&self) -> bool {
        matches!(&self.place, ServingCode::Host(endpoint) if endpoint.takes_file)
    }

    /// Begins a unit of work for a request to this destination.
    pub(super) fn begin_unit(&self, core: &Core) -> Unit {
        match &self.place {
            ServingCode::Host(_) => core.store.begin(),
            ServingCode::Mount(_, mount) | ServingCode::Raw(mount) => mount.begin(&core.store),
        }
    }

    /// Lets the unit depend on the stored record of the mount, if other nodes may change the mount.
    ///
    /// # Errors
    /// As [`Mount::fence`].
    pub(super) async fn fence(&self, core: &Core, unit: &mut Unit) -> Result<(), Failure> {
        match &self.place {
            ServingCode::Host(_) => Ok(()),
            ServingCode::Mount(_, mount) | ServingCode::Raw(mount) => {
                mount.fence(&core.store, unit).await
            }
        }
    }

    /// Returns the route of the request.
    ///
    /// # Errors
    /// 500 if the mount's table has no such row, which cannot happen.
    pub(super) fn known_route(&self) -> Result<&Route, Failure> {
        self.route().ok_or_else(|| Failure::internal("the route table changed under a request"))
    }

    /// Returns the route of the request; `None` for plain HTTP.
    pub(super) fn route(&self) -> Option<&Route> {
        match &self.place {
            ServingCode::Host(endpoint) => Some(&endpoint.route),
            ServingCode::Mount(index, mount) => mount.table.routes().get(*index),
            ServingCode::Raw(_) => None,
        }
    }
}

/// Finds the place of a request, given the row `host` of the host's own table. A request to a mount
/// enters the mount, and waits while another version of the plugin takes the mount over. The guard
/// keeps the mount from being removed, moved or migrated while the request runs.
///
/// # Errors
/// 404 or 405, for callers with permission for the path; 503 if the mount is unavailable or its
/// data are still being migrated.
pub(super) async fn enter<'a>(
    core: &Core,
    request: &Request,
    host: Result<Option<FoundEndpoint<'a>>, Failure>,
) -> Result<(Destination<'a>, Option<GateEntry>), Failure> {
    if let Some(FoundEndpoint { endpoint, captures }) = host? {
        return Ok((Destination { place: ServingCode::Host(endpoint), captures }, None));
    }
    loop {
        let (mount, destination) = match find_in_mounts(core, request) {
            Ok(found) => found,
            Err(failure) => {
                let waited = lifecycle::outwait_foreign_migration(core, &request.path);
                match Box::pin(waited).await {
                    true => continue,
                    false => return Err(failure),
                }
            }
        };
        match core.mounts.enter(&mount).await {
            MountEntryOutcome::Inside(inside) => return Ok((destination, Some(inside))),
            MountEntryOutcome::Replaced => {}
            MountEntryOutcome::Gone => return Err(absent_failure(core, &request.path)),
            MountEntryOutcome::Late => return Err(being_migrated(&mount)),
        }
    }
}

/// Finds the mount of the request, and the route in the mount's table.
fn find_in_mounts<'a>(
    core: &Core,
    request: &Request,
) -> Result<(Arc<Mount>, Destination<'a>), Failure> {
    let Some((mount, below)) = core.mounts.route(&request.path) else {
        return Err(absent_failure(core, &request.path));
    };
    let matched = match mount.table.find(request.verb, below) {
        RouteMatch::Row { index, captures, .. } => Ok((index, captures)),
        RouteMatch::NoPath => Err(unknown_path_failure(request, &mount, below)),
        RouteMatch::NoVerb => Err(unsupported(&request.path)),
    };
    let (index, captures) = matched?;
    let place = ServingCode::Mount(index, Arc::clone(&mount));
    Ok((mount, Destination { place, captures }))
}

/// The error 404 for a path without a row. A path of an earlier version of the plugin's API is
/// answered with the path of the served version (decision K7).
fn unknown_path_failure(request: &Request, mount: &Mount, below: &str) -> Failure {
    let (path, at) = (quoted(&request.path), &mount.record.path);
    let options = &mount.record.settings.options;
    if let Some(successor) = mount.plugin.successor(options, (request.verb, below)) {
        let ApiSuccessor { requested_version, served, path: successor } = successor;
        return Failure::moved(format!(
            "{path} is a path of version {requested_version} of the API of {}, and {at} serves \
             version {served}: use {}",
            mount.record.kind,
            quoted(&format!("{at}{successor}"))
        ))
        .recordable();
    }
    let message = format!("unsupported path {path}: the engine at {at} has no such route");
    Failure::new(FailureKind::NotFound, message).recordable()
}

/// Returns the failure for a path without a mount, or with an unavailable mount.
fn absent_failure(core: &Core, path: &str) -> Failure {
    core.mounts.unavailable_at(path).unwrap_or_else(|| unmounted_failure(path))
}

/// Returns the failure for a request that waited at the gate of a mount for too long.
fn being_migrated(mount: &Mount) -> Failure {
    let message = format!("the data of {} are being migrated; try again", mount.record.path);
    Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(FailureKind::Unavailable, message) }
}

/// The error 404 for a path without a mount, in the words that clients match on (decision H4).
fn unmounted_failure(path: &str) -> Failure {
    let path = quoted(path);
    Failure::new(
        FailureKind::NotFound,
        format!("no handler for route {path}. route entry not found: nothing is mounted there"),
    )
    .recordable()
}
