//! Requests for metrics at a listener that needs no token for them.
//!
//! Such a request is not audited and has no rate limit, as `sys/health`; a token is ignored. The
//! request counts like any other request while the service is open.

use super::Service;
use crate::endpoints;
use bulkhead_access::request_metrics::{OperationClass, RequestOutcome};
use bulkhead_wire::description::{Route, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::request::{METRICS_PATH, Request};
use bulkhead_wire::response::Response;
use std::time::Instant;

/// Mount of the requests in the metrics: the endpoints of the host.
const HOST_MOUNT: &str = "sys/";

/// Reports whether the listener answers the request without a token.
pub(super) fn is_open(request: &Request) -> bool {
    let Request { metrics, verb, path, .. } = request;
    metrics.needs_no_token && *verb == Verb::Read && path == METRICS_PATH
}

impl Service {
    /// Answers a request for metrics without a token, sealed or open.
    pub(super) async fn answer_open_metrics(&self, route: &Route, request: &Request) -> Response {
        let began = Instant::now();
        let entered = self.seal.enter().await;
        let core = entered.as_ref().map(|(core, _)| core);
        let served = match &request.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => {
                let seal = (&*self.seal, core.map(|core| &**core));
                endpoints::serve_open_metrics(&self.scrapes, seal, route, request).await
            }
        };
        let response = served.unwrap_or_else(|failure: Failure| Response::failed(&failure));
        if let Some(core) = core {
            let outcome = RequestOutcome::of_status(response.status);
            let class = (OperationClass::Read, outcome);
            core.traffic.note(HOST_MOUNT, class, Some(began.elapsed()));
        }
        response
    }
}
