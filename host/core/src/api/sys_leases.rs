//! `sys/leases`: look up, renew and revoke a secret by its lease id, and tidy the book of leases.
//!
//! What is about many leases is in the files of the folder beside this file.

mod irrevocable;
mod lookup;
mod prefix;

use super::row::{field, required, row, sudo};
use super::{Body, Handler, HostCall, Reply, timestamp};
use crate::core::Core;
use crate::leases::{self, End, LeaseRecord, OnFailure};
use crate::lifecycle;
use bulkhead_store::{Space, Unit};
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};
use std::slice;
use std::sync::Arc;

/// What these endpoints do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Lookup,
    Names,
    Renew,
    Revoke,
    RevokeBelow(OnFailure),
    Tidy,
    CountIrrevocable,
    ListIrrevocable,
}

impl Act {
    /// May it change something outside of the unit of work?
    pub(super) fn reaches_outside(self) -> bool {
        matches!(self, Self::Renew | Self::Revoke | Self::RevokeBelow(_) | Self::Tidy)
    }
}

/// The rows of this file and of its folder.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let id = || {
        let id = required("lease_id", FieldKind::String, "the lease's id, as its secret came with");
        vec![Field { aliases: vec!["url_lease_id".to_owned()], ..id }]
    };
    let renewal = || {
        let increment =
            field("increment", FieldKind::Duration, "seconds from now that are asked for");
        [id(), vec![increment]].concat()
    };
    let ends = || [id(), vec![sync()]].concat();
    let mut rows = vec![
        (Act::Lookup, row(Verb::Write, "sys/leases/lookup", "a lease", id())),
        (Act::Tidy, row(Verb::Write, "sys/leases/tidy", "repair what would never end", vec![])),
    ];
    for base in ["sys/leases/renew", "sys/renew"] {
        rows.push((Act::Renew, row(Verb::Write, base, "renew a lease", renewal())));
        let path = format!("{base}/{{lease_id+}}");
        rows.push((Act::Renew, row(Verb::Write, &path, "renew a lease", renewal())));
    }
    for base in ["sys/leases/revoke", "sys/revoke"] {
        rows.push((Act::Revoke, row(Verb::Write, base, "revoke a lease", ends())));
        let path = format!("{base}/{{lease_id+}}");
        rows.push((Act::Revoke, row(Verb::Write, &path, "revoke a lease", ends())));
    }
    rows.extend(lookup::rows());
    rows.extend(prefix::rows());
    rows.extend(irrevocable::rows());
    rows.into_iter().map(|(act, route)| (Handler::Leases(act), route)).collect()
}

fn sync() -> Field {
    field("sync", FieldKind::Bool, "wait until it is revoked, which is the default")
}

/// Serves a permitted request.
pub(super) async fn serve(
    act: Act,
    core: &Arc<Core>,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    match act {
        Act::Lookup => lookup(core, unit, call).await,
        Act::Names => lookup::names(core, call).await,
        Act::Renew => renew(core, call).await,
        Act::Revoke => revoke(core, call).await,
        Act::RevokeBelow(on_failure) => prefix::revoke(core, call, on_failure).await,
        Act::Tidy => Ok(tidy(core)),
        Act::CountIrrevocable => irrevocable::count(core, call).await,
        Act::ListIrrevocable => irrevocable::list(core, call).await,
    }
}

/// `POST sys/leases/lookup`.
async fn lookup(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let found = core.leases.find(unit, call.text("lease_id")).await?;
    let (_, lease) = found.ok_or_else(|| {
        Failure::invalid("invalid lease: there is no lease with this id; it may have ended")
    })?;
    Ok(Body::Data(shown(core, &lease)).into())
}

fn shown(core: &Core, lease: &LeaseRecord) -> Map<String, Value> {
    let ttl = lease.expires.saturating_sub(core.store.now()) / 1000;
    // A reservation that could not be undone has no end of its own.
    let expires = if lease.expires == 0 { Value::Null } else { timestamp(lease.expires / 1000) };
    let mut data = Map::new();
    data.insert("id".to_owned(), json!(lease.id));
    data.insert("issue_time".to_owned(), timestamp(lease.issued / 1000));
    data.insert("expire_time".to_owned(), expires);
    let renewed = lease.last_renewal.map_or(Value::Null, |renewed| timestamp(renewed / 1000));
    data.insert("last_renewal".to_owned(), renewed);
    data.insert("renewable".to_owned(), json!(lease.renewable && lease.reason.is_none()));
    data.insert("ttl".to_owned(), json!(ttl));
    data.insert("irrevocable".to_owned(), json!(lease.is_irrevocable()));
    data.insert("last_error".to_owned(), json!(lease.error));
    data
}

/// `POST sys/leases/renew`.
async fn renew(core: &Arc<Core>, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let id = call.text("lease_id");
    if id.starts_with("auth/") {
        return Err(Failure::invalid(
            "tokens cannot be renewed through this endpoint; use auth/token/renew with the token",
        ));
    }
    let renewed = lifecycle::renew_lease(core, id, call.number("increment")).await?;
    let body =
        Body::Lease { id: renewed.lease.id, ttl: renewed.ttl, renewable: renewed.lease.renewable };
    Ok(Reply { warnings: renewed.warning.into_iter().collect(), ..Reply::from(body) })
}

/// `POST sys/leases/revoke`. A lease that does not exist is revoked already.
async fn revoke(core: &Arc<Core>, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let found = core.leases.find(&mut core.store.begin(), call.text("lease_id")).await?;
    let Some((address, _)) = found else { return Ok(Body::Nothing.into()) };
    if !call.flag("sync", true) {
        core.leases.queue(slice::from_ref(&address), OnFailure::Stays).await?;
        return Ok(begun("the lease is being revoked; look it up to see whether that worked"));
    }
    let claim = core.claims.claim_in_turn(&address).await;
    // What was never handed out is undone, for its plugin too.
    let reason = (address.space == Space::Lease).then_some(End::Requested);
    lifecycle::end_lease(core, &claim, reason).await?;
    Ok(Body::Nothing.into())
}

/// `POST sys/leases/tidy`.
fn tidy(core: &Arc<Core>) -> Reply {
    if core.leases.begin_tidy() {
        return begun(
            "Tidy operation started; the server's log tells what it looked at and repaired.",
        );
    }
    // The text that clients of this API know.
    Reply {
        warnings: vec!["Tidy operation already in progress.".to_owned()],
        ..Reply::from(Body::Nothing)
    }
}

/// 202: it goes on after the answer.
fn begun(warning: &str) -> Reply {
    Reply { warnings: vec![warning.to_owned()], ..Reply::from(Body::Begun) }
}
