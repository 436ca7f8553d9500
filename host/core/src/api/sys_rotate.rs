//! `sys/rotate` and `sys/key-status`: the key that seals records (`spec/core.md` §7.5).

use super::{Body, Reply, timestamp};
use crate::core::Core;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, json};

/// `POST sys/rotate`. Records move to the new key as they are written; older keys stay for what is not.
pub(super) async fn rotate(core: &Core) -> Result<Reply, Failure> {
    let status = core.store.rotate().await?;
    core.log.line("info", "keyring-rotated", &[("term", status.term.to_string())]);
    Ok(Body::Nothing.into())
}

/// `GET sys/key-status`.
pub(super) fn key_status(core: &Core) -> Reply {
    let status = core.store.key_status();
    let mut data = Map::new();
    data.insert("term".to_owned(), json!(status.term));
    data.insert("install_time".to_owned(), timestamp(status.installed / 1000));
    data.insert("encryptions".to_owned(), json!(status.sealed));
    Body::Copied(data).into()
}
