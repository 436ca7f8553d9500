//! `sys/remount`: moves a mount to another path. The answer holds the id of the move, for asking
//! how far the move has come.

use super::after_commit::AfterCommit;
use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, field, read, required, write};
use bulkhead_core::lifecycle::remount::{self, MountMove};
use bulkhead_core::mounts::{BuiltinMount, MountChange};
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::name::MountPath;
use serde_json::{Map, json};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let paths = [
        required("from", FieldKind::String, "path of the mount, with auth/ for an auth method"),
        required("to", FieldKind::String, "new path, which must be free"),
    ];
    let id = field("migration_id", FieldKind::String, "the id in the move's answer");
    vec![
        write("sys/remount", "move a mount; leases of the mount end")
            .needs_sudo()
            .fields(paths)
            .handled_by(remount),
        read("sys/remount/status/{migration_id}", "state of a move")
            .fields([id])
            .handled_by(status),
    ]
}

/// `POST sys/remount`.
async fn remount(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let (from, to) = (
        source(fields.text("from"))?,
        MountPath::parse_full(fields.text("to")).map_err(Failure::invalid)?,
    );
    core.leases.assert_ends_work()?;
    let (id, record) = remount::begin(&core.mounts, &core.store, unit, (&from, &to)).await?;
    let warning = format!(
        "{from} is being moved to {to} and answers at neither path until the move is complete: see \
         sys/remount/status/{id}"
    );
    let data = Map::from_iter([("migration_id".to_owned(), json!(id))]);
    let moving = AfterCommit::Mounts(MountChange::Moving(Box::new(record)));
    Ok(Reply::from(ReplyBody::Copied(data)).with_warnings([warning]).after_commit(moving))
}

fn source(text: &str) -> Result<MountPath, Failure> {
    let full_path = format!("{}/", text.trim_matches('/'));
    if let Some(builtin) = BuiltinMount::ALL
        .into_iter()
        .map(BuiltinMount::path)
        .find(|path| path.as_str() == full_path)
    {
        return Err(Failure::invalid(format!(
            "{builtin} is part of the server and cannot be moved"
        )));
    }
    MountPath::parse_full(text).map_err(Failure::invalid)
}

/// `GET sys/remount/status/:migration_id`.
async fn status(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let id = call.fields.text("migration_id");
    let found = MountMove::read(call.unit, id).await?.ok_or_else(|| {
        let message = format!("no move has the id {}; moves are forgotten after a day", quoted(id));
        Failure::new(FailureKind::NotFound, message)
    })?;
    let info = json!({
        "source_mount": found.source,
        "target_mount": found.target,
        "status": found.visible_status(id, &call.core.mounts).word(),
        "error": found.error,
    });
    let data = [("migration_id", json!(id)), ("migration_info", info)];
    Ok(ReplyBody::Data(data.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        .into())
}
