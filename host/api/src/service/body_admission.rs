//! The decision about a request's body, before a byte of the body is parsed or stored.
//!
//! This file prevents a caller without a token from making the server parse more than the few
//! fields of an endpoint without a token, and a caller without permission from writing to the
//! server's disk: the head of the request decides.

use super::Service;
use crate::endpoints::{self, Endpoint};
use crate::file_reception::FileReceptions;
use crate::pipeline;
use bulkhead_access::sealing::sealed_failure;
use bulkhead_wire::description::{Route, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::request::{Request, RequestHead};

/// The part of a request's body to read. The request's head decides, before anything from an
/// unknown client is parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyAdmission {
    /// The whole body: the sender's token is valid.
    Whole,
    /// Members of these names, and few bytes: the endpoint needs no token.
    Fields(Vec<String>),
    /// The whole body, into a file: the policies of the sender's token allow the request.
    File(FileReceptions),
    /// Nothing: the endpoint needs a token and the sender has no valid token.
    Nothing,
    /// Stores no byte of a body for a file: the sender has no permission.
    Discarded,
    /// Nothing, not even to discard: the sender has no valid token and exceeded the rate limit.
    /// Holds the failure that answers the request.
    Refused(Box<Failure>),
}

impl BodyAdmission {
    /// Returns the admission of a row that needs no token.
    fn fields_of(route: &Route) -> Self {
        let fields = route.fields.iter();
        let names = fields.flat_map(|field| std::iter::once(&field.name).chain(&field.aliases));
        Self::Fields(names.cloned().collect())
    }
}

impl Service {
    /// Decides how much of a request's body is read. Takes no use of the token.
    pub async fn admit_body(&self, head: &RequestHead<'_>) -> BodyAdmission {
        if let Some(endpoint) = self.file_endpoint(head.verb, head.path) {
            return self.admit_file(head, endpoint).await;
        }
        match self.admission_of(head).await {
            BodyAdmission::Whole => BodyAdmission::Whole,
            admission => match self.seal.check_stranger(head.remote).await {
                Ok(()) => admission,
                Err(refused) => BodyAdmission::Refused(Box::new(refused)),
            },
        }
    }

    async fn admission_of(&self, head: &RequestHead<'_>) -> BodyAdmission {
        let found = self.table.find(head.verb, head.path);
        if let Ok(Some(found)) = &found
            && found.endpoint.route.unauthenticated
        {
            return BodyAdmission::fields_of(&found.endpoint.route);
        }
        let Some((core, _in_flight)) = self.seal.enter().await else {
            return BodyAdmission::Nothing;
        };
        if matches!(found, Ok(None))
            && let Some(row) = core.mounts.open_row(head.verb, head.path)
        {
            return BodyAdmission::fields_of(&row);
        }
        // If the look-up fails, the request itself looks again and reports the failure.
        match core.tokens.is_held(head.token, head.remote).await {
            Ok(true) => BodyAdmission::Whole,
            // The fields tell whether the token was sent to be opened.
            Ok(false) | Err(_) if endpoints::is_opened_by_caller(head.path) => match &found {
                Ok(Some(found)) => BodyAdmission::fields_of(&found.endpoint.route),
                _ => BodyAdmission::Nothing,
            },
            Ok(false) | Err(_) => BodyAdmission::Nothing,
        }
    }

    /// Returns the endpoint of a request if the endpoint takes a body that is stored in a file.
    pub(super) fn file_endpoint(&self, verb: Verb, path: &str) -> Option<&Endpoint> {
        let found = self.table.find(verb, path).ok().flatten()?;
        found.endpoint.takes_file.then_some(found.endpoint)
    }

    /// Decides about the body of a request to `endpoint`. Takes no use of the token. If the token
    /// or the policies cannot be read, the request itself reads both again and reports the failure.
    pub(super) async fn admit_file(
        &self,
        head: &RequestHead<'_>,
        endpoint: &Endpoint,
    ) -> BodyAdmission {
        let Some((core, _in_flight)) = self.seal.enter().await else {
            return self.admit_stranger_file(head).await;
        };
        let Ok(caller) = core.tokens.identify(head.token, head.remote).await else {
            return self.admit_stranger_file(head).await;
        };
        match pipeline::permits_head(&core, &caller, head, &endpoint.route).await {
            Ok(true) => BodyAdmission::File(self.receptions.clone()),
            Ok(false) | Err(_) => BodyAdmission::Discarded,
        }
    }

    async fn admit_stranger_file(&self, head: &RequestHead<'_>) -> BodyAdmission {
        match self.seal.check_stranger(head.remote).await {
            Ok(()) => BodyAdmission::Discarded,
            Err(refused) => BodyAdmission::Refused(Box::new(refused)),
        }
    }

    /// Returns the failure of a request while no data are open. A snapshot needs an initialised
    /// server, because the caller of an empty server cannot be authenticated.
    pub(super) async fn closed_failure(&self, request: &Request) -> Failure {
        let is_restore = self.file_endpoint(request.verb, &request.path).is_some();
        if is_restore && matches!(self.seal.is_initialised().await, Ok(false)) {
            return Failure::invalid(
                "this server has no data and no tokens yet; stop the server, then type: bulkhead \
                 operator snapshot restore -data=DIR FILE, or for a server with a configuration \
                 file, as with data on PostgreSQL: bulkhead operator snapshot restore \
                 -config=CONFIG FILE",
            );
        }
        sealed_failure()
    }
}
