//! How a lease ends: what was made for it is removed, rights first, and nothing else.
//!
//! The attack this file stops: an object of the same name that another made meanwhile. What is
//! removed has the uid that the cluster gave; where a crash lost it, it bears the lease's own mark.

use crate::api_server::{ApiServer, Refusal};
use crate::config::forget_former;
use crate::objects::{Kind as ObjectKind, MARK};
use crate::target::Config;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::{Failure, Host, Kind, Lease, stored};
use serde::{Deserialize, Serialize};

/// Milliseconds after which an API server has let go of a request that it did not answer; until
/// then it may still make what it was asked for.
const SLOWEST_ANSWER: u64 = 65_000;

/// What a lease keeps, so that it can end after role and configuration are gone.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct LeaseData {
    /// The API server's URL.
    pub(crate) server: String,
    pub(crate) namespace: String,
    /// Of everything that was made.
    pub(crate) name: String,
    /// What tells it from others of that name.
    pub(crate) mark: String,
    /// What was made or begun, in its order; nothing where the account was there before.
    pub(crate) objects: Vec<Held>,
}

/// An object, as far as it is known.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) kind: ObjectKind,
    /// None until the cluster has answered.
    pub(crate) uid: Option<String>,
    /// When it was asked for.
    pub(crate) asked: StoreTime,
}

stored!(LeaseData, "lease", reads_stored_leases);

/// Removes what the lease holds. Everything is tried, also after a refusal, so that as little as
/// possible is left.
pub(crate) fn revoke(host: &dyn Host, lease: &Lease) -> Result<(), Failure> {
    let held: LeaseData = lease.internal()?;
    if held.objects.is_empty() {
        return Ok(());
    }
    let target = Config::target_at(host, &held.server)?;
    let api = ApiServer::new(host, &target);
    let mut objects: Vec<&Held> = held.objects.iter().collect();
    objects.sort_by_key(|object| object.kind);
    let refusals: Vec<Failure> =
        objects.into_iter().filter_map(|object| remove(host, &api, &held, object).err()).collect();
    match together(refusals) {
        Some(failure) => Err(failure),
        None => forget_former(host, &held.server),
    }
}

/// One failure that says all, of the kind that is tried again for longest.
fn together(refusals: Vec<Failure>) -> Option<Failure> {
    let is_lasting =
        |failure: &Failure| matches!(failure.kind, Kind::InvalidRequest | Kind::PermissionDenied);
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
    held: &LeaseData,
    object: &Held,
) -> Result<(), Failure> {
    let LeaseData { namespace, name, mark, .. } = held;
    let tried = format!("delete {} {namespace}/{name}", object.kind.word());
    let failed = |refusal: Refusal| tried_again(refusal, &tried);
    let uid = match &object.uid {
        Some(uid) => uid.clone(),
        None => match api.find(object.kind, namespace, name).map_err(failed)? {
            Some(found) if found.labels.get(MARK) == Some(mark) => found.uid,
            // Another's, so that ours was refused.
            Some(_) => return Ok(()),
            None => return is_late(host, object, &tried),
        },
    };
    api.delete(object.kind, namespace, name, &uid).map_err(failed)
}

/// Waits until what was asked for and not answered cannot come any more.
fn is_late(host: &dyn Host, object: &Held, tried: &str) -> Result<(), Failure> {
    let until = object.asked.saturating_add(SLOWEST_ANSWER);
    let now = host.clock().now();
    if now >= until {
        return Ok(());
    }
    let message = format!(
        "failed to {tried}: it is not there, and may still come, because the API server never \
         answered whether it made it"
    );
    let retry_after = Some(until.saturating_sub(now));
    Err(Failure { retry_after, ..Failure::new(Kind::Unavailable, message) })
}

/// A token that the API server does not take is replaced by an operator, and a conflict passes: so
/// the lease waits for both, as it waits for a server that is down.
fn tried_again(refusal: Refusal, tried: &str) -> Failure {
    let passes = refusal.is(401) || refusal.is(409);
    let failure = refusal.about(tried);
    let kind = if passes { Kind::Unavailable } else { failure.kind };
    Failure { kind, ..failure }
}

#[cfg(test)]
mod tests;
