//! `sys/storage/snapshot`: the whole store as a file, sealed as on disk, and its restore.
//! Published tools use `sys/storage/raft/snapshot`.
//!
//! This file prevents the loss of a server's data by the snapshot of another cluster: only the
//! paths that end in `-force` accept such a snapshot.

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, read, write};
use bulkhead_access::tokens;
use bulkhead_core::restoring::{self, RestoreCheck};
use bulkhead_wire::byte_stream::ByteStream;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::request::Request;
use std::path::Path;

/// Content type of a snapshot.
const CONTENT_TYPE: &str = "application/gzip";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let about = "a snapshot of all data, sealed as on disk";
    let taken = |path| read(path, about).needs_sudo().handled_by(take);
    let replaced = |path, about| write(path, about).takes_file().needs_sudo().with_effect();
    let restored = |path| {
        let about = "all data, replaced by the snapshot of this cluster in the body";
        replaced(path, about).handled_by(restore)
    };
    let forced = |path| {
        let about = "all data, replaced by the snapshot of any cluster in the body";
        replaced(path, about).handled_by(restore_any)
    };
    vec![
        taken("sys/storage/snapshot"),
        taken("sys/storage/raft/snapshot"),
        restored("sys/storage/snapshot"),
        restored("sys/storage/raft/snapshot"),
        forced("sys/storage/snapshot-force"),
        forced("sys/storage/raft/snapshot-force"),
    ]
}

/// `GET sys/storage/snapshot`. The snapshot begins with this call and goes on while the answer is
/// sent.
async fn take(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, request, .. } = call;
    if request.wrap_ttl.is_some() {
        return Err(Failure::invalid(
            "a snapshot is too large to be wrapped; leave the wrapping time out: the snapshot is \
             sealed",
        ));
    }
    let stream = ByteStream::new(core.take_snapshot(core.store.now()).await?);
    Ok(ReplyBody::Streamed { content_type: CONTENT_TYPE, stream }.into())
}

/// `POST sys/storage/snapshot`. The data are replaced after the answer is recorded.
async fn restore(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    replace(call, RestoreCheck::SameCluster).await
}

/// `POST sys/storage/snapshot-force`: as [`restore`], also with the snapshot of another cluster.
async fn restore_any(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    replace(call, RestoreCheck::AnyCluster).await
}

async fn replace(call: PermittedCall<'_>, check: RestoreCheck) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, request, caller, .. } = call;
    let prepared = restoring::prepare(core, snapshot_of(request)?, check).await?;
    // The preparation may take hours. A token that was revoked meanwhile restores nothing, and a
    // token that was renewed does not conflict of the commit.
    *unit = core.store.begin();
    unit.mark_effectful();
    tokens::assert_valid(&core.store, unit, caller).await?;
    core.ask_restore(&request.id, prepared)?;
    Ok(ReplyBody::Nothing.into())
}

/// Returns the file with the body of a request.
///
/// # Errors
/// 400 for an empty body.
fn snapshot_of(request: &Request) -> Result<&Path, Failure> {
    let file = request.file.as_ref().filter(|_| request.body_bytes > 0);
    file.map(|file| file.path()).ok_or_else(|| {
        Failure::invalid(
            "the body is empty; send the file of a snapshot as the body, or type: bulkhead \
             operator snapshot restore FILE",
        )
    })
}
