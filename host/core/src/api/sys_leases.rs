//! `sys/leases`: look up, renew and revoke a secret by its lease id.

use super::{Body, HostCall, Reply, timestamp};
use crate::core::Core;
use crate::leases::{self, End};
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// `POST sys/leases/lookup`.
pub(super) async fn lookup(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let address = leases::locate(&core.store, &core.mounts, call.text("lease_id"))?;
    let lease = leases::read(unit, &address).await?;
    let lease =
        lease.ok_or_else(|| Failure::invalid("invalid lease: there is no lease with this id; it may have ended"))?;
    let ttl = lease.expires.saturating_sub(core.store.now()) / 1000;
    let mut data = Map::new();
    data.insert("id".to_owned(), json!(lease.id));
    data.insert("issue_time".to_owned(), timestamp(lease.issued / 1000));
    data.insert("expire_time".to_owned(), timestamp(lease.expires / 1000));
    let renewed = lease.last_renewal.map_or(Value::Null, |renewed| timestamp(renewed / 1000));
    data.insert("last_renewal".to_owned(), renewed);
    data.insert("renewable".to_owned(), json!(lease.renewable && lease.reason.is_none()));
    data.insert("ttl".to_owned(), json!(ttl));
    data.insert("irrevocable".to_owned(), json!(lease.is_irrevocable()));
    data.insert("last_error".to_owned(), json!(lease.error));
    Ok(Body::Data(data).into())
}

/// `POST sys/leases/renew`.
pub(super) async fn renew(core: &Arc<Core>, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let renewed = leases::renew(core, call.text("lease_id"), call.number("increment")).await?;
    let body = Body::Lease { id: renewed.lease.id, ttl: renewed.ttl, renewable: renewed.lease.renewable };
    Ok(Reply { warnings: renewed.warning.into_iter().collect(), ..Reply::from(body) })
}

/// `POST sys/leases/revoke`. A lease that does not exist is revoked already. Always waits for the plugin;
/// `sync=false` answers 204 like the others, once it is done.
pub(super) async fn revoke(core: &Arc<Core>, call: &HostCall<'_>) -> Result<Reply, Failure> {
    // An id that names no mount cannot name a lease, and a lease that is gone is revoked.
    let Ok(address) = leases::locate(&core.store, &core.mounts, call.text("lease_id")) else {
        return Ok(Body::Nothing.into());
    };
    let claim = core.claims.claim_in_turn(&address).await;
    leases::end(core, &claim, Some(End::Requested)).await?;
    Ok(Body::Nothing.into())
}
