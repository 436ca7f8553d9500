//! `sys/capabilities`: what a token may do on some paths.
//!
//! The attack this file stops: a question that is small to ask and long to answer. Each path is
//! held against all patterns of the token's policies, so that their number is bounded.

use super::row::{required, row};
use super::{Body, Handler, HostCall, Reply, auth_token};
use crate::core::Core;
use crate::tokens::{self, TokenRecord};
use bulkhead_store::Unit;
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, json};

/// What these endpoints do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Own,
    ByToken,
    ByAccessor,
}

/// Most paths in one question.
const MOST_PATHS: usize = 1_000;

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let paths = || Field {
        aliases: vec!["path".to_owned()],
        ..required("paths", FieldKind::CommaList, "the paths in question")
    };
    let token = required("token", FieldKind::String, "the token in question").secret();
    let accessor = required("accessor", FieldKind::String, "names the token in question");
    let rows = vec![
        (
            Act::Own,
            row(
                Verb::Write,
                "sys/capabilities-self",
                "what the calling token may do",
                vec![paths()],
            ),
        ),
        (
            Act::ByToken,
            row(Verb::Write, "sys/capabilities", "what a token may do", vec![token, paths()]),
        ),
        (
            Act::ByAccessor,
            row(
                Verb::Write,
                "sys/capabilities-accessor",
                "what a token may do",
                vec![accessor, paths()],
            ),
        ),
    ];
    rows.into_iter().map(|(act, route)| (Handler::Capabilities(act), route)).collect()
}

/// Serves a permitted request.
pub(super) async fn serve(
    act: Act,
    core: &Core,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    match act {
        Act::Own => capabilities(core, call, &call.caller.record).await,
        Act::ByToken => {
            let named = auth_token::by_token(core, unit, call).await?;
            capabilities(core, call, &named.token.record).await
        }
        Act::ByAccessor => {
            let token = tokens::by_accessor(&core.store, unit, call.text("accessor")).await?;
            let refused = || {
                Failure::invalid(
                    "invalid accessor: no token that holds has it; list auth/token/accessors",
                )
            };
            capabilities(core, call, &token.ok_or_else(refused)?.record).await
        }
    }
}

/// With one path, `capabilities` repeats its list.
async fn capabilities(
    core: &Core,
    call: &HostCall<'_>,
    of: &TokenRecord,
) -> Result<Reply, Failure> {
    let paths = call.list("paths");
    if paths.len() > MOST_PATHS {
        let message = format!(
            "{} paths were asked about; ask about at most {MOST_PATHS} at once",
            paths.len()
        );
        return Err(Failure::invalid(message));
    }
    let acl = core.policies.acl(&core.store, &of.policies).await?;
    let mut data = Map::new();
    for path in &paths {
        data.insert(path.clone(), json!(acl.capabilities(path)));
    }
    if let [only] = paths.as_slice() {
        data.insert("capabilities".to_owned(), json!(acl.capabilities(only)));
    }
    Ok(Body::Copied(data).into())
}
