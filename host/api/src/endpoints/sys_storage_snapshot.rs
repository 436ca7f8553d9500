//! `sys/storage/snapshot`: the whole store as a file, sealed as on disk. Published tools ask at
//! `sys/storage/raft/snapshot`.

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, read};
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
    let stream = ByteStream::new(core.take_snapshot(core.store.now()).await?);
    Ok(ReplyBody::Streamed { content_type: CONTENT_TYPE, stream }.into())
}
