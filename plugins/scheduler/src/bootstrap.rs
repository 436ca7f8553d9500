//! `/v1/acl/bootstrap`: the first management token.
//!
//! Prevents a second caller from becoming a manager: the bootstrap is done once, and a record of
//! the mount says so.

use crate::body;
use crate::forward::{self, Change};
use crate::names::{is_uuid, uuid_of};
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::request::ApiRequest;
use crate::token::{ShownToken, Token, TokenType};
use crate::tokens;
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// The key of the record that a bootstrap was done.
const DONE: &str = "bootstrap";
/// Its value while an operator permits one more bootstrap.
const AGAIN: &[u8] = b"false";

/// `POST /v1/acl/bootstrap`. No token is asked for, and none is looked at.
///
/// # Errors
/// 400 where the bootstrap was done, or the secret in the body is none.
pub(crate) fn bootstrap(request: &ApiRequest<'_>) -> Result<Reply, Refusal> {
    let secret = given_secret(request.body())?;
    forward::divert(request, &Change::Bootstrap)?;
    let storage = request.storage();
    if let Some(done) = storage.entry_bytes(DONE)?.filter(|done| done.value != AGAIN) {
        let text = format!("ACL bootstrap already done (reset index: {})", done.modified);
        return Err(Refusal::invalid(text));
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
    let index = tokens::put(request.host, &accessor, &token)?;
    let stored = storage.entry::<Token>(&Token::key(&accessor))?;
    let stored = stored.ok_or_else(|| Failure::internal("the token is gone as it was stored"))?;
    Reply::written(&ShownToken::whole(&accessor, stored, Vec::new()), index, request.is_pretty())
}

/// The secret that an operator chose; empty for one to be made.
fn given_secret(bytes: &[u8]) -> Result<String, Refusal> {
    if bytes.is_empty() {
        return Ok(String::new());
    }
    let given = body::object(bytes).map_err(|_| {
        Refusal::invalid("failed to decode request body: send a JSON object, or no body")
    })?;
    let secret = body::text(&given, "BootstrapSecret")?;
    if !secret.is_empty() && !is_uuid(&secret) {
        return Err(Refusal::invalid("invalid acl token"));
    }
    Ok(secret)
}

fn random_uuid(request: &ApiRequest<'_>) -> Result<String, Failure> {
    let random = request.host.random().bytes(16);
    let random = random.try_into().map_err(|_| Failure::internal("16 random bytes"))?;
    Ok(uuid_of(random))
}

/// Lets the ACL system be bootstrapped once more: for operators who lost every management token.
/// Tokens that hold go on to hold.
///
/// # Errors
/// Those of the store.
pub(crate) fn permit_again(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    if host.storage().get_bytes(DONE)?.is_none() {
        return Ok(Answer::nothing().warn(["no bootstrap was done yet: nothing is changed".into()]));
    }
    host.storage().put_plain(DONE, &false)?;
    Ok(Answer::nothing())
}
