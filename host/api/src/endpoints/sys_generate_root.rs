//! `sys/generate-root`, `sys/generate-root-token` and `sys/decode-token`: a root token made by a
//! quorum of key holders (decision H61).
//!
//! The two families share one root generation: the first is for key holders without a token and off
//! unless configured, the second needs a token.

use super::call::{PermittedCall, PublicCall, RequestFields};
use super::envelope::public_data;
use super::key_holder_paths::{check_allowed, refuse_named};
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, delete, field, read, write};
use bulkhead_core::key_holders::{GenerationStatus, GivenShare, OTP_LENGTH, decode_token};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use bulkhead_wire::secret::Secret;
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let (open, token_path) = ("sys/generate-root/attempt", "sys/generate-root-token/attempt");
    let update = |path, about| write(path, about).fields(share_fields()).with_effect();
    vec![
        read(open, "state of a root generation").without_a_token(status),
        write(open, "begin a root generation").fields(start_fields()).without_a_token(start),
        delete(open, "cancel a root generation").fields([nonce()]).without_a_token(cancel),
        update("sys/generate-root/update", "give a share for a root generation")
            .without_a_token(give),
        read(token_path, "state of a root generation, with a token")
            .needs_sudo()
            .handled_by(held_status),
        write(token_path, "begin a root generation, with a token")
            .fields(start_fields())
            .needs_sudo()
            .with_effect()
            .handled_by(held_start),
        delete(token_path, "cancel a root generation, with a token")
            .fields([nonce()])
            .needs_sudo()
            .with_effect()
            .handled_by(held_cancel),
        update(
            "sys/generate-root-token/update",
            "give a share for a root generation, with a token",
        )
        .needs_sudo()
        .handled_by(held_give),
        write("sys/decode-token", "read an encoded root token with the OTP")
            .fields(decode_fields())
            .without_a_token(decode),
    ]
}

fn start_fields() -> [Field; 2] {
    [
        field("otp", FieldKind::String, "the OTP, as long as a token; the server's if left out")
            .secret(),
        field("pgp_key", FieldKind::Any, "not in this version"),
    ]
}

/// Returns the field that names the procedure in progress.
pub(super) fn nonce() -> Field {
    field("nonce", FieldKind::String, "the nonce of the procedure in progress")
}

/// Returns the fields of a request that gives a share.
pub(super) fn share_fields() -> [Field; 2] {
    let share = "one share of the unseal or recovery key, hexadecimal or base64";
    [field("key", FieldKind::String, share).secret(), nonce()]
}

/// Returns the share of a request with the fields of [`share_fields`].
pub(super) fn given_share<'a>(fields: RequestFields<'a>, remote: IpAddr) -> GivenShare<'a> {
    GivenShare { share: fields.text("key"), nonce: fields.text("nonce"), remote }
}

fn decode_fields() -> [Field; 2] {
    [
        field("encoded_token", FieldKind::String, "the encoded token of the root generation")
            .secret(),
        field("otp", FieldKind::String, "the OTP of the root generation").secret(),
    ]
}

/// `GET sys/generate-root/attempt`.
async fn status(call: PublicCall<'_>) -> Result<Response, Failure> {
    check_allowed(&call)?;
    Ok(bare_response(call.core.key_holders.generation_status().await?))
}

/// `POST sys/generate-root/attempt`.
async fn start(call: PublicCall<'_>) -> Result<Response, Failure> {
    check_allowed(&call)?;
    let otp = chosen_otp(call.fields)?;
    let started = call.core.key_holders.start_generation(otp, call.request.remote).await?;
    Ok(bare_response(started))
}

/// `DELETE sys/generate-root/attempt`.
async fn cancel(call: PublicCall<'_>) -> Result<Response, Failure> {
    check_allowed(&call)?;
    let (nonce, remote) = (call.fields.text("nonce"), call.request.remote);
    call.core.key_holders.cancel_generation(nonce, remote).await?;
    Ok(Response::no_content())
}

/// `POST sys/generate-root/update`.
async fn give(call: PublicCall<'_>) -> Result<Response, Failure> {
    check_allowed(&call)?;
    let share = given_share(call.fields, call.request.remote);
    Ok(bare_response(call.core.key_holders.give_to_generation(share).await?))
}

/// `GET sys/generate-root-token/attempt`.
async fn held_status(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    Ok(enveloped(call.core.key_holders.generation_status().await?))
}

/// `POST sys/generate-root-token/attempt`.
async fn held_start(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let otp = chosen_otp(call.fields)?;
    Ok(enveloped(call.core.key_holders.start_generation(otp, call.request.remote).await?))
}

/// `DELETE sys/generate-root-token/attempt`.
async fn held_cancel(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let (nonce, remote) = (call.fields.text("nonce"), call.request.remote);
    call.core.key_holders.cancel_generation(nonce, remote).await?;
    Ok(ReplyBody::Nothing.into())
}

/// `POST sys/generate-root-token/update`.
async fn held_give(mut call: PermittedCall<'_>) -> Result<Reply, Failure> {
    call.commit_token_check().await?;
    let share = given_share(call.fields, call.request.remote);
    Ok(enveloped(call.core.key_holders.give_to_generation(share).await?))
}

/// `POST sys/decode-token`. Reads and writes nothing.
async fn decode(call: PublicCall<'_>) -> Result<Response, Failure> {
    let token = decode_token(call.fields.text("encoded_token"), call.fields.text("otp"))?;
    let data = [("token".to_owned(), json!(token.expose()))];
    Ok(public_data(call.request, Map::from_iter(data)))
}

fn chosen_otp(fields: RequestFields<'_>) -> Result<&str, Failure> {
    refuse_named(fields, "pgp_key", "leave pgp_key out, and the token is encoded with the otp")?;
    Ok(fields.text("otp"))
}

fn show_secret(secret: Option<&Secret>) -> Value {
    json!(secret.map(Secret::expose).unwrap_or_default())
}

/// Returns the members that both families show.
fn members(status: &GenerationStatus) -> Map<String, Value> {
    let body = json!({
        "started": !status.nonce.is_empty(),
        "progress": status.progress,
        "required": status.required,
        "complete": status.encoded_token.is_some(),
        "otp": show_secret(status.otp.as_ref()),
        "otp_length": OTP_LENGTH,
    });
    match body {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Returns the answer without an envelope, where every member is always present.
fn bare_response(status: GenerationStatus) -> Response {
    let mut body = members(&status);
    let encoded = show_secret(status.encoded_token.as_ref());
    body.insert("nonce".to_owned(), json!(status.nonce));
    body.insert("encoded_token".to_owned(), encoded.clone());
    // The older name of the same value.
    body.insert("encoded_root_token".to_owned(), encoded);
    body.insert("pgp_fingerprint".to_owned(), json!(""));
    Response::bare(200, Value::Object(body))
}

/// Returns the answer in an envelope, without the members that have no value yet.
fn enveloped(status: GenerationStatus) -> Reply {
    let mut data = members(&status);
    if !status.nonce.is_empty() {
        data.insert("nonce".to_owned(), json!(status.nonce));
        data.insert("pgp_fingerprint".to_owned(), json!(""));
    }
    if status.encoded_token.is_some() {
        data.insert("encoded_token".to_owned(), show_secret(status.encoded_token.as_ref()));
    }
    ReplyBody::Data(data).into()
}
