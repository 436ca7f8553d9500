//! The conditions of a request that come before its destination: the state of the node, and the
//! rate limits of the client.
//!
//! This file prevents a limit that holds on one way into the service only: requests of the API and
//! requests of plain HTTP pass the same functions (see `tests/tidy/pipelines.rs`).

use bulkhead_access::quotas::RateRefusal;
use bulkhead_core::Core;
use bulkhead_core::lifecycle;
use bulkhead_wire::failure::Failure;
use std::net::IpAddr;

/// Waits until the tables of the node include the changes by other nodes, and checks the limits of
/// a request's client: the rate limit for callers without a valid token, if
/// the caller `is_unauthenticated`, and the rate-limit quotas of the path. Returns the refusal by a
/// quota that an operator wants in the audit log.
///
/// # Errors
/// 429 for a request refused without an audit record; 503 if the changes of other nodes cannot be
/// read.
pub(super) async fn admit(
    core: &Core,
    (path, remote): (&str, IpAddr),
    is_unauthenticated: bool,
) -> Result<Option<Failure>, Failure> {
    if is_unauthenticated {
        admit_unauthenticated(core, remote).await?;
    }
    lifecycle::catch_up(core).await?;
    match admit_by_quotas(core, path, remote) {
        Some(RateRefusal { failure, is_audited: false }) => Err(failure),
        refused => Ok(refused.map(|refused| refused.failure)),
    }
}

/// Rate-limits callers without a valid token. Requests over the limit are refused and not audited.
///
/// # Errors
/// 429 with a retry-after value, after a delay.
pub(super) async fn admit_unauthenticated(core: &Core, remote: IpAddr) -> Result<(), Failure> {
    Box::pin(core.process.unauthenticated_limits.admit(remote, &*core.log)).await
}

/// Returns a request to the budget of its client, because the client authenticated.
pub(super) fn give_back(core: &Core, remote: IpAddr) {
    core.process.unauthenticated_limits.give_back(remote);
}

/// Takes a request from the budget of its client, if a rate-limit quota holds the path.
fn admit_by_quotas(core: &Core, path: &str, remote: IpAddr) -> Option<RateRefusal> {
    let rates = &core.quotas.rates;
    if rates.is_empty() {
        return None;
    }
    let holder = core.mounts.holder(path);
    let (mount, below) = match &holder {
        Some((holder, below)) => (holder.uuid.as_str(), *below),
        None => ("", path),
    };
    rates.admit(path, (mount, below), remote).err()
}
