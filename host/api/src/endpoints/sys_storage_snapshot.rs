//! `sys/storage/snapshot`: the whole store as a file, sealed as on disk. Published tools ask at
//! `sys/storage/raft/snapshot`.

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, read};
use bulkhead_access::timestamp::timestamp;
use bulkhead_store::SnapshotOrigin;
use bulkhead_wire::byte_stream::ByteStream;
use bulkhead_wire::failure::Failure;

/// Content type of a snapshot.
const CONTENT_TYPE: &str = "application/gzip";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let about = "a snapshot of all data, sealed as on disk";
    ["sys/storage/snapshot", "sys/storage/raft/snapshot"]
        .map(|path| read(path, about).needs_sudo().handled_by(take))
        .into()
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
    let store_time = core.store.now();
    let taken_at = timestamp(store_time / 1_000).as_str().unwrap_or_default().to_owned();
    let server_version = env!("CARGO_PKG_VERSION").to_owned();
    let origin = SnapshotOrigin { server_version, store_time, taken_at };
    let stream = ByteStream::new(core.store.snapshot(origin).await?);
    Ok(ReplyBody::Streamed { content_type: CONTENT_TYPE, stream }.into())
}
