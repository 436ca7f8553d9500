//! The service behind a listener, as the listener sees the service.

use bulkhead_api::{BodyAdmission, Service};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::name::MountPath;
use bulkhead_wire::raw::{RawBasePath, RawRequest, RawResponse};
use bulkhead_wire::request::{Request, RequestHead};
use bulkhead_wire::response::Response;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The service behind the listener.
pub(crate) trait RequestAnswerer: Send + Sync + 'static {
    /// Answers a request. Never fails, because failures are answers.
    fn answer(self: Arc<Self>, request: Request) -> impl Future<Output = Response> + Send;

    /// Returns the part of the request's body that the listener may read.
    fn admit_body(&self, head: &RequestHead<'_>) -> impl Future<Output = BodyAdmission> + Send;

    /// Returns whether the request has a valid token, without consuming a use of the token.
    fn has_token(&self, head: &RequestHead<'_>) -> impl Future<Output = bool> + Send;

    /// Returns the headers that an operator wants in the audit log, by lower-case name. The value
    /// is true for a header whose value is hashed.
    fn audited_headers(&self) -> Arc<BTreeMap<String, bool>> {
        Arc::default()
    }

    /// Returns whether the trace context of requests is read.
    fn is_tracing(&self) -> bool {
        false
    }

    /// Returns the plain HTTP place of `path`, the part of the URL path after `/v1/` exactly as
    /// sent.
    fn raw_place(&self, path: &str) -> Option<RawBasePath>;

    /// Returns whether a component's route table has a row for `path`, which is canonical.
    fn is_row(&self, path: &str) -> bool;

    /// Returns the plain HTTP place of every request on the mount's own listener.
    fn own_raw_place(&self, mount: &MountPath) -> RawBasePath;

    /// Checks that the client of a plain HTTP request is within the rate limit for
    /// unauthenticated callers.
    fn check_raw(&self, remote: IpAddr) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Returns whether the component knows the caller of a plain HTTP request without a body.
    fn identify_raw(
        &self,
        request: RawRequest,
    ) -> impl Future<Output = Result<bool, Failure>> + Send;

    /// Answers a plain HTTP request. If the future is dropped, a waiting request gives up its
    /// place, and a run that has changed nothing ends.
    fn answer_raw(self: Arc<Self>, request: RawRequest)
    -> impl Future<Output = RawResponse> + Send;
}

impl RequestAnswerer for Service {
    async fn answer(self: Arc<Self>, request: Request) -> Response {
        self.handle(request).await
    }

    async fn admit_body(&self, head: &RequestHead<'_>) -> BodyAdmission {
        Self::admit_body(self, head).await
    }

    async fn has_token(&self, head: &RequestHead<'_>) -> bool {
        Self::has_token(self, head).await
    }

    fn audited_headers(&self) -> Arc<BTreeMap<String, bool>> {
        Self::audited_headers(self)
    }

    fn is_tracing(&self) -> bool {
        Self::is_tracing(self)
    }

    fn raw_place(&self, path: &str) -> Option<RawBasePath> {
        Self::raw_place(self, path)
    }

    fn is_row(&self, path: &str) -> bool {
        Self::is_row(self, path)
    }

    fn own_raw_place(&self, mount: &MountPath) -> RawBasePath {
        Self::own_raw_place(self, mount)
    }

    async fn check_raw(&self, remote: IpAddr) -> Result<(), Failure> {
        Self::check_raw(self, remote).await
    }

    async fn identify_raw(&self, request: RawRequest) -> Result<bool, Failure> {
        Self::identify_raw(self, request).await
    }

    async fn answer_raw(self: Arc<Self>, request: RawRequest) -> RawResponse {
        self.handle_raw(request).await
    }
}
