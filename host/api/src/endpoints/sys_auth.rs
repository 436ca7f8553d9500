//! `sys/auth`: mounts, tunes and unmounts auth methods. All but the listing need `sudo` (decision
//! H12).

use super::call::PermittedCall;
use super::reply::Reply;
use super::row::{self, Endpoint};
use super::sys_mounts::{
    disable_in, enable_in, enabling_fields, list_in, path, read_in, read_tuning_in, tune_in,
    tuning_fields,
};
use bulkhead_core::mounts::MountClass;
use bulkhead_wire::failure::Failure;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let (one, tuned) = ("sys/auth/{path+}", "sys/auth/{path+}/tune");
    vec![
        row::read("sys/auth", "all auth methods").handled_by(list),
        row::read(one, "one auth method").needs_sudo().fields([path()]).handled_by(read),
        row::write(one, "mount an auth method")
            .needs_sudo()
            .fields(enabling_fields())
            .handled_by(enable),
        row::delete(one, "end all leases of an auth method and delete the auth method")
            .needs_sudo()
            .with_effect()
            .fields([path()])
            .handled_by(disable),
        row::read(tuned, "effective settings of an auth method")
            .needs_sudo()
            .fields([path()])
            .handled_by(read_tuning),
        row::write(tuned, "change the settings of an auth method")
            .needs_sudo()
            .fields(tuning_fields())
            .handled_by(tune),
    ]
}

/// `GET sys/auth`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    Ok(list_in(MountClass::Auth, &call))
}

/// `GET sys/auth/:path`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let path = call.fields.text("path").to_owned();
    read_in(MountClass::Auth, call, &path).await
}

/// `POST sys/auth/:path`.
async fn enable(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    enable_in(MountClass::Auth, call).await
}

/// `DELETE sys/auth/:path`.
async fn disable(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    disable_in(MountClass::Auth, call).await
}

/// `GET sys/auth/:path/tune`.
async fn read_tuning(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    read_tuning_in(MountClass::Auth, &call)
}

/// `POST sys/auth/:path/tune`.
async fn tune(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    tune_in(MountClass::Auth, call).await
}
