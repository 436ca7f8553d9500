//! The replacement of all data after the request that restores a snapshot.

use super::Service;
use bulkhead_core::Core;
use bulkhead_core::restoring::RestoreOutcome;
use bulkhead_store::PreparedRestore;
use bulkhead_trace::scope::of_current_request;
use bulkhead_wire::envelope::Envelope;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::request::Request;
use bulkhead_wire::response::{Response, ResponseBody};
use serde_json::{Map, Value};
use std::sync::Arc;

impl Service {
    /// Answers a request for which the service is closed. `seals` is set for the request that seals
    /// the service: a sealed service has already done this act, which no audit device records. A
    /// service whose data are being replaced is not sealed and opens again.
    pub(super) async fn answer_closed(&self, request: &Request, seals: bool) -> Response {
        if self.seal.is_restoring() || (seals && self.seal.core().is_some()) {
            return Response::failed(&Failure::new(
                FailureKind::Unavailable,
                "a restore is in progress: the data are being replaced; ask again in a moment",
            ));
        }
        if seals && self.seal.is_rejoining() {
            return Response::failed(&Failure::new(
                FailureKind::Unavailable,
                "this node lost its claim on the database and opens the data again by itself; stop \
                 the server to keep the data closed, or seal the node when it is open",
            ));
        }
        if seals {
            return Response::no_content();
        }
        Response::failed(&self.closed_failure(request).await)
    }

    /// Replaces the data as `request` asked, unless `answer` is a failure. Returns the answer to
    /// the request: `answer` if the restored data are served, otherwise a warning or the failure.
    /// The replacement goes on if the client goes away.
    pub(super) async fn restore(
        self: &Arc<Self>,
        (core, prepared): (Arc<Core>, PreparedRestore),
        request: &Request,
        answer: Response,
    ) -> Response {
        if answer.status >= 300 {
            return answer;
        }
        let service = Arc::clone(self);
        let work = async move { service.seal.restore(&core, prepared).await };
        let replaced = tokio::spawn(of_current_request(work));
        match replaced.await.unwrap_or_else(|_| Err(Failure::internal("internal error"))) {
            Ok(RestoreOutcome::Open(None)) => answer,
            Ok(RestoreOutcome::Open(Some(reason))) => warn(request, reason, false),
            Ok(RestoreOutcome::Sealed(reason)) => warn(request, reason, true),
            Err(failure) => Response::failed(&failure),
        }
    }
}

fn warn(request: &Request, reason: String, is_sealed: bool) -> Response {
    let data = Map::from_iter([("sealed".to_owned(), Value::Bool(is_sealed))]);
    let envelope = Envelope {
        request_id: request.id.clone(),
        data: Some(data),
        warnings: vec![reason],
        ..Envelope::default()
    };
    Response::new(200, ResponseBody::Envelope(Box::new(envelope)))
}
