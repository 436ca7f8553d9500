//! `sys/capabilities`: the capabilities of a token on some paths.
//!
//! This file prevents a request that is small to send and slow to answer: each path is compared
//! with all patterns of the token's policies, so the number of paths is bounded.

use super::auth_token;
use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, field, required, write};
use bulkhead_access::tokens::{self, TokenRecord};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, json};

/// Maximum number of paths in one request.
const MOST_PATHS: usize = 1_000;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let paths = || Field {
        aliases: vec!["path".to_owned()],
        ..required("paths", FieldKind::CommaList, "the paths in question")
    };
    let token = required("token", FieldKind::String, "the token in question").secret();
    let own_token = field("token", FieldKind::String, "ignored; libraries send it").secret();
    let accessor = required("accessor", FieldKind::String, "names the token in question");
    vec![
        write("sys/capabilities-self", "capabilities of the calling token")
            .fields([own_token, paths()])
            .handled_by(of_caller),
        write("sys/capabilities", "capabilities of a token")
            .fields([token, paths()])
            .handled_by(of_token),
        write("sys/capabilities-accessor", "capabilities of a token")
            .fields([accessor, paths()])
            .handled_by(of_accessor),
    ]
}

/// `POST sys/capabilities-self`.
async fn of_caller(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let caller = call.caller;
    capabilities(call, &caller.record).await
}

/// `POST sys/capabilities`.
async fn of_token(mut call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let named = auth_token::by_token(&mut call).await?;
    capabilities(call, &named.token.record).await
}

/// `POST sys/capabilities-accessor`.
async fn of_accessor(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let accessor = call.fields.text("accessor");
    let token = tokens::by_accessor(&call.core.store, call.unit, accessor).await?;
    let token = token.ok_or_else(|| {
        Failure::invalid(
            "invalid accessor: no valid token has this accessor; list auth/token/accessors",
        )
    })?;
    capabilities(call, &token.record).await
}

/// Answers the capabilities of a token. With a single path, the member `capabilities` repeats its
/// list.
async fn capabilities(call: PermittedCall<'_>, of: &TokenRecord) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    let paths = fields.list("paths");
    if paths.len() > MOST_PATHS {
        let message = format!(
            "{} paths were asked about; ask about at most {MOST_PATHS} at once",
            paths.len()
        );
        return Err(Failure::invalid(message));
    }
    let acl = core.rights_of(of).await?.acl;
    let mut data = Map::new();
    for path in &paths {
        data.insert(path.clone(), json!(acl.capabilities(path)));
    }
    if let [only] = paths.as_slice() {
        data.insert("capabilities".to_owned(), json!(acl.capabilities(only)));
    }
    Ok(ReplyBody::Copied(data).into())
}
