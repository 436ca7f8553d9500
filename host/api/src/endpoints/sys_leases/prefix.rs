//! `sys/leases/revoke-prefix` and `sys/leases/revoke-force`: revoke everything below a path.
//! `revoke-force` also gives up the leases that their plugin cannot end.
//!
//! The prefix ends at the border of a path segment, and may name a mount, a path below a mount, or
//! a folder of several mounts. Tokens are their own leases: below `auth/`, the request ends the
//! tokens made at the path.

use super::token_leases;
use super::waiting::{accepted, sync};
use crate::endpoints::call::PermittedCall;
use crate::endpoints::reply::{Reply, ReplyBody};
use crate::endpoints::row::{Endpoint, EndpointBuilder, field, write};
use bulkhead_core::leases::OnFailure;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use std::time::Duration;

/// Maximum time that a request waits. Due work goes on afterwards.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(90);

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let revoked = |base| below(base, "revoke every lease below a path");
    let about = "revoke every lease below a path, and drop leases after a failed revocation";
    let forced = |base| below(base, about);
    vec![
        revoked("sys/leases/revoke-prefix").handled_by(revoke_prefix),
        revoked("sys/revoke-prefix").handled_by(revoke_prefix),
        forced("sys/leases/revoke-force").handled_by(revoke_force),
        forced("sys/revoke-force").handled_by(revoke_force),
    ]
}

fn below(base: &str, about: &str) -> EndpointBuilder {
    let prefix = field(
        "prefix",
        FieldKind::String,
        "the beginning of their paths, at the border of a segment",
    );
    let row = write(&format!("{base}/{{prefix+}}"), about).fields([prefix, sync()]);
    row.needs_sudo().with_effect()
}

/// `POST sys/leases/revoke-prefix/:prefix`.
async fn revoke_prefix(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    revoke(call, OnFailure::Stays).await
}

/// `POST sys/leases/revoke-force/:prefix`.
async fn revoke_force(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    revoke(call, OnFailure::Goes).await
}

/// Revokes everything below the prefix. Tokens end first, so that no token makes another lease.
async fn revoke(call: PermittedCall<'_>, on_failure: OnFailure) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    let path = fields.text("prefix");
    core.leases.assert_ends_work()?;
    let ends = async || {
        if token_leases::has_tokens(path) {
            core.tokens.end_made_below(path).await?;
        }
        Ok::<(), Failure>(())
    };
    let reach = core.leases.resolve(path);
    let which = reach.lease_prefixes();
    if !fields.flag("sync", true) {
        ends().await?;
        core.leases.queue_below(&which, on_failure).await?;
        return Ok(accepted(
            "the leases are being revoked; LIST sys/leases/lookup shows the remaining leases",
        ));
    }
    let ended = async {
        ends().await?;
        core.leases.end_below(&which, on_failure).await
    };
    match tokio::time::timeout(REVOKE_TIMEOUT, ended).await {
        Ok(ended) => ended.map(|()| ReplyBody::Nothing.into()),
        Err(_) => Err(Failure::new(
            FailureKind::TimedOut,
            format!(
                "not every lease below {} has ended after {} s; the others are being revoked: LIST \
                 sys/leases/lookup shows the rest, and sync=false does not wait",
                quoted(path),
                REVOKE_TIMEOUT.as_secs()
            ),
        )),
    }
}
