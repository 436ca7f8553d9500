//! `sys/wrapping`: opens, looks up and renews the wrapping of answers, and wraps any fields.
//!
//! This file prevents false alarms of an intercepted secret: the refusal of a wrapping token is
//! always 400, and never means that the caller's own token was refused (403).

use super::after_commit::AfterCommit;
use super::call::{PermittedCall, PublicCall};
use super::envelope::public_data;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, field, read, write};
use bulkhead_access::tokens::{self, TokenType};
use bulkhead_access::wrapping::{self, WrappingToken};
use bulkhead_store::{Store, Unit};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use bulkhead_wire::secret::Secret;
use serde_json::Map;

const WRAP: &str = "sys/wrapping/wrap";
const UNWRAP: &str = "sys/wrapping/unwrap";
const REWRAP: &str = "sys/wrapping/rewrap";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let token = || -> Field {
        let about = "the wrapping token; the calling token if left out";
        field("token", FieldKind::String, about).secret()
    };
    vec![
        write(WRAP, "wrap the fields of the request").open_fields().handled_by(wrap),
        write(UNWRAP, "the wrapped answer of a wrapping token, once")
            .fields([token()])
            .handled_by(unwrap),
        write(REWRAP, "move a wrapped answer to a new wrapping token")
            .fields([token()])
            .handled_by(rewrap),
        write("sys/wrapping/lookup", "time and path of a wrapping token")
            .fields([token()])
            .without_a_token(lookup),
        read("sys/wrapping/lookup", "time and path of a wrapping token").without_a_token(lookup),
    ]
}

/// Returns true if the wrapping token of a request to `path` may stand in place of the caller's
/// token.
pub(crate) fn is_opened_by_caller(path: &str) -> bool {
    [UNWRAP, REWRAP].contains(&path)
}

/// Returns true if the answer of a request to `path` holds data sent by the caller: in this
/// request, or before to the caller's cubbyhole.
pub(crate) fn answers_own_data(path: &str) -> bool {
    path == WRAP || path.split('/').next() == Some("cubbyhole")
}

/// The error for a token without a wrapped answer, in the words that clients match on.
pub(crate) fn not_wrapping() -> Failure {
    Failure::invalid(
        "wrapping token is not valid or does not exist: the token was used before, has expired, \
         was revoked, or never wrapped an answer",
    )
}

/// `POST sys/wrapping/wrap`. The pipeline wraps the answer.
async fn wrap(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    if call.request.wrap_ttl.is_none() {
        return Err(Failure::invalid(
            "endpoint requires response wrapping to be used: send X-Vault-Wrap-TTL, such as 60",
        ));
    }
    Ok(ReplyBody::Data(call.request.fields.clone()).into())
}

/// `POST sys/wrapping/unwrap`.
async fn unwrap(mut call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let wrapping = find_named_token(&mut call).await?;
    Ok(ReplyBody::Unwrapped(wrapping.open(call.unit).await?).into())
}

/// `POST sys/wrapping/rewrap`.
async fn rewrap(mut call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let wrapping = find_named_token(&mut call).await?;
    let PermittedCall { core, unit, .. } = call;
    let body = ReplyBody::Wrapped(wrapping.rewrap(&core.store, unit, &core.tokens).await?);
    Ok(Reply::from(body).after_commit(AfterCommit::CountToken(TokenType::Service)))
}

/// `GET` and `POST sys/wrapping/lookup`. Takes no use of the token.
async fn lookup(call: PublicCall<'_>) -> Result<Response, Failure> {
    let PublicCall { core, request, fields, .. } = call;
    let text = match fields.text("token") {
        "" => request.token.clone(),
        text => Some(Secret::new(text)),
    };
    let text = text.filter(|text| !text.expose().is_empty()).ok_or_else(|| {
        Failure::denied(
            "error validating wrapping token: token is empty; send the wrapping token as token, or \
             in the header X-Vault-Token",
        )
    })?;
    let wrapping = find(&core.store, &mut core.store.begin(), &text).await?;
    let creation = wrapping.ok_or_else(not_wrapping)?.creation();
    let data = creation.into_iter().map(|(name, value)| (name.to_owned(), value));
    Ok(public_data(request, Map::from_iter(data)))
}

/// Returns the wrapping token named by the request. The calling token is found although the use of
/// the token is taken.
async fn find_named_token(call: &mut PermittedCall<'_>) -> Result<WrappingToken, Failure> {
    let text = call.fields.text("token");
    let is_caller = text.is_empty() || call.request.token == Some(Secret::new(text));
    let found = match is_caller {
        true => wrapping::of_token(call.unit, call.caller.clone()).await?,
        false => find(&call.core.store, call.unit, &Secret::new(text)).await?,
    };
    found.ok_or_else(not_wrapping)
}

async fn find(
    store: &Store,
    unit: &mut Unit,
    text: &Secret,
) -> Result<Option<WrappingToken>, Failure> {
    match tokens::by_token(store, unit, text).await? {
        Some(token) => wrapping::of_token(unit, token).await,
        None => Ok(None),
    }
}
