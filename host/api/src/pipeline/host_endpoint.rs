//! Serving a permitted request by an endpoint of the host.

use super::permitted_request::PermittedRequest;
use crate::endpoints::{self, Endpoint, EndpointHandler, PermittedCall, RequestFields};
use bulkhead_access::tokens;
use bulkhead_sandbox::SideEffect;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;

impl PermittedRequest<'_> {
    /// Calls the endpoint's handler, commits, and lets the change take effect. `effect` is told
    /// before the handler runs.
    pub(super) async fn serve_by_host(
        self,
        endpoint: &Endpoint,
        mut unit: Unit,
        effect: &mut SideEffect,
    ) -> Result<Response, Failure> {
        let EndpointHandler::Permitted { handler, effect: may_do, .. } = &endpoint.answers else {
            return Err(Failure::internal("an endpoint without a token was asked for a permit"));
        };
        *effect = *may_do;
        if *effect == SideEffect::Effect {
            unit.mark_effectful();
        }
        let caller = self.known_caller()?;
        let caller = tokens::assert_valid(&self.core.store, &mut unit, caller).await?;
        let call = PermittedCall {
            core: self.core,
            unit: &mut unit,
            request: self.request,
            caller: &caller,
            fields: RequestFields::new(&self.folded.values),
            capabilities: self.permit.capabilities(),
        };
        let reply = handler.handle(call).await?;
        let committed = unit.commit().await;
        if committed.is_ok() || reply.after_commit.is_due_in_doubt() {
            reply.after_commit.apply(self.core).await?;
        }
        committed?;
        let warnings = self.warn_of_unread().into_iter().chain(reply.warnings).collect();
        Ok(endpoints::respond(self.request, reply.body, warnings))
    }
}
