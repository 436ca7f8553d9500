//! `sys/rotate` and `sys/key-status`: the key that seals records (decision H18).

use super::row::{row, sudo};
use super::{Body, Handler, Reply, timestamp};
use crate::core::Core;
use bulkhead_wire::description::{Route, Verb};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, json};

/// What these endpoints do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Rotate,
    KeyStatus,
}

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let rotate = |path| sudo(Verb::Write, path, "seal with a new key from now on", vec![]);
    let rows = [
        (Act::Rotate, rotate("sys/rotate")),
        (Act::Rotate, rotate("sys/rotate/keyring")),
        (Act::KeyStatus, row(Verb::Read, "sys/key-status", "the key that seals now", vec![])),
    ];
    rows.into_iter().map(|(act, route)| (Handler::Rotate(act), route)).collect()
}

/// Serves a permitted request.
pub(super) async fn serve(act: Act, core: &Core) -> Result<Reply, Failure> {
    match act {
        Act::Rotate => rotate(core).await,
        Act::KeyStatus => Ok(key_status(core)),
    }
}

/// `POST sys/rotate`. Records move to the new key as they are written; older keys stay for what is
/// not.
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
