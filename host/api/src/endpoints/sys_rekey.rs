//! `sys/rekey` and `sys/rotate/root`: other shares of the unseal key, made by a quorum of key
//! holders (decision H61). `sys/rekey-recovery-key` and `sys/rotate/recovery`: the same for the
//! recovery key of a server with an automatic seal (decision H89).
//!
//! The families share one rekey: `rekey` is for key holders without a token and off unless
//! configured, `rotate` needs a token.

mod shown;

use super::call::{PermittedCall, PublicCall, RequestFields};
use super::key_holder_paths::{check_allowed, refuse_named};
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, delete, field, read, write};
use super::sys_generate_root::{given_share, nonce, share_fields};
use super::sys_init::count;
use bulkhead_core::Core;
use bulkhead_core::key_holders::{RekeyStatus, RekeyTarget};
use bulkhead_store::SealConfig;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use serde_json::Value;
use std::net::IpAddr;

/// The families of paths for the recovery key.
const RECOVERY: &str = "sys/rekey-recovery-key";
const RECOVERY_WITH_TOKEN: &str = "sys/rotate/recovery";
/// End of the descriptions of these paths.
const OF_RECOVERY: &str = " of the recovery key";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let families = [
        for_key_holders("sys/rekey", ""),
        for_key_holders(RECOVERY, OF_RECOVERY),
        with_a_token("sys/rotate/root", ", with a token"),
        with_a_token(RECOVERY_WITH_TOKEN, &format!("{OF_RECOVERY}, with a token")),
        backups(),
    ];
    families.into_iter().flatten().collect()
}

/// Returns the rows for key holders without a token. The descriptions end with `end`.
fn for_key_holders(family: &str, end: &str) -> Vec<Endpoint> {
    let (begun, checked) = (&format!("{family}/init"), &format!("{family}/verify"));
    let about = |act: &str| format!("{act}{end}");
    vec![
        read(begun, &about("state of a rekey")).without_a_token(status),
        write(begun, &about("begin a rekey")).fields(start_fields()).without_a_token(start),
        delete(begun, &about("cancel a rekey")).fields([nonce()]).without_a_token(cancel),
        write(&format!("{family}/update"), &about("give a share of the replaced key"))
            .fields(share_fields())
            .without_a_token(give),
        read(checked, &about("number of verified new shares")).without_a_token(verification),
        write(checked, &about("verify a new share")).fields(share_fields()).without_a_token(verify),
        delete(checked, &about("restart the verification of new shares"))
            .fields([nonce()])
            .without_a_token(restart),
    ]
}

/// Returns the rows that need a token. The descriptions end with `end`.
fn with_a_token(family: &str, end: &str) -> Vec<Endpoint> {
    let (begun, checked) = (&format!("{family}/init"), &format!("{family}/verify"));
    let about = |act: &str| format!("{act}{end}");
    let sudo_row = |row: super::row::EndpointBuilder| row.needs_sudo().with_effect();
    vec![
        read(begun, &about("state of a rekey")).needs_sudo().handled_by(held_status),
        sudo_row(write(begun, &about("begin a rekey")).fields(start_fields()))
            .handled_by(held_start),
        sudo_row(delete(begun, &about("cancel a rekey")).fields([nonce()])).handled_by(held_cancel),
        sudo_row(
            write(&format!("{family}/update"), &about("give a share of the replaced key"))
                .fields(share_fields()),
        )
        .handled_by(held_give),
        read(checked, &about("number of verified new shares"))
            .needs_sudo()
            .handled_by(held_verification),
        sudo_row(write(checked, &about("verify a new share")).fields(share_fields()))
            .handled_by(held_verify),
        sudo_row(
            delete(checked, &about("restart the verification of new shares")).fields([nonce()]),
        )
        .handled_by(held_restart),
    ]
}

/// Returns the rows about stored shares. No share is ever stored.
fn backups() -> Vec<Endpoint> {
    let paths = [
        ("sys/rekey/backup", "shares stored in encrypted form", "stored shares"),
        ("sys/rotate/root/backup", "shares stored encrypted", "shares stored encrypted"),
        ("sys/rekey/recovery-key-backup", "recovery keys in encrypted form", "stored keys"),
        ("sys/rotate/recovery/backup", "recovery keys stored encrypted", "keys stored encrypted"),
    ];
    let rows = paths.map(|(path, shown, removed)| {
        [
            read(path, &format!("{shown}: none")).needs_sudo().handled_by(no_backup),
            delete(path, &format!("remove {removed}: none")).needs_sudo().handled_by(remove_backup),
        ]
    });
    rows.into_iter().flatten().collect()
}

/// Returns the key that a request to this path replaces.
fn target(path: &str) -> RekeyTarget {
    if path.starts_with(RECOVERY) || path.starts_with(RECOVERY_WITH_TOKEN) {
        RekeyTarget::Recovery
    } else {
        RekeyTarget::Unseal
    }
}

/// Checks that key holders may work without a token, and have a key of this kind.
///
/// # Errors
/// 405 unless the configuration allows such work; 400 for a key that this server does not have.
async fn check(call: &PublicCall<'_>) -> Result<(), Failure> {
    check_allowed(call)?;
    call.core.key_holders.check_target(target(&call.request.path)).await
}

/// Checks that key holders have a key of this kind.
///
/// # Errors
/// 400 for a key that this server does not have.
async fn check_held(call: &PermittedCall<'_>) -> Result<(), Failure> {
    call.core.key_holders.check_target(target(&call.request.path)).await
}

fn start_fields() -> [Field; 6] {
    [
        field("secret_shares", FieldKind::Int, "number of shares of the new key"),
        field("secret_threshold", FieldKind::Int, "number of shares that are needed"),
        field(
            "require_verification",
            FieldKind::Bool,
            "verify the new shares before they replace the old",
        ),
        field("stored_shares", FieldKind::Int, "for seals of other kinds"),
        field("pgp_keys", FieldKind::Any, "not in this version"),
        field("backup", FieldKind::Any, "not in this version"),
    ]
}

async fn begin(
    core: &Core,
    fields: RequestFields<'_>,
    remote: IpAddr,
) -> Result<RekeyStatus, Failure> {
    let remedy = "leave the parameter out, and encrypt the keys in the answer yourself";
    refuse_named(fields, "pgp_keys", remedy)?;
    refuse_named(fields, "backup", remedy)?;
    let (shares, threshold) = (count(fields, "secret_shares")?, count(fields, "secret_threshold")?);
    let config = SealConfig::new(shares, threshold).map_err(Failure::invalid)?;
    core.key_holders.start_rekey(config, fields.flag("require_verification", false), remote).await
}

/// `GET sys/rekey/init`.
async fn status(call: PublicCall<'_>) -> Result<Response, Failure> {
    check(&call).await?;
    Ok(bare_response(shown::status(&call.core.key_holders.rekey_status().await?)))
}

/// `POST sys/rekey/init`.
async fn start(call: PublicCall<'_>) -> Result<Response, Failure> {
    check(&call).await?;
    let started = begin(call.core, call.fields, call.request.remote).await?;
    Ok(bare_response(shown::status(&started)))
}

/// `DELETE sys/rekey/init`.
async fn cancel(call: PublicCall<'_>) -> Result<Response, Failure> {
    check(&call).await?;
    let (nonce, remote) = (call.fields.text("nonce"), call.request.remote);
    call.core.key_holders.cancel_rekey(nonce, remote).await?;
    Ok(Response::no_content())
}

/// `POST sys/rekey/update`.
async fn give(call: PublicCall<'_>) -> Result<Response, Failure> {
    check(&call).await?;
    let share = given_share(call.fields, call.request.remote);
    Ok(bare_response(shown::step(&call.core.key_holders.give_to_rekey(share).await?)))
}

/// `GET sys/rekey/verify`.
async fn verification(call: PublicCall<'_>) -> Result<Response, Failure> {
    check(&call).await?;
    Ok(bare_response(shown::verification(&call.core.key_holders.verification_status().await?)))
}

/// `POST sys/rekey/verify`.
async fn verify(call: PublicCall<'_>) -> Result<Response, Failure> {
    check(&call).await?;
    let share = given_share(call.fields, call.request.remote);
    Ok(bare_response(shown::verified(&call.core.key_holders.give_to_verification(share).await?)))
}

/// `DELETE sys/rekey/verify`.
async fn restart(call: PublicCall<'_>) -> Result<Response, Failure> {
    check(&call).await?;
    let restarted = call.core.key_holders.restart_verification(call.fields.text("nonce")).await?;
    Ok(bare_response(shown::verification(&restarted)))
}

/// `GET sys/rotate/root/init`.
async fn held_status(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    check_held(&call).await?;
    Ok(enveloped(shown::held_status(&call.core.key_holders.rekey_status().await?)))
}

/// `POST sys/rotate/root/init`.
async fn held_start(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    check_held(&call).await?;
    let started = begin(call.core, call.fields, call.request.remote).await?;
    Ok(enveloped(shown::held_status(&started)))
}

/// `DELETE sys/rotate/root/init`.
async fn held_cancel(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    check_held(&call).await?;
    let (nonce, remote) = (call.fields.text("nonce"), call.request.remote);
    call.core.key_holders.cancel_rekey(nonce, remote).await?;
    Ok(ReplyBody::Nothing.into())
}

/// `POST sys/rotate/root/update`.
async fn held_give(mut call: PermittedCall<'_>) -> Result<Reply, Failure> {
    check_held(&call).await?;
    call.commit_token_check().await?;
    let share = given_share(call.fields, call.request.remote);
    Ok(enveloped(shown::held_step(&call.core.key_holders.give_to_rekey(share).await?)))
}

/// `GET sys/rotate/root/verify`.
async fn held_verification(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    check_held(&call).await?;
    Ok(enveloped(shown::verification(&call.core.key_holders.verification_status().await?)))
}

/// `POST sys/rotate/root/verify`.
async fn held_verify(mut call: PermittedCall<'_>) -> Result<Reply, Failure> {
    check_held(&call).await?;
    call.commit_token_check().await?;
    let share = given_share(call.fields, call.request.remote);
    Ok(enveloped(shown::verified(&call.core.key_holders.give_to_verification(share).await?)))
}

/// `DELETE sys/rotate/root/verify`.
async fn held_restart(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    check_held(&call).await?;
    let restarted = call.core.key_holders.restart_verification(call.fields.text("nonce")).await?;
    Ok(enveloped(shown::verification(&restarted)))
}

/// `GET sys/rekey/backup`.
async fn no_backup(_: PermittedCall<'_>) -> Result<Reply, Failure> {
    Err(Failure::invalid("no backed-up keys found: this server stores no share of the key"))
}

/// `DELETE sys/rekey/backup`.
async fn remove_backup(_: PermittedCall<'_>) -> Result<Reply, Failure> {
    Ok(ReplyBody::Nothing.into())
}

fn bare_response(body: Value) -> Response {
    Response::bare(200, body)
}

fn enveloped(body: Value) -> Reply {
    match body {
        Value::Object(data) => ReplyBody::Data(data).into(),
        other => ReplyBody::Bare(other).into(),
    }
}
