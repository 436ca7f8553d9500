//! The replacement of all data after the request that restores a snapshot.

use super::Service;
use bulkhead_access::request_scope::of_current_request;
use bulkhead_core::Core;
use bulkhead_core::seal::RestoreOutcome;
use bulkhead_store::PreparedRestore;
use bulkhead_wire::envelope::Envelope;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::{Response, ResponseBody};
use std::sync::Arc;

impl Service {
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
            Ok(RestoreOutcome::Open) => answer,
            Ok(RestoreOutcome::Sealed(reason)) => warn(request, reason),
            Err(failure) => Response::failed(&failure),
        }
    }
}

fn warn(request: &Request, reason: String) -> Response {
    let envelope =
        Envelope { request_id: request.id.clone(), warnings: vec![reason], ..Envelope::default() };
    Response { status: 200, body: ResponseBody::Envelope(Box::new(envelope)), retry_after: None }
}
