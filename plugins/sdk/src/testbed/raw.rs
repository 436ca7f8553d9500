//! Requests of plain HTTP at the bed.

use super::TestBed;
use crate::raw::{RawEngine, Reply, Request, Run};
use bulkhead_wire::failure::Failure;

impl<E: RawEngine> TestBed<E> {
    /// A request as the host hands it over: on a listener of the mount's own, without headers and
    /// body.
    #[must_use]
    pub fn raw_request(&self, method: &str, path: &str, query: &str) -> Request {
        Request {
            id: "test".to_owned(),
            method: method.to_owned(),
            base: "/".to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            run: Run::First,
            deadline: self.deadline(),
            remote_address: "127.0.0.1".to_owned(),
            mount: self.mount.clone(),
        }
    }

    /// Serves one request once: a request that parks is not run again.
    ///
    /// # Errors
    /// The failure that the host would word.
    pub fn serve(&self, request: &Request) -> Result<Reply, Failure> {
        self.settle(E::serve(&self.host, request))
    }
}
