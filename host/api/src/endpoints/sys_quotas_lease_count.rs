//! `sys/quotas/lease-count`: limits on the leases that exist at once at a path.
//!
//! As in published servers, except for roles of auth methods and paths below an auth method: there,
//! the tokens of all logins at a mount are counted together.

use super::call::{PermittedCall, RequestFields};
use super::reply::Reply;
use super::row::{self, Endpoint, field};
use super::sys_quotas::{WritableQuota, delete, list, path_of, resolve_place, shown, write};
use bulkhead_access::quotas::{self, LeaseCountQuota, QuotaPlace};
use bulkhead_core::Core;
use bulkhead_core::mounts::MountClass;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::json;

const BASE: &str = "sys/quotas/lease-count";
/// Maximum number of leases that a quota may allow. Leases are counted individually.
const MOST_LEASES: i64 = 10_000_000;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let one = format!("{BASE}/{{name}}");
    let name = || field("name", FieldKind::Name, "name of the quota");
    let page = [
        field("after", FieldKind::String, "list only names after this name"),
        field("limit", FieldKind::String, "maximum number of names"),
    ];
    let settings = [
        field(
            "path",
            FieldKind::String,
            "a mount, or a path below an engine; empty for all mounts",
        ),
        field("max_leases", FieldKind::Int, "maximum number of leases, including tokens of logins"),
        field("role", FieldKind::String, "a role of an auth method: not supported"),
        field("inheritable", FieldKind::Bool, "for child namespaces, which do not exist"),
    ];
    let settings = [name()].into_iter().chain(settings);
    vec![
        row::list(BASE, "names of all lease-count quotas")
            .fields(page)
            .handled_by(list::<LeaseCountQuota>),
        row::read(&one, "a lease-count quota, with the number of present leases")
            .fields([name()])
            .handled_by(read),
        row::write(&one, "write a lease-count quota")
            .fields(settings)
            .handled_by(write::<LeaseCountQuota>),
        row::delete(&one, "delete a lease-count quota")
            .fields([name()])
            .handled_by(delete::<LeaseCountQuota>),
    ]
}

/// `GET sys/quotas/lease-count/:name`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let name = fields.text("name");
    let quota = quotas::read::<LeaseCountQuota>(unit, name).await?.ok_or_else(Failure::absent)?;
    let counter = quota.count(&core.store).await?;
    Ok(shown([
        ("type", json!("lease-count")),
        ("name", json!(name)),
        ("path", json!(path_of(core, &quota.place))),
        ("max_leases", json!(quota.max_leases)),
        ("counter", json!(counter)),
        ("role", json!("")),
        ("inheritable", json!(false)),
    ]))
}

impl WritableQuota for LeaseCountQuota {
    fn with_fields(
        core: &Core,
        fields: RequestFields<'_>,
        stored_quota: Option<Self>,
    ) -> Result<Self, Failure> {
        if !fields.text("role").is_empty() {
            return Err(Failure::invalid(format!(
                "role {} cannot be limited: the tokens of all logins at an auth mount are counted \
                 together, so leave role out; for a role of a secrets engine give the role's path, \
                 e.g. database/creds/reader",
                quoted(fields.text("role"))
            )));
        }
        if fields.flag("inheritable", false) {
            return Err(Failure::invalid("inheritable cannot be true: there are no namespaces"));
        }
        let max_leases = match fields.integer("max_leases") {
            Some(number) => max_leases(number)?,
            None => {
                let quota = stored_quota.as_ref().ok_or_else(|| {
                    Failure::invalid("max_leases is missing: give the maximum of present leases")
                })?;
                quota.max_leases
            }
        };
        let place = match (fields.has("path"), stored_quota) {
            (false, Some(quota)) => quota.place,
            _ => lease_place(core, fields.text("path"))?,
        };
        Ok(LeaseCountQuota { place, max_leases })
    }
}

fn max_leases(number: i64) -> Result<u32, Failure> {
    let fits = (1..=MOST_LEASES).contains(&number);
    u32::try_from(number)
        .ok()
        .filter(|_| fits)
        .ok_or_else(|| Failure::invalid(format!("max_leases is {number}; give 1 to {MOST_LEASES}")))
}

/// Returns the place of a lease-count quota. The tokens of all logins at an auth method are counted
/// together.
fn lease_place(core: &Core, path: &str) -> Result<QuotaPlace, Failure> {
    let place = resolve_place(core, path)?;
    let found = core.mounts.by_uuid(&place.mount);
    let auth = found.filter(|mount| MountClass::of(&mount.record.path) == MountClass::Auth);
    match auth.filter(|_| !place.below.is_empty()) {
        None => Ok(place),
        Some(mount) => Err(Failure::invalid(format!(
            "{} is below an auth method: the tokens of all logins are counted together; give the \
             path {}",
            quoted(path.trim_matches('/')),
            mount.record.path
        ))),
    }
}
