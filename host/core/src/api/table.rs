//! The host's table: which endpoint answers a path.

use super::row::Endpoint;
use crate::mounts::Builtin;
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::{Failure, Kind, quoted};
use bulkhead_wire::route::{Match, Table};

/// The endpoints of the host, by their paths.
pub(crate) struct HostTable {
    table: Table,
    /// In the order of the table's rows.
    endpoints: Vec<Endpoint>,
}

/// An endpoint and what the path carried.
pub(crate) struct Found<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) captures: Vec<(String, String)>,
}

impl HostTable {
    /// Checks the rows and builds the table.
    pub(super) fn new(endpoints: Vec<Endpoint>) -> Result<Self, String> {
        let routes = endpoints.iter().map(|endpoint| endpoint.route.clone()).collect();
        Ok(Self { table: Table::new(routes)?, endpoints })
    }

    /// The endpoint for a request; `None` when the path is not the host's.
    ///
    /// # Errors
    /// 404 below `sys`, `auth/token` and `identity`, which no mount can be; 405 for the wrong
    /// method.
    pub(crate) fn find(&self, verb: Verb, path: &str) -> Result<Option<Found<'_>>, Failure> {
        match self.table.find(verb, path) {
            Match::Row { index, captures, .. } => match self.endpoints.get(index) {
                Some(endpoint) => Ok(Some(Found { endpoint, captures })),
                None => Err(Failure::internal("a row of the host's table has no endpoint")),
            },
            Match::NoVerb => Err(unsupported(path)),
            Match::NoPath if Builtin::serving(path).is_some() => {
                let message = format!("unsupported path {}", quoted(path));
                Err(Failure::new(Kind::NotFound, message).recordable())
            }
            Match::NoPath => Ok(None),
        }
    }

    /// All rows: what one marks secret is secret in the answers of others.
    pub(crate) fn rows(&self) -> &Table {
        &self.table
    }
}

/// 405, of the host and of mounts.
pub(crate) fn unsupported(path: &str) -> Failure {
    let message = format!("unsupported operation: {} does not answer this method", quoted(path));
    Failure::new(Kind::UnsupportedOperation, message).recordable()
}
