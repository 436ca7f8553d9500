//! Plain HTTP requests on the test bed.

use super::TestBed;
use crate::raw::{RawEngine, RawReply, RawRequest, RunReason};
use bulkhead_wire::failure::Failure;

impl<E: RawEngine> TestBed<E> {
    /// Returns a request as the host passes requests on: on a listener of the mount's own, without
    /// headers and body.
    #[must_use]
    pub fn raw_request(&self, method: &str, path: &str, query: &str) -> RawRequest {
        RawRequest {
            id: "test".to_owned(),
            method: method.to_owned(),
            base: "/".to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            run: RunReason::First,
            deadline: self.deadline(),
            remote_address: "127.0.0.1".to_owned(),
            mount: self.mount.clone(),
        }
    }

    /// Serves a request once. A parked request is not run again.
    ///
    /// # Errors
    /// The failure of the engine. The host would answer the failure as text.
    pub fn serve(&self, request: &RawRequest) -> Result<RawReply, Failure> {
        self.settle(E::serve(&self.host, request))
    }
}
