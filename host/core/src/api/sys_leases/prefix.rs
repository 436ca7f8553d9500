//! `sys/leases/revoke-prefix` and `sys/leases/revoke-force`: ending everything below a path, the
//! second also where its plugin cannot.
//!
//! The path is read at the borders of its segments; it may name a mount, a path below one, or a
//! folder of several. Tokens are their own leases: below `auth/` it is they who end, by the path
//! that made them.

use super::{Act, Body, HostCall, Reply, begun, field, sudo, sync};
use crate::core::Core;
use crate::leases::{self, OnFailure, Reach};
use crate::tokens;
use bulkhead_wire::description::{FieldKind, Route, Verb};
use bulkhead_wire::failure::{Failure, Kind, quoted};
use std::time::Duration;

/// Longest time that a request waits. Due work goes on after it.
const PATIENCE: Duration = Duration::from_secs(90);

/// The rows of this file.
pub(super) fn rows() -> Vec<(Act, Route)> {
    let mut rows = Vec::new();
    for base in ["sys/leases/revoke-prefix", "sys/revoke-prefix"] {
        rows.push((
            Act::RevokeBelow(OnFailure::Stays),
            below(base, "revoke every lease below a path"),
        ));
    }
    for base in ["sys/leases/revoke-force", "sys/revoke-force"] {
        let about = "revoke every lease below a path, and forget those that cannot be";
        rows.push((Act::RevokeBelow(OnFailure::Goes), below(base, about)));
    }
    rows
}

fn below(base: &str, about: &str) -> Route {
    let prefix = field(
        "prefix",
        FieldKind::String,
        "the beginning of their paths, at the border of a segment",
    );
    sudo(Verb::Write, &format!("{base}/{{prefix+}}"), about, vec![prefix, sync()])
}

/// Ends what is below the prefix, tokens first, so that nobody who is meant makes another lease.
pub(super) async fn revoke(
    core: &Core,
    call: &HostCall<'_>,
    on_failure: OnFailure,
) -> Result<Reply, Failure> {
    let path = call.text("prefix");
    let ends = async || {
        if path == "auth" || path.starts_with("auth/") {
            core.tokens.end_made_below(path).await?;
        }
        Ok::<(), Failure>(())
    };
    let reach = core.leases.reach(path);
    let which = reach.leases();
    if !call.flag("sync", true) {
        ends().await?;
        core.leases.queue_below(&which, on_failure).await?;
        return Ok(begun(
            "the leases are being revoked; LIST sys/leases/lookup shows those that are left",
        ));
    }
    let ended = async {
        ends().await?;
        core.leases.end_below(&which, on_failure).await
    };
    match tokio::time::timeout(PATIENCE, ended).await {
        Ok(ended) => ended.map(|()| Body::Nothing.into()),
        Err(_) => Err(Failure::new(
            Kind::TimedOut,
            format!(
                "not every lease below {} has ended after {} s; the others are being revoked: \
                 LIST sys/leases/lookup shows them, and sync=false does not wait",
                quoted(path),
                PATIENCE.as_secs()
            ),
        )),
    }
}
