//! `sys/internal/counters`: numbers of tokens, entities and clients.
//!
//! Tokens and entities are counted in the store's index, up to a maximum, so that a request takes a
//! bounded time with millions of tokens.

mod activity;
mod report;
mod settings;

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, read};
use bulkhead_access::identity;
use bulkhead_store::Space;
use bulkhead_wire::failure::{Failure, FailureKind};
use serde_json::{Map, json};

/// Maximum number of counted tokens or entities, so that a request takes a bounded time.
const MAX_COUNTED: u32 = 1_000_000;

/// Returns the rows of this file and of its folder.
pub(super) fn rows() -> Vec<Endpoint> {
    let mut rows = vec![
        read("sys/internal/counters/tokens", "the number of service tokens").handled_by(tokens),
        read("sys/internal/counters/entities", "the number of entities").handled_by(entities),
        read("sys/internal/counters/requests", "not served: sys/metrics counts requests")
            .handled_by(requests),
    ];
    rows.extend(activity::rows());
    rows.extend(settings::rows());
    rows
}

/// `GET sys/internal/counters/tokens`.
async fn tokens(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let count = call.core.store.count(Space::Token, "", MAX_COUNTED).await?;
    Ok(counter("service_tokens", count))
}

/// `GET sys/internal/counters/entities`.
async fn entities(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let count = identity::count_entities(&call.core.store, MAX_COUNTED).await?;
    Ok(counter("entities", count))
}

/// `GET sys/internal/counters/requests`. Published servers refuse the path since the numbers were
/// removed.
async fn requests(_: PermittedCall<'_>) -> Result<Reply, Failure> {
    let message = "the numbers of requests by month are not served on this path; read sys/metrics, \
                   which counts requests by mount";
    Err(Failure::new(FailureKind::NotFound, message))
}

fn counter(name: &str, count: u32) -> Reply {
    let counters = json!({ name: { "total": count } });
    let reply = Reply::from(ReplyBody::Data(Map::from_iter([("counters".to_owned(), counters)])));
    let warning = format!("{name} above {MAX_COUNTED} are not counted");
    reply.with_warnings((count >= MAX_COUNTED).then_some(warning))
}
