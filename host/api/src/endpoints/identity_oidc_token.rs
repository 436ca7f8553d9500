//! `identity/oidc/token` and `identity/oidc/introspect`: issues a token about its caller, and tells
//! whether such a token is still valid.

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field, required};
use bulkhead_access::identity;
use bulkhead_access::oidc::Role;
use bulkhead_access::tokens;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use serde_json::{Map, json};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let token = required("token", FieldKind::String, "the token").secret();
    let client_id = field("client_id", FieldKind::String, "required audience; empty: any");
    vec![
        row::read("identity/oidc/token/{name}", "a signed token about the caller, for a role")
            .fields([field("name", FieldKind::Name, "name of the role")])
            .handled_by(sign),
        row::write("identity/oidc/introspect", "whether a token of a role is valid")
            .fields([token, client_id])
            .handled_by(introspect),
    ]
}

/// `GET identity/oidc/token/:name`.
async fn sign(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, caller, .. } = call;
    let name = fields.text("name");
    let role = Role::read(unit, name).await?.ok_or_else(|| {
        Failure::new(FailureKind::NotFound, format!("there is no role {}", quoted(name)))
    })?;
    let entity_context = tokens::read_token_context(unit, &caller.record).await?;
    let signed = core.oidc.role_token(&role, &entity_context.values()).await?;
    let members = [
        ("client_id", json!(role.client_id)),
        ("token", json!(signed.token)),
        ("ttl", json!(signed.ttl)),
    ];
    let data: Map<_, _> =
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(ReplyBody::Data(data).into())
}

/// `POST identity/oidc/introspect`. For a faulty token, the request succeeds and answers the
/// reason.
async fn introspect(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let found = core.oidc.subject_of(fields.text("token"), fields.text("client_id")).await?;
    let why = match found {
        Ok(entity) if identity::is_in_force(unit, &entity).await? => None,
        Ok(_) => Some("the token's entity is disabled or was deleted"),
        Err(why) => Some(why),
    };
    let answer = match why {
        None => json!({ "active": true }),
        Some(why) => json!({ "active": false, "error": why }),
    };
    Ok(ReplyBody::Bare(answer).into())
}
