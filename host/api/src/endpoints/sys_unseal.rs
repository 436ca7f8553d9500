//! `sys/unseal` and `sys/seal`: unseals and seals the service (decision H15).

use super::after_commit::AfterCommit;
use super::call::{PermittedCall, SealedCall};
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, field, write};
use super::sys_seal_status;
use bulkhead_core::seal::UnsealShare;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let fields = [
        field("key", FieldKind::String, "a share of the unseal key, hexadecimal or base64")
            .secret(),
        field("reset", FieldKind::Bool, "discard the shares from this address"),
        field("migrate", FieldKind::Bool, "give the data the seal of the configuration"),
    ];
    vec![
        write("sys/unseal", "give a share of the key").fields(fields).while_sealed(unseal),
        write("sys/seal", "seal the store").needs_sudo().goes_unrecorded().handled_by(seal),
    ]
}

/// `POST sys/unseal`: takes a share, or forgets the shares from the caller's address.
async fn unseal(call: SealedCall<'_>) -> Result<Response, Failure> {
    let SealedCall { seal, remote, fields } = call;
    if fields.flag("reset", false) {
        if seal.core().is_some() {
            let message = "the service is open and holds no shares; seal the service first";
            return Err(Failure::invalid(message));
        }
        seal.forget_shares(remote)?;
        return sys_seal_status::show(seal).await;
    }
    let share = fields.text("key");
    if share.is_empty() {
        return Err(Failure::invalid(
            "key is required: a share of the unseal key, or reset=true to begin again",
        ));
    }
    seal.unseal(UnsealShare { share, migrate: fields.flag("migrate", false), remote }).await?;
    sys_seal_status::show(seal).await
}

/// `POST sys/seal`. The store is sealed before the answer leaves.
async fn seal(_: PermittedCall<'_>) -> Result<Reply, Failure> {
    Ok(Reply::from(ReplyBody::Nothing).after_commit(AfterCommit::Seal))
}
