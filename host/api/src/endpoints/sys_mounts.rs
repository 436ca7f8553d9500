//! `sys/mounts`: the endpoints that enable, list, tune and disable secrets engines. Functions that
//! take the class of the mount also serve `sys_auth.rs`.

mod enable;
pub(super) mod grants;
pub(super) mod info;
mod mount_path;
mod only_copies;
pub(super) mod serving;
mod settings;
mod subject;
mod tune;
mod version;

use super::call::{PermittedCall, PresentQuestion};
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint};
use bulkhead_core::lifecycle;
use bulkhead_core::mounts::{BuiltinMount, MountClass};
use bulkhead_wire::failure::Failure;
use enable::present_at_enabling;
pub(super) use enable::{enable_in, enabling_fields};
use mount_path::mount_path;
pub(super) use mount_path::path;
use serde_json::{Map, Value, json};
use serving::{MountListingEntry, serving};
use tune::present_tuning_in;
pub(super) use tune::{read_tuning_in, tune_in, tuning_fields};

/// Prefix of the paths of auth methods.
const AUTH: &str = "auth/";

/// The rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let (one, tuned, tuned_auth) =
        ("sys/mounts/{path+}", "sys/mounts/{path+}/tune", "sys/mounts/auth/{path+}/tune");
    vec![
        row::read("sys/mounts", "all secrets engines").handled_by(list),
        row::read(one, "a secrets engine or auth method").fields([path()]).handled_by(read),
        row::write(one, "mount a secrets engine")
            .fields(enabling_fields())
            .with_present_values(present_at_enabling)
            .handled_by(enable),
        row::delete(one, "end all leases of a mount and delete the mount")
            .with_effect()
            .fields([path()])
            .handled_by(disable),
        row::read(tuned, "effective settings of a mount").fields([path()]).handled_by(read_tuning),
        row::write(tuned, "change the settings of a mount")
            .fields(tuning_fields())
            .with_present_values(present_tuning)
            .handled_by(tune),
        row::read(tuned_auth, "effective settings of an auth method")
            .fields([path()])
            .handled_by(read_auth_tuning),
        row::write(tuned_auth, "change the settings of an auth method")
            .fields(tuning_fields())
            .with_present_values(present_auth_tuning)
            .handled_by(tune_auth),
    ]
}

/// `GET sys/mounts`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    Ok(list_in(MountClass::Secret, &call))
}

/// `GET sys/mounts/:path`. The path of an auth method begins with `auth/`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let path = call.fields.text("path").to_owned();
    match path.strip_prefix(AUTH) {
        Some(method) => read_in(MountClass::Auth, call, method).await,
        None => read_in(MountClass::Secret, call, &path).await,
    }
}

/// `POST sys/mounts/:path`.
async fn enable(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    enable_in(MountClass::Secret, call).await
}

/// `DELETE sys/mounts/:path`.
async fn disable(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    disable_in(MountClass::Secret, call).await
}

/// `GET sys/mounts/:path/tune`.
async fn read_tuning(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    read_tuning_in(MountClass::Secret, &call)
}

/// `POST sys/mounts/:path/tune`.
async fn tune(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    tune_in(MountClass::Secret, call).await
}

/// `GET sys/mounts/auth/:path/tune`.
async fn read_auth_tuning(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    read_tuning_in(MountClass::Auth, &call)
}

/// `POST sys/mounts/auth/:path/tune`.
async fn tune_auth(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    tune_in(MountClass::Auth, call).await
}

/// Returns the settings of a secrets engine before a change.
async fn present_tuning(question: PresentQuestion<'_>) -> Result<Map<String, Value>, Failure> {
    present_tuning_in(MountClass::Secret, question).await
}

/// Returns the settings of an auth method before a change.
async fn present_auth_tuning(question: PresentQuestion<'_>) -> Result<Map<String, Value>, Failure> {
    present_tuning_in(MountClass::Auth, question).await
}

/// Returns all mounts of a class.
pub(super) fn list_in(class: MountClass, call: &PermittedCall<'_>) -> Reply {
    let now = call.core.store.now();
    let listed = serving(call.core, class)
        .into_iter()
        .map(|one| (one.record().path.listed().to_owned(), one.info(now).into()));
    ReplyBody::Copied(listed.collect()).into()
}

/// Returns the mount of a class at a path, with the secrets of targets that the mount alone knows.
pub(super) async fn read_in(
    class: MountClass,
    call: PermittedCall<'_>,
    path: &str,
) -> Result<Reply, Failure> {
    let found = MountListingEntry::at(call.core, class, path)?;
    let mut info = found.info(call.core.store.now());
    let only_copies = only_copies::of_mount(call.unit, &found.record().uuid).await?;
    if !only_copies.is_empty() {
        info.insert("only_copies".to_owned(), json!(only_copies));
    }
    Ok(ReplyBody::Copied(info).into())
}

/// Disables a mount of a class.
pub(super) async fn disable_in(
    class: MountClass,
    call: PermittedCall<'_>,
) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, unit, .. } = call;
    let listed = format!("{}/", fields.text("path"));
    if let Some(builtin) = BuiltinMount::at(class, &listed) {
        let path = builtin.path();
        return Err(Failure::invalid(format!(
            "{path} is part of the server and cannot be disabled"
        )));
    }
    let path = mount_path(class, fields.text("path"))?;
    let lost = match core.mounts.record_at(&path) {
        Some(record) => only_copies::of_mount(unit, &record.uuid).await?,
        None => Vec::new(),
    };
    // The removal commits separate units, and deletes rows that this unit has read.
    *unit = core.store.begin();
    lifecycle::disable(core, &path).await?;
    let warning = |secret: String| {
        format!("only {path} knew {secret}, which is lost: set a new secret at the target")
    };
    Ok(Reply::from(ReplyBody::Nothing).with_warnings(lost.into_iter().map(warning)))
}
