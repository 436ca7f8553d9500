//! `sys/monitor`: the lines of the log while they are written.
//!
//! Lines name paths, mounts and tokens of other callers, so the endpoint needs `sudo`. The level is
//! independent of the level of the log, and a slow reader loses lines.
//!
//! This file prevents a monitor that outlives its right: the answer ends when the service is
//! sealed, when the server stops, and soon after the caller's token ended or the caller's policies
//! stopped to allow the monitor.

use super::call::{PermittedCall, RequestFields};
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, field, read};
use bulkhead_access::in_flight::InFlightEntry;
use bulkhead_access::log_monitors::{LogMonitor, MonitorFormat};
use bulkhead_access::policies::acl::AccessRequest;
use bulkhead_access::tokens::{self, Caller};
use bulkhead_core::Core;
use bulkhead_core::permit::Permit;
use bulkhead_wire::byte_stream::{ByteSource, ByteStream};
use bulkhead_wire::description::{FieldKind, Operation};
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::request::Request;
use serde_json::Map;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Content type of the lines.
const CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// Interval at which the caller's token and rights are checked.
const CHECK_PERIOD: Duration = Duration::from_secs(5);

/// Reasons for the end of a monitor.
const SEALED: &str = "the service is sealed";
const NO_RIGHT: &str = "the right has ended";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let level = "debug (or trace), info, warn or error; default info";
    let format = "standard for logfmt, or json; default standard";
    vec![
        read("sys/monitor", "the lines of the log while they are written")
            .fields([
                field("log_level", FieldKind::String, level),
                field("log_format", FieldKind::String, format),
            ])
            .needs_sudo()
            .handled_by(watch),
    ]
}

/// `GET sys/monitor`. The answer is recorded at its beginning, and has no end of its own.
async fn watch(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, request, caller, fields, .. } = call;
    if request.wrap_ttl.is_some() {
        return Err(Failure::invalid(
            "lines without an end cannot be wrapped; leave the wrapping time out",
        ));
    }
    let (level, format) = (read_level(fields)?, read_format(fields)?);
    let monitor = core.process.settings.log_monitors.open(level, format)?;
    let source = MonitorSource {
        monitor,
        end: Some(Box::pin(wait_for_end(core, request, caller))),
        _listed: core.requests.enter_again(&request.id),
    };
    let stream = ByteStream::new(source);
    Ok(ReplyBody::Streamed { content_type: CONTENT_TYPE, stream }.into())
}

fn read_level(fields: RequestFields<'_>) -> Result<LogLevel, Failure> {
    let text = fields.text("log_level");
    if text.is_empty() {
        return Ok(LogLevel::Info);
    }
    LogLevel::parse(text).ok_or_else(|| {
        let text = quoted(text);
        let message = format!("unknown log level {text}; give trace, debug, info, warn or error");
        Failure::invalid(message)
    })
}

fn read_format(fields: RequestFields<'_>) -> Result<MonitorFormat, Failure> {
    match fields.text("log_format").to_ascii_lowercase().as_str() {
        "" | "standard" => Ok(MonitorFormat::Standard),
        "json" => Ok(MonitorFormat::Json),
        other => {
            let message = format!("unknown log format {}; give standard or json", quoted(other));
            Err(Failure::invalid(message))
        }
    }
}

/// Returns a future of the reason for which the monitor ends. The future keeps neither the service
/// nor its sandbox.
fn wait_for_end(
    core: &Arc<Core>,
    request: &Request,
    caller: &Caller,
) -> impl Future<Output = &'static str> + Send + 'static {
    let (service, sealing, caller) = (Arc::downgrade(core), core.sealing.clone(), caller.clone());
    let path = request.path.clone();
    async move {
        loop {
            tokio::select! {
                () = sealing.wait_for_seal() => return SEALED,
                () = tokio::time::sleep(CHECK_PERIOD) => {}
            }
            let Some(core) = service.upgrade() else { return SEALED };
            if let Some(reason) = lost_right(&core, &path, &caller).await {
                return reason;
            }
        }
    }
}

/// Returns the reason for which the caller may not watch any longer, by the present token, entity,
/// groups and policies. A store that cannot be read says nothing about the right.
async fn lost_right(core: &Core, path: &str, caller: &Caller) -> Option<&'static str> {
    let is_denied = |failure: &Failure| failure.kind == FailureKind::PermissionDenied;
    let checked = tokens::assert_valid(&core.store, &mut core.store.begin(), caller).await;
    let caller = match checked {
        Ok(caller) => caller,
        Err(failure) => return is_denied(&failure).then_some("the token has ended"),
    };
    let rights = match core.rights_of(&caller.record).await {
        Ok(rights) => rights,
        Err(failure) => return is_denied(&failure).then_some(NO_RIGHT),
    };
    let question = AccessRequest {
        path,
        operation: Operation::Read,
        sudo: true,
        wrap_ttl: None,
        fields: &Map::new(),
        schema: &[],
    };
    Permit::ask_apart_from_parameters(&rights.acl, &question).is_err().then_some(NO_RIGHT)
}

/// The lines of a monitor as the bytes of an answer.
struct MonitorSource {
    monitor: LogMonitor,
    /// `None` once the reason of the end is known.
    end: Option<Pin<Box<dyn Future<Output = &'static str> + Send>>>,
    _listed: Option<InFlightEntry>,
}

impl ByteSource for MonitorSource {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Failure>>> {
        if let Some(end) = &mut self.end
            && let Poll::Ready(reason) = end.as_mut().poll(context)
        {
            self.end = None;
            self.monitor.end(reason);
        }
        self.monitor.poll_lines(context).map(|lines| lines.map(|lines| Ok(lines.into_bytes())))
    }
}
