//! `sys/rotate` and `sys/key-status`: the key that seals records (decision H18).

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, read, write};
use bulkhead_access::timestamp::timestamp;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use serde_json::{Map, json};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let rotated = |path| write(path, "seal with a new key from now on").needs_sudo().with_effect();
    vec![
        rotated("sys/rotate").handled_by(rotate),
        rotated("sys/rotate/keyring").handled_by(rotate),
        read("sys/key-status", "the present sealing key").handled_by(key_status),
    ]
}

/// `POST sys/rotate`. A record moves to the new key when it is next written; older keys stay for
/// the other records.
async fn rotate(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, .. } = call;
    let status = core.store.rotate().await?;
    core.log.line(LogLevel::Info, "keyring-rotated", &[("term", status.term.to_string())]);
    Ok(ReplyBody::Nothing.into())
}

/// `GET sys/key-status`.
async fn key_status(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let status = call.core.store.key_status();
    let mut data = Map::new();
    data.insert("term".to_owned(), json!(status.term));
    data.insert("install_time".to_owned(), timestamp(status.installed / 1000));
    data.insert("encryptions".to_owned(), json!(status.sealed));
    Ok(ReplyBody::Copied(data).into())
}
