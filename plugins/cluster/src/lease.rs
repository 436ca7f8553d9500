//! End of a lease: removes the lease's own objects, rights first, and nothing else.
//!
//! The attack this file prevents: removing an object of the same name created by another party in
//! the meantime. A removed object has the uid given by the cluster. If a crash lost the uid, the
//! object must have the lease's own mark.

use crate::api_server::{ApiServer, ApiServerRefusal};
use crate::config::forget_former;
use crate::objects::{MARK, ObjectKind};
use crate::target::Config;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::{Failure, FailureKind, Host, Lease, stored};
use serde::{Deserialize, Serialize};

/// Time after which an API server has given up an unanswered request, in milliseconds. Until then,
/// the server may still create the requested object.
const SLOWEST_ANSWER: u64 = 65_000;

/// Data stored with a lease, sufficient to end the lease after role and configuration are gone.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct LeaseData {
    /// The API server's URL.
    pub(crate) server: String,
    pub(crate) namespace: String,
    /// Name of all created objects.
    pub(crate) name: String,
    /// Mark that distinguishes these objects from others of the same name.
    pub(crate) mark: String,
    /// Objects created or requested, in order; empty if the account existed before.
    pub(crate) objects: Vec<LeasedObject>,
}

/// An object, as far as known.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LeasedObject {
    pub(crate) kind: ObjectKind,
    /// `None` until the cluster has answered.
    pub(crate) uid: Option<String>,
    /// Time of the request.
    pub(crate) asked: StoreTime,
}

stored!(LeaseData, "lease", reads_stored_leases);

/// Removes the lease's objects. Every object is tried, even after a refusal, to leave as little as
/// possible.
pub(crate) fn revoke(host: &dyn Host, lease: &Lease) -> Result<(), Failure> {
    let lease_data: LeaseData = lease.internal()?;
    if lease_data.objects.is_empty() {
        return Ok(());
    }
    let target = Config::target_at(host, &lease_data.server)?;
    let api = ApiServer::new(host, &target);
    let mut objects: Vec<&LeasedObject> = lease_data.objects.iter().collect();
    objects.sort_by_key(|object| object.kind);
    let refusals: Vec<Failure> = objects
        .into_iter()
        .filter_map(|object| remove(host, &api, &lease_data, object).err())
        .collect();
    match together(refusals) {
        Some(failure) => Err(failure),
        None => forget_former(host, &lease_data.server),
    }
}

/// Joins all failures into a single failure. A retryable kind wins, so the lease is retried
/// longest.
fn together(refusals: Vec<Failure>) -> Option<Failure> {
    let is_lasting = |failure: &Failure| {
        matches!(failure.kind, FailureKind::InvalidRequest | FailureKind::PermissionDenied)
    };
    let kind = refusals
        .iter()
        .find(|failure| !is_lasting(failure))
        .or(refusals.first())
        .map(|failure| (failure.kind, failure.retry_after))?;
    let messages: Vec<String> = refusals.into_iter().map(|failure| failure.message).collect();
    Some(Failure { retry_after: kind.1, ..Failure::new(kind.0, messages.join("; ")) })
}

fn remove(
    host: &dyn Host,
    api: &ApiServer<'_>,
    lease_data: &LeaseData,
    object: &LeasedObject,
) -> Result<(), Failure> {
    let LeaseData { namespace, name, mark, .. } = lease_data;
    let tried = format!("delete {} {namespace}/{name}", object.kind.word());
    let failed = |refusal: ApiServerRefusal| tried_again(refusal, &tried);
    let uid = match &object.uid {
        Some(uid) => uid.clone(),
        None => match api.find(object.kind, namespace, name).map_err(failed)? {
            Some(found) if found.labels.get(MARK) == Some(mark) => found.uid,
            // Another party's object: the creation of ours was refused.
            Some(_) => return Ok(()),
            None => return is_late(host, object, &tried),
        },
    };
    api.delete(object.kind, namespace, name, &uid).map_err(failed)
}

/// Fails until an unanswered request can no longer create the object.
fn is_late(host: &dyn Host, object: &LeasedObject, tried: &str) -> Result<(), Failure> {
    let until = object.asked.saturating_add(SLOWEST_ANSWER);
    let now = host.clock().now();
    if now >= until {
        return Ok(());
    }
    let message = format!(
        "failed to {tried}: the object is absent, and may still appear, because the API server \
         never answered the creation"
    );
    let retry_after = Some(until.saturating_sub(now));
    Err(Failure { retry_after, ..Failure::new(FailureKind::Unavailable, message) })
}

/// Makes refusals retryable that pass: an operator replaces a token the API server refuses, and a
/// conflict ends. The lease waits as for a server that is down.
fn tried_again(refusal: ApiServerRefusal, tried: &str) -> Failure {
    let passes = refusal.is(401) || refusal.is(409);
    let failure = refusal.about(tried);
    let kind = if passes { FailureKind::Unavailable } else { failure.kind };
    Failure { kind, ..failure }
}

#[cfg(test)]
mod tests;
