//! `sys/release`: starts the due work of restored data (decision H92).

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, write};
use bulkhead_core::lifecycle;
use bulkhead_wire::failure::Failure;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let about = "start due work on restored data, after the other server is off";
    vec![write("sys/release", about).needs_sudo().with_effect().handled_by(release)]
}

/// `POST sys/release`. Due work runs before the answer leaves. Does nothing if due work runs
/// already.
async fn release(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    lifecycle::release(call.core).await?;
    Ok(ReplyBody::Nothing.into())
}
