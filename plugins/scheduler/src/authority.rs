//! Requests to the authoritative region.
//!
//! Prevents a write from being made twice: another address is tried only where a safe request
//! proves that the server behind it answers. Prevents a loop of forwarded requests: each request
//! says that it has passed one region already.

use crate::config::RegionConfig;
use bulkhead_sdk::http::{Request, Response, Tls};
use bulkhead_sdk::{Failure, Host, Kind};

/// The header of a request that has passed another region.
pub(crate) const HOP: &str = "x-bulkhead-hop";
/// The header by which a replica tells the age of its answer.
const REPLICA: &str = "x-scheduler-replicationage";
/// Milliseconds for a server's answer to a request that tells whether it is there.
const PROBE_TIME: u32 = 3_000;

/// The servers of the authoritative region.
pub(crate) struct Authority<'a> {
    host: &'a dyn Host,
    config: &'a RegionConfig,
}

impl<'a> Authority<'a> {
    /// The servers that a configuration names.
    #[must_use]
    pub(crate) const fn of(host: &'a dyn Host, config: &'a RegionConfig) -> Self {
        Self { host, config }
    }

    /// Sends a request to the first server that answers. `path` begins with a slash.
    ///
    /// # Errors
    /// Those of the connection. The answer's status is never an error.
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

    /// Reads with the replication token, in the name of no caller.
    ///
    /// # Errors
    /// Unreachable for a server that does not answer, answers another status than 200, or is a
    /// replica itself.
    pub(crate) fn read(&self, path: &str, timeout: u32) -> Result<Response, Failure> {
        let token = &self.config.replication_token;
        let answer = self.send("GET", path, |request| {
            request.header("x-nomad-token", token).secret(token).timeout(timeout)
        })?;
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
                 that region as replication_token"
            ))),
            status => {
                Err(unfit(format!("region {region} answered a request for records with {status}")))
            }
        }
    }

    /// The base URL of the first server that answers. A single one is not asked.
    fn reachable(&self) -> Result<&'a str, Failure> {
        let mut last = unfit("the configuration names no address".to_owned());
        if let [only] = self.config.addresses.as_slice() {
            return Ok(only);
        }
        for base in &self.config.addresses {
            let probe = self.request("GET", &format!("{base}/v1/status/leader"));
            match self.host.http().send(&probe.timeout(PROBE_TIME)) {
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
        request.tls(Tls { root_certificates, ..Tls::default() })
    }
}

/// A server that does not answer as the authoritative region would.
pub(crate) fn unfit(message: String) -> Failure {
    Failure::new(Kind::Unreachable, message)
}
