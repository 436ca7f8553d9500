//! `sys/leases`: looks up, renews and revokes a lease by its id, and tidies the lease book.
//!
//! The endpoints for many leases are in the folder beside this file.

mod irrevocable;
mod lookup;
mod prefix;
mod token_leases;
mod waiting;

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, field, required, write};
use bulkhead_access::timestamp::timestamp;
use bulkhead_core::Core;
use bulkhead_core::leases::{EndReason, LeaseRecord, OnFailure};
use bulkhead_core::lifecycle;
use bulkhead_store::Space;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};
use std::slice;
use waiting::{accepted, sync};

/// Returns the rows of this file and of its folder.
pub(super) fn rows() -> Vec<Endpoint> {
    let id = || Field {
        aliases: vec!["url_lease_id".to_owned()],
        ..required("lease_id", FieldKind::String, "the lease's id, from the answer with the secret")
    };
    let increment =
        || field("increment", FieldKind::Duration, "requested lifetime, in seconds from now");
    let mut rows = vec![
        write("sys/leases/lookup", "a lease").fields([id()]).handled_by(look_up),
        write("sys/leases/tidy", "repair leases without an end").with_effect().handled_by(tidy),
    ];
    for path in paths("sys/leases/renew", "sys/renew") {
        let row = write(&path, "renew a lease").with_effect();
        rows.push(row.fields([id(), increment()]).handled_by(renew));
    }
    for path in paths("sys/leases/revoke", "sys/revoke") {
        let row = write(&path, "revoke a lease").with_effect();
        rows.push(row.fields([id(), sync()]).handled_by(revoke));
    }
    rows.extend(lookup::rows());
    rows.extend(prefix::rows());
    rows.extend(irrevocable::rows());
    rows
}

/// Returns the new spelling and the old spelling, each with the id in the body or at the end of the
/// path.
fn paths(new: &str, old: &str) -> [String; 4] {
    [new.to_owned(), format!("{new}/{{lease_id+}}"), old.to_owned(), format!("{old}/{{lease_id+}}")]
}

/// `POST sys/leases/lookup`.
async fn look_up(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let id = fields.text("lease_id");
    let shown = match token_leases::has_tokens(id) {
        true => {
            let lease = core.tokens.find_lease(unit, id).await?;
            lease.map(|lease| token_leases::show(core, &lease))
        }
        false => core.leases.find(unit, id).await?.map(|(_, lease)| show(core, &lease)),
    };
    let shown = shown.ok_or_else(|| {
        Failure::invalid("invalid lease: there is no lease with this id; the lease may have ended")
    })?;
    Ok(ReplyBody::Data(shown).into())
}

fn show(core: &Core, lease: &LeaseRecord) -> Map<String, Value> {
    let ttl = lease.expires.saturating_sub(core.store.now()) / 1000;
    // A reservation with a failed undo has no expiry.
    let expires = if lease.expires == 0 { Value::Null } else { timestamp(lease.expires / 1000) };
    let mut data = Map::new();
    data.insert("id".to_owned(), json!(lease.id));
    data.insert("path".to_owned(), json!(path_of(&lease.id)));
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

/// Returns the path of the request that created the lease: the id without the last part.
fn path_of(id: &str) -> &str {
    id.rsplit_once('/').map_or(id, |(path, _)| path)
}

/// `POST sys/leases/renew`.
async fn renew(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    let id = fields.text("lease_id");
    if token_leases::has_tokens(id) {
        return Err(Failure::invalid(
            "tokens cannot be renewed through this endpoint; use auth/token/renew with the token",
        ));
    }
    let renewed = lifecycle::renew_lease(core, id, fields.seconds("increment")).await?;
    let body = ReplyBody::Lease {
        id: renewed.lease.id,
        ttl: renewed.ttl,
        renewable: renewed.lease.renewable,
    };
    Ok(Reply::from(body).with_warnings(renewed.warning))
}

/// `POST sys/leases/revoke`. A lease that does not exist counts as revoked.
async fn revoke(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let id = fields.text("lease_id");
    if token_leases::has_tokens(id) {
        let lease = core.tokens.find_lease(unit, id).await?;
        return lease.map_or(Ok(ReplyBody::Nothing.into()), |it| token_leases::revoke(unit, it));
    }
    let found = core.leases.find(&mut core.store.begin(), id).await?;
    let Some((address, _)) = found else { return Ok(ReplyBody::Nothing.into()) };
    if !fields.flag("sync", true) {
        core.leases.queue(slice::from_ref(&address), OnFailure::Stays).await?;
        return Ok(accepted("the lease is being revoked; look the lease up to see the result"));
    }
    let claim = core.claims.claim_in_turn(&address).await?;
    // A reservation was never handed out. Without a reason from here, its plugin gets `undo`.
    let reason = (address.space == Space::Lease).then_some(EndReason::Requested);
    lifecycle::end_lease(core, &claim, reason).await?;
    Ok(ReplyBody::Nothing.into())
}

/// `POST sys/leases/tidy`.
async fn tidy(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    if call.core.leases.begin_tidy() {
        return Ok(accepted("Tidy operation started; the server's log has the result."));
    }
    // The text that clients of this API know.
    let warning = "Tidy operation already in progress.".to_owned();
    Ok(Reply::from(ReplyBody::Nothing).with_warnings([warning]))
}
