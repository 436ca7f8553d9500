//! `sys/locked-users`: lists the names that are locked after too many failed logins, and unlocks a
//! name.

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, field, read, write};
use bulkhead_core::Core;
use bulkhead_core::mounts::{Mount, MountClass};
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::sync::Arc;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let accessor =
        || field("mount_accessor", FieldKind::String, "the accessor of an auth method's mount");
    let alias = field("alias_identifier", FieldKind::String, "name of the method's alias");
    vec![
        read("sys/locked-users", "the locked names, by mount")
            .fields([accessor()])
            .handled_by(list),
        write("sys/locked-users/{mount_accessor}/unlock/{alias_identifier+}", "unlock a name")
            .fields([accessor(), alias])
            .handled_by(unlock),
    ]
}

/// `GET sys/locked-users`, for all auth methods or for a single mount.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    let mounts = match fields.text("mount_accessor") {
        "" => auth_mounts(core),
        accessor => vec![by_accessor(core, accessor)?],
    };
    core.lockouts.follow(&core.store).await?;
    let now = core.store.now();
    let locked = mounts.iter().map(|mount| {
        let names = core.lockouts.locked(&mount.record.uuid, now);
        (mount.record.accessor.clone(), names)
    });
    let mut locked: Vec<_> = locked.filter(|(_, names)| !names.is_empty()).collect();
    locked.sort_by_key(|(_, names)| Reverse(names.len()));
    let total: usize = locked.iter().map(|(_, names)| names.len()).sum();
    let of_mounts: Vec<Value> = locked
        .into_iter()
        .map(|(accessor, names)| {
            json!({"mount_accessor": accessor, "counts": names.len(), "alias_identifiers": names})
        })
        .collect();
    let root = json!({
        "namespace_id": "root", "namespace_path": "", "counts": total,
        "mount_accessors": of_mounts,
    });
    let data = [("by_namespace", json!([root])), ("total", json!(total))];
    Ok(ReplyBody::Data(Map::from_iter(data.map(|(name, value)| (name.to_owned(), value)))).into())
}

/// `POST sys/locked-users/:mount_accessor/unlock/:alias_identifier`. If the name is not locked, its
/// failures are forgotten.
async fn unlock(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    let mount = by_accessor(core, fields.text("mount_accessor"))?;
    let name = fields.text("alias_identifier");
    core.lockouts.unlock(&core.store, &mount.record.uuid, name).await?;
    Ok(ReplyBody::Nothing.into())
}

fn auth_mounts(core: &Core) -> Vec<Arc<Mount>> {
    let all = core.mounts.all().into_iter();
    all.filter(|mount| MountClass::of(&mount.record.path) == MountClass::Auth).collect()
}

fn by_accessor(core: &Core, accessor: &str) -> Result<Arc<Mount>, Failure> {
    auth_mounts(core).into_iter().find(|mount| mount.record.accessor == accessor).ok_or_else(|| {
        Failure::invalid(format!(
            "no auth method is mounted with the accessor {}: list sys/auth",
            quoted(accessor)
        ))
    })
}
