//! `sys/quotas`: the parts that the endpoints of all kinds of quotas share.

use super::after_commit::AfterCommit;
use super::call::{PermittedCall, RequestFields};
use super::reply::{Reply, ReplyBody};
use bulkhead_access::paging::Paging;
use bulkhead_access::quotas::{self, Quota, QuotaPlace};
use bulkhead_core::Core;
use bulkhead_core::mounts::LeaseHolder;
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value, json};

/// Maximum number of quotas of a kind. Each request that a quota may hold looks through all quotas.
const MOST_QUOTAS: usize = 1_000;

/// Answers the names of the quotas of a kind.
pub(super) async fn list<Q: Quota>(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let Paging { after, limit } = Paging::of(call.fields.all())?;
    let names = quotas::names::<Q>(call.unit, &after, limit).await?;
    if names.is_empty() {
        return Err(Failure::absent());
    }
    Ok(ReplyBody::Data(Map::from_iter([("keys".to_owned(), json!(names))])).into())
}

/// A kind of quota with endpoints of its own.
pub(super) trait WritableQuota: Quota {
    /// Returns the quota of a write's fields. Omitted fields keep the values of `stored_quota`.
    ///
    /// # Errors
    /// 400 for a field that the kind cannot have.
    fn with_fields(
        core: &Core,
        fields: RequestFields<'_>,
        stored_quota: Option<Self>,
    ) -> Result<Self, Failure>;
}

/// Writes the quota of the kind in the path. Omitted fields keep their values.
pub(super) async fn write<Q: WritableQuota>(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let name = fields.text("name");
    let stored_quota = quotas::read::<Q>(unit, name).await?;
    let quota = Q::with_fields(core, fields, stored_quota)?;
    check_others(unit, name, &quota).await?;
    quotas::put(unit, name, &quota)?;
    Ok(Reply::from(ReplyBody::Nothing).after_commit(AfterCommit::LoadQuotas))
}

/// Answers members of a quota or of the settings.
pub(super) fn shown<const N: usize>(members: [(&str, Value); N]) -> Reply {
    let data = members.map(|(member, value)| (member.to_owned(), value));
    ReplyBody::Data(Map::from_iter(data)).into()
}

/// Deletes the quota of a kind that the path names.
pub(super) async fn delete<Q: Quota>(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    quotas::delete::<Q>(call.unit, call.fields.text("name"));
    Ok(Reply::from(ReplyBody::Nothing).after_commit(AfterCommit::LoadQuotas))
}

/// Returns the place of a quota's path.
///
/// # Errors
/// 400 for a path that is below no mount.
pub(super) fn resolve_place(core: &Core, path: &str) -> Result<QuotaPlace, Failure> {
    let path = path.trim_matches('/');
    if path.is_empty() {
        return Ok(QuotaPlace::default());
    }
    let Some((LeaseHolder { uuid: mount, .. }, below)) = core.mounts.holder(path) else {
        return Err(Failure::invalid(format!(
            "invalid mount path {}: give the path of a mount, or a path below a mount",
            quoted(&format!("{path}/"))
        )));
    };
    Ok(QuotaPlace { mount, below: below.to_owned() })
}

/// Refuses a second quota for the same path, and more than [`MOST_QUOTAS`] quotas.
async fn check_others<Q: Quota>(unit: &mut Unit, name: &str, quota: &Q) -> Result<(), Failure> {
    let others = quotas::names::<Q>(unit, "", usize::MAX).await?;
    let others: Vec<String> = others.into_iter().filter(|other| other != name).collect();
    if others.len() >= MOST_QUOTAS {
        return Err(Failure::invalid(format!(
            "there are {MOST_QUOTAS} quotas, which is the most; delete a quota first"
        )));
    }
    for other in others {
        let other_quota = quotas::read::<Q>(unit, &other).await?;
        if other_quota.is_some_and(|other_quota| other_quota.place() == quota.place()) {
            return Err(Failure::invalid(format!(
                "the path has a quota already, {}; change or delete the present quota",
                quoted(&other)
            )));
        }
    }
    Ok(())
}

/// Returns the current path of a quota; `None` if its mount is being removed.
pub(super) fn path_of(core: &Core, place: &QuotaPlace) -> Option<String> {
    if place.mount.is_empty() {
        return Some(String::new());
    }
    let holder = core.mounts.holders().into_iter().find(|holder| holder.uuid == place.mount)?;
    Some(format!("{}{}", holder.path, place.below))
}
