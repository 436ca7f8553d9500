//! The endpoint `/v1/acl/bootstrap`: creates the first management token.
//!
//! This file prevents a second caller from becoming a manager: a record of the mount allows only
//! one bootstrap.

use crate::body;
use crate::forward;
use crate::names::{is_uuid, uuid_of};
use crate::refusal::ApiRefusal;
use crate::reply::ApiReply;
use crate::request::ApiRequest;
use crate::token::{ShownToken, Token, TokenType};
use crate::token_records;
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Key of the record of the bootstrap.
const DONE: &str = "bootstrap";
/// Value of the record while an operator permits one more bootstrap.
const AGAIN: &[u8] = b"false";

/// Serves `POST /v1/acl/bootstrap`. Needs no token, and ignores a token that is sent.
///
/// # Errors
/// 400 if the bootstrap was done already, if another region is authoritative, or if the secret in
/// the body is not a UUID.
pub(crate) fn bootstrap(request: &ApiRequest<'_>) -> Result<ApiReply, ApiRefusal> {
    let secret = given_secret(request.body())?;
    forward::refuse_on_replica(request)?;
    let storage = request.storage();
    if let Some(done) = storage.entry_bytes(DONE)?.filter(|done| done.value != AGAIN) {
        let text = format!("ACL bootstrap already done (reset index: {})", done.modified);
        return Err(ApiRefusal::invalid(text));
    }
    let accessor = random_uuid(request)?;
    let secret = if secret.is_empty() { random_uuid(request)? } else { secret };
    let token = Token {
        secret,
        name: "Bootstrap Token".to_owned(),
        kind: TokenType::Management,
        policies: Vec::new(),
        roles: Vec::new(),
        global: true,
        created: request.now(),
        expires: None,
        ttl_nanoseconds: 0,
    };
    storage.put_plain(DONE, &true)?;
    let index = token_records::put(request.host, &accessor, &token)?;
    let stored = storage.entry::<Token>(&Token::key(&accessor))?;
    let stored = stored.ok_or_else(|| Failure::internal("the stored token is missing"))?;
    ApiReply::written(&ShownToken::whole(&accessor, stored, Vec::new()), index, request.is_pretty())
}

/// Returns the secret that the operator chose; empty if the server is to generate one.
fn given_secret(bytes: &[u8]) -> Result<String, ApiRefusal> {
    if bytes.is_empty() {
        return Ok(String::new());
    }
    let fields = body::object(bytes).map_err(|_| {
        ApiRefusal::invalid("failed to decode request body: send a JSON object, or no body")
    })?;
    let secret = body::text(&fields, "BootstrapSecret")?;
    if !secret.is_empty() && !is_uuid(&secret) {
        return Err(ApiRefusal::invalid("invalid acl token"));
    }
    Ok(secret)
}

fn random_uuid(request: &ApiRequest<'_>) -> Result<String, Failure> {
    let random = request.host.random().bytes(16);
    let random = random.try_into().map_err(|_| Failure::internal("16 random bytes"))?;
    Ok(uuid_of(random))
}

/// Permits one more bootstrap, for operators who have lost every management token. Existing tokens
/// stay valid.
///
/// # Errors
/// Failures of the store.
pub(crate) fn permit_again(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    if host.storage().get_bytes(DONE)?.is_none() {
        return Ok(Answer::nothing().warn(["no bootstrap was done yet: nothing is changed".into()]));
    }
    host.storage().put_plain(DONE, &false)?;
    Ok(Answer::nothing())
}
