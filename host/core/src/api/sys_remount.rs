//! `sys/remount`: a mount goes to another path. What answers is the move's id, by which its end is
//! asked.

use super::row::{field, required, row, sudo};
use super::{Body, Handler, HostCall, Reply, Then};
use crate::core::Core;
use crate::lifecycle::remount::{self, Migration};
use crate::mounts::{Builtin, Change};
use bulkhead_store::Unit;
use bulkhead_wire::description::{FieldKind, Route, Verb};
use bulkhead_wire::failure::{Failure, Kind, quoted};
use bulkhead_wire::name::MountPath;
use serde_json::{Map, json};

/// What these endpoints do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Move,
    Status,
}

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let paths = vec![
        required(
            "from",
            FieldKind::String,
            "path of the mount, with its auth/ where it is an auth method",
        ),
        required("to", FieldKind::String, "where it goes: a path that is free"),
    ];
    let id = vec![field("migration_id", FieldKind::String, "the id that the move answered")];
    let rows = [
        (Act::Move, sudo(Verb::Write, "sys/remount", "move a mount; its leases end", paths)),
        (
            Act::Status,
            row(Verb::Read, "sys/remount/status/{migration_id}", "how far a move has come", id),
        ),
    ];
    rows.into_iter().map(|(act, route)| (Handler::Remount(act), route)).collect()
}

/// Serves a permitted request.
pub(super) async fn serve(
    act: Act,
    core: &Core,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    match act {
        Act::Move => begin(core, unit, call).await,
        Act::Status => status(unit, call).await,
    }
}

/// `POST sys/remount`.
async fn begin(core: &Core, unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let (from, to) = (
        source(call.text("from"))?,
        MountPath::of_either(call.text("to")).map_err(Failure::invalid)?,
    );
    let (id, record) = remount::begin(&core.mounts, &core.store, unit, (&from, &to)).await?;
    let warning = format!(
        "{from} is on its way to {to} and answers at neither until it is there: see sys/remount/status/{id}"
    );
    let data = Map::from_iter([("migration_id".to_owned(), json!(id))]);
    Ok(Reply {
        body: Body::Copied(data),
        warnings: vec![warning],
        then: Then::Mounts(Change::Moving(Box::new(record))),
    })
}

fn source(text: &str) -> Result<MountPath, Failure> {
    let whole = format!("{}/", text.trim_matches('/'));
    if let Some(builtin) =
        Builtin::ALL.into_iter().map(Builtin::path).find(|path| path.as_str() == whole)
    {
        return Err(Failure::invalid(format!(
            "{builtin} is part of the server and cannot be moved"
        )));
    }
    MountPath::of_either(text).map_err(Failure::invalid)
}

/// `GET sys/remount/status/:migration_id`.
async fn status(unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let id = call.text("migration_id");
    let found = Migration::read(unit, id).await?.ok_or_else(|| {
        let message = format!("no move has the id {}; moves are forgotten after a day", quoted(id));
        Failure::new(Kind::NotFound, message)
    })?;
    let info = json!({
        "source_mount": found.source,
        "target_mount": found.target,
        "status": found.status.word(),
        "error": found.error,
    });
    let data = [("migration_id", json!(id)), ("migration_info", info)];
    Ok(Body::Data(data.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()).into())
}
