//! Requests to the authoritative region.
//!
//! This file prevents a second execution of a write: a server is used only after a safe probe
//! request to each earlier server failed. This file also prevents forwarding loops: each request
//! carries a header that says that the request has passed a region already.

use crate::region_config::RegionConfig;
use bulkhead_sdk::http::{HttpTls, Request, Response};
use bulkhead_sdk::{Failure, FailureKind, Host};
use std::cell::Cell;

/// Header of a request that has passed another region.
pub(crate) const HOP: &str = "x-bulkhead-hop";
/// Header with the age of a replica's answer.
const REPLICA: &str = "x-scheduler-replicationage";
/// Timeout of a probe request, in milliseconds.
const PROBE_TIMEOUT_MS: u32 = 3_000;

/// The servers of the authoritative region.
pub(crate) struct AuthoritativeRegion<'a> {
    host: &'a dyn Host,
    config: &'a RegionConfig,
    /// Base URL of the server that answered the probe.
    reached: Cell<Option<&'a str>>,
}

impl<'a> AuthoritativeRegion<'a> {
    /// Creates the client for the servers in a configuration.
    #[must_use]
    pub(crate) const fn of(host: &'a dyn Host, config: &'a RegionConfig) -> Self {
        Self { host, config, reached: Cell::new(None) }
    }

    /// Sends a request to the first server that answers a probe. The server stays the same for the
    /// life of the client, so that pages of a list are of one server. `path` begins with a slash.
    ///
    /// # Errors
    /// Failures of the connection. The answer's status is never an error.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        complete: impl FnOnce(Request) -> Request,
    ) -> Result<Response, Failure> {
        let base = self.reachable()?;
        let request = self.request(method, &format!("{base}{path}"));
        self.host.http().send(&complete(request))
    }

    /// Sends a GET request with the replication token, not with a caller's token.
    ///
    /// # Errors
    /// Failures of the connection; too large for an answer above the host's limit.
    pub(crate) fn ask(&self, path: &str, timeout: u32) -> Result<Response, Failure> {
        let token = &self.config.replication_token;
        self.send("GET", path, |request| {
            request.header("x-nomad-token", token).secret(token).timeout(timeout)
        })
    }

    /// Accepts an answer with the status 200 or 404.
    ///
    /// # Errors
    /// Unreachable for another status, and for the answer of a replica.
    pub(crate) fn accept(&self, answer: Response) -> Result<Response, Failure> {
        let region = &self.config.authoritative_region;
        if answer.header(REPLICA).is_some() {
            return Err(unfit(format!(
                "region {region} answers as a replica of another region; name the authoritative \
                 region in authoritative_region and addresses"
            )));
        }
        match answer.status {
            200 | 404 => Ok(answer),
            403 => Err(unfit(format!(
                "region {region} does not take the replication token; write a management token of \
                 this region as replication_token"
            ))),
            status => {
                Err(unfit(format!("region {region} answered a request for records with {status}")))
            }
        }
    }

    /// Returns the base URL of the first server that answers a probe. A single server is not
    /// probed, and no server is probed twice.
    fn reachable(&self) -> Result<&'a str, Failure> {
        if let Some(base) = self.reached.get() {
            return Ok(base);
        }
        let base = self.probe()?;
        self.reached.set(Some(base));
        Ok(base)
    }

    fn probe(&self) -> Result<&'a str, Failure> {
        let mut last = unfit("the configuration names no address".to_owned());
        if let [only] = self.config.addresses.as_slice() {
            return Ok(only);
        }
        for base in &self.config.addresses {
            let probe = self.request("GET", &format!("{base}/v1/status/leader"));
            match self.host.http().send(&probe.timeout(PROBE_TIMEOUT_MS)) {
                Ok(_) => return Ok(base),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    fn request(&self, method: &str, url: &str) -> Request {
        let request = Request::new(method, url).header(HOP, "1");
        if self.config.ca_certificate.is_empty() {
            return request;
        }
        let root_certificates = Some(self.config.ca_certificate.clone());
        request.tls(HttpTls { root_certificates, ..HttpTls::default() })
    }
}

/// Creates the failure for a server that does not answer as the authoritative region must.
pub(crate) fn unfit(message: String) -> Failure {
    Failure::new(FailureKind::Unreachable, message)
}
