//! `sys/config/state/sanitized`: the settings of the server, without secrets.

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, read};
use bulkhead_wire::failure::Failure;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let about = "the settings of the server, without secrets";
    vec![read("sys/config/state/sanitized", about).needs_sudo().handled_by(show)]
}

/// `GET sys/config/state/sanitized`.
async fn show(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    Ok(ReplyBody::Data(call.core.process.settings.configuration.clone()).into())
}
