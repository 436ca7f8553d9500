//! `identity/oidc`: the issuer of tokens, and the documents that verifiers of tokens fetch.
//!
//! The documents are the same for every reader and hold no secret, so readers may cache them for an
//! hour. No token is needed, because cloud providers fetch the documents.

use super::call::{PermittedCall, PublicCall};
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, field, read, write};
use bulkhead_access::oidc::{DocumentedTokens, IssuerConfig};
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::response::{self, Response};
use serde_json::{Map, Value, json};

/// Time in seconds during which readers may cache a document. The next key is published for longer
/// than this time before the key signs, unless an operator rotates twice.
const MAX_AGE: u64 = 3_600;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let config = "identity/oidc/config";
    let issuer = field("issuer", FieldKind::String, "scheme, host and port; empty: the server's");
    let (about, of_plugins) = (
        "where verifiers of tokens find the keys",
        "where verifiers of mounts' tokens find the keys",
    );
    vec![
        read(config, "who signs").handled_by(read_config),
        write(config, "change the issuer of tokens").fields([issuer]).handled_by(write_config),
        read("identity/oidc/.well-known/openid-configuration", about).without_a_token(discover),
        read("identity/oidc/.well-known/keys", "public keys of tokens").without_a_token(keys),
        read("identity/oidc/plugins/.well-known/openid-configuration", of_plugins)
            .without_a_token(discover_plugins),
        read("identity/oidc/plugins/.well-known/keys", "public keys of mounts' tokens")
            .without_a_token(keys),
    ]
}

/// `GET identity/oidc/config`.
async fn read_config(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let config = IssuerConfig::read(call.unit).await?;
    Ok(ReplyBody::Data(Map::from_iter([("issuer".to_owned(), json!(config.issuer))])).into())
}

/// `POST identity/oidc/config`.
async fn write_config(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { unit, fields, .. } = call;
    let mut warnings = Vec::new();
    if fields.has("issuer") {
        let config = IssuerConfig::of(fields.text("issuer"))?;
        let before = IssuerConfig::read(unit).await?;
        if config != before {
            let warning = "tokens name the new issuer from now on; verifiers must trust the issuer \
                           and be able to fetch the documents of the issuer";
            warnings.push(warning.to_owned());
        }
        config.put(unit)?;
    }
    Ok(Reply::from(ReplyBody::Nothing).with_warnings(warnings))
}

/// `GET identity/oidc/.well-known/openid-configuration`.
async fn discover(call: PublicCall<'_>) -> Result<Response, Failure> {
    document_response(call.core.oidc.discovery(DocumentedTokens::General).await)
}

/// `GET identity/oidc/plugins/.well-known/openid-configuration`.
async fn discover_plugins(call: PublicCall<'_>) -> Result<Response, Failure> {
    document_response(call.core.oidc.discovery(DocumentedTokens::Plugins).await)
}

/// `GET identity/oidc/.well-known/keys`, and `GET identity/oidc/plugins/.well-known/keys`.
async fn keys(call: PublicCall<'_>) -> Result<Response, Failure> {
    document_response(call.core.oidc.public_keys().await)
}

/// Returns a document. Without an issuer there is none: 404.
fn document_response(document: Result<Value, Failure>) -> Result<Response, Failure> {
    let document = document.map_err(|failure| match failure.kind {
        FailureKind::PreconditionFailed => Failure { kind: FailureKind::NotFound, ..failure },
        _ => failure,
    })?;
    let body = response::ResponseBody::Published { document, max_age: MAX_AGE };
    Ok(Response::new(200, body))
}
