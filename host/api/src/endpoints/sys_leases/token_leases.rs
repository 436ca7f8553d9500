//! Leases of tokens, below `auth/`: the path of the request that made the token, and the key of the
//! token's row.

use crate::endpoints::after_commit::AfterCommit;
use crate::endpoints::reply::{Reply, ReplyBody};
use bulkhead_access::paging::SortedNames;
use bulkhead_access::timestamp::timestamp;
use bulkhead_access::tokens::{self, TokenEnding, TokenLease};
use bulkhead_core::Core;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};

/// Returns whether tokens have leases at the path or below.
pub(super) fn has_tokens(path: &str) -> bool {
    path == "auth" || path.starts_with("auth/")
}

/// Adds the names directly below `path`: the next segment of longer paths, and the keys of the
/// tokens that were made at the path itself. The empty path has the only name `auth/`.
///
/// # Errors
/// The store's failure, or too many names.
pub(super) async fn add_names(
    core: &Core,
    path: &str,
    names: &mut SortedNames,
) -> Result<(), Failure> {
    if !path.is_empty() && !has_tokens(path) {
        return Ok(());
    }
    let mut pages = core.tokens.pages();
    while let Some(page) = pages.page().await? {
        for lease in core.tokens.leases_of(&page).await? {
            let Some(name) = name_below(&lease, path) else { continue };
            names.add(name).await?;
            if path.is_empty() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the name of the lease, or of its folder, directly below `path`; `None` for a lease
/// elsewhere.
fn name_below(lease: &TokenLease, path: &str) -> Option<String> {
    let made_at = lease.record.path.as_str();
    if path.is_empty() {
        return made_at.split_once('/').map(|(first, _)| format!("{first}/"));
    }
    match made_at.strip_prefix(path)? {
        "" => Some(lease.key.clone()),
        rest => {
            let below = rest.strip_prefix('/')?;
            Some(format!("{}/", below.split('/').next().unwrap_or_default()))
        }
    }
}

/// Shows a token's lease.
pub(super) fn show(core: &Core, lease: &TokenLease) -> Map<String, Value> {
    let TokenLease { key, record } = lease;
    let ttl = record.remaining_seconds(core.store.now()).unwrap_or_default();
    let time = |seconds: Option<u64>| seconds.map_or(Value::Null, timestamp);
    let members = [
        ("id", json!(format!("{}/{key}", record.path))),
        ("path", json!(record.path)),
        ("issue_time", timestamp(record.issued)),
        ("expire_time", time(record.expires)),
        ("last_renewal", time(record.last_renewal)),
        ("renewable", json!(record.renewable)),
        ("ttl", json!(ttl)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Ends the token with its children.
///
/// # Errors
/// The store's failure.
pub(super) fn revoke(unit: &mut Unit, lease: TokenLease) -> Result<Reply, Failure> {
    tokens::begin_end(unit, &lease.key, &lease.record, TokenEnding::WithChildren)?;
    let ending = AfterCommit::SpreadTokenEnd(lease.key);
    Ok(Reply::from(ReplyBody::Nothing).after_commit(ending))
}
