//! `sys/loggers`: the level from which the server writes log lines, until the next restart.
//!
//! The log has a single logger. The level of the configuration returns with `DELETE`, with SIGHUP
//! and with a restart.

use super::call::{PermittedCall, RequestFields};
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, delete, read, required, write};
use bulkhead_access::log_threshold::LogThreshold;
use bulkhead_core::Core;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::log_level::LogLevel;
use serde_json::{Map, json};

/// The only logger.
const LOGGER: &str = "server";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let level = || required("level", FieldKind::String, "debug, info, warn or error");
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
    let level = threshold(call.core).level().word();
    Ok(ReplyBody::Data(Map::from_iter([(LOGGER.to_owned(), json!(level))])).into())
}

/// `POST sys/loggers` and `POST sys/loggers/:name`.
async fn set(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    check_name(call.fields)?;
    let text = call.fields.text("level");
    let level = LogLevel::parse(text).ok_or_else(|| {
        Failure::invalid(format!(
            "level {} is unknown; give debug, info, warn or error",
            quoted(text)
        ))
    })?;
    threshold(call.core).set(level);
    log_level(call.core);
    Ok(ReplyBody::Nothing.into())
}

/// `DELETE sys/loggers` and `DELETE sys/loggers/:name`.
async fn reset(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    check_name(call.fields)?;
    threshold(call.core).reset();
    log_level(call.core);
    Ok(ReplyBody::Nothing.into())
}

/// Logs the new level, if lines of information are written at all.
fn log_level(core: &Core) {
    let level = threshold(core).level().word().to_owned();
    core.log.line(LogLevel::Info, "log-level-changed", &[("log-level", level)]);
}

fn threshold(core: &Core) -> &LogThreshold {
    &core.process.settings.log_threshold
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
