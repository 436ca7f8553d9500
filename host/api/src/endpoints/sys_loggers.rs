//! `sys/loggers`: the level of the server's log.
//!
//! The log has a single logger, and every line is written (`error`, `warn` and `info`). A request
//! for the level `info` is served, because there is nothing to change; other levels are refused.

use super::call::{PermittedCall, RequestFields};
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, delete, read, required, write};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use serde_json::{Map, json};

/// The only logger.
const LOGGER: &str = "server";

/// Its level.
const LEVEL: &str = "info";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let level = || required("level", FieldKind::String, "info, the only level");
    let name = || -> Field { required("name", FieldKind::String, "server, the only logger") };
    let (all, one) = ("sys/loggers", "sys/loggers/{name}");
    vec![
        read(all, "the levels of the loggers").handled_by(show),
        write(all, "set the level of every logger").fields([level()]).handled_by(set),
        delete(all, "reset the level of every logger").handled_by(reset),
        read(one, "the level of a logger").fields([name()]).handled_by(show),
        write(one, "set the level of a logger").fields([name(), level()]).handled_by(set),
        delete(one, "reset the level of a logger").fields([name()]).handled_by(reset),
    ]
}

/// `GET sys/loggers` and `GET sys/loggers/:name`.
async fn show(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    check_name(call.fields)?;
    Ok(ReplyBody::Data(Map::from_iter([(LOGGER.to_owned(), json!(LEVEL))])).into())
}

/// `POST sys/loggers` and `POST sys/loggers/:name`.
async fn set(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    check_name(call.fields)?;
    match call.fields.text("level") {
        LEVEL | "notice" => Ok(ReplyBody::Nothing.into()),
        "trace" | "debug" | "warn" | "warning" | "error" | "err" => Err(Failure::invalid(
            "level cannot be changed: the log has every line of the levels error, warn and info; \
             filter the lines by level=",
        )),
        other => Err(Failure::invalid(format!("level {} is unknown; it is info", quoted(other)))),
    }
}

/// `DELETE sys/loggers` and `DELETE sys/loggers/:name`.
async fn reset(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    check_name(call.fields)?;
    Ok(ReplyBody::Nothing.into())
}

/// Refuses the name of a logger that does not exist.
fn check_name(fields: RequestFields<'_>) -> Result<(), Failure> {
    let name = fields.text("name");
    if name.is_empty() || name == LOGGER {
        return Ok(());
    }
    let message = format!("there is no logger {}; the only logger is {LOGGER}", quoted(name));
    Err(Failure::new(FailureKind::NotFound, message))
}
