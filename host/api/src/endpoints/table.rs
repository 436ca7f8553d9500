//! The host's table: finds the endpoint for a path.

use super::row::Endpoint;
use bulkhead_core::mounts::BuiltinMount;
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::route::{RouteMatch, RouteTable};

/// The endpoints of the host, by path.
pub(crate) struct HostTable {
    table: RouteTable,
    /// Ordered as the rows of the table.
    endpoints: Vec<Endpoint>,
}

/// An endpoint, with the captures of the path.
pub(crate) struct FoundEndpoint<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) captures: Vec<(String, String)>,
}

impl HostTable {
    /// Checks the rows and builds the table.
    pub(super) fn new(endpoints: Vec<Endpoint>) -> Result<Self, String> {
        let routes = endpoints.iter().map(|endpoint| endpoint.route.clone()).collect();
        Ok(Self { table: RouteTable::of_host(routes)?, endpoints })
    }

    /// Returns the endpoint for a request; `None` if the path is not the host's.
    ///
    /// # Errors
    /// 404 for an unknown path below `sys`, `auth/token` and `identity`, where no mount can be; 405
    /// for the wrong method.
    pub(crate) fn find(
        &self,
        verb: Verb,
        path: &str,
    ) -> Result<Option<FoundEndpoint<'_>>, Failure> {
        match self.table.find(verb, path) {
            RouteMatch::Row { index, captures, .. } => match self.endpoints.get(index) {
                Some(endpoint) => Ok(Some(FoundEndpoint { endpoint, captures })),
                None => Err(Failure::internal("a row of the host's table has no endpoint")),
            },
            RouteMatch::NoVerb => Err(unsupported(path)),
            RouteMatch::NoPath if BuiltinMount::serving(path).is_some() => {
                let message = format!("unsupported path {}", quoted(path));
                Err(Failure::new(FailureKind::NotFound, message).recordable())
            }
            RouteMatch::NoPath => Ok(None),
        }
    }

    /// Reports whether an endpoint at that path answers callers without a token, with any method.
    pub(crate) fn is_open(&self, path: &str) -> bool {
        let verbs = [Verb::Read, Verb::Write, Verb::Delete, Verb::List, Verb::Patch];
        verbs.into_iter().any(|verb| match self.table.find(verb, path) {
            RouteMatch::Row { index, .. } => {
                self.endpoints.get(index).is_some_and(|found| found.route.unauthenticated)
            }
            RouteMatch::NoVerb | RouteMatch::NoPath => false,
        })
    }

    /// Returns all rows. A field that any row marks secret is secret in the answers of all rows.
    pub(crate) fn rows(&self) -> &RouteTable {
        &self.table
    }
}

/// Returns a 405, for paths of the host and of mounts.
pub(crate) fn unsupported(path: &str) -> Failure {
    let message = format!("unsupported operation: {} does not answer this method", quoted(path));
    Failure::new(FailureKind::UnsupportedOperation, message).recordable()
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use bulkhead_access::policies::spelling;
    use bulkhead_wire::description::Route;
    use std::collections::BTreeMap;

    /// Different paths to the same object, named in the path or in the body, by name or by id.
    /// Policies treat such paths as unrelated, as every server of this API does: a rule about one
    /// path does not apply to the other.
    const NAMED_OTHERWISE: [[&str; 2]; 12] = [
        ["auth/token/lookup", "auth/token/lookup-accessor"],
        ["auth/token/lookup", "auth/token/lookup-self"],
        ["auth/token/renew", "auth/token/renew-accessor"],
        ["auth/token/revoke", "auth/token/revoke-accessor"],
        ["identity/entity", "identity/entity/name/{name+}"],
        ["identity/entity/id/{id}", "identity/entity/name/{name+}"],
        ["identity/group", "identity/group/name/{name+}"],
        ["identity/group/id/{id}", "identity/group/name/{name+}"],
        ["sys/capabilities", "sys/capabilities-accessor"],
        ["sys/leases/lookup", "sys/leases/lookup/{prefix+}"],
        ["sys/leases/renew", "sys/leases/renew/{lease_id+}"],
        ["sys/leases/revoke", "sys/leases/revoke/{lease_id+}"],
    ];

    fn field_names(route: &Route) -> Vec<&str> {
        route.fields.iter().map(|field| field.name.as_str()).collect()
    }

    /// Returns the newest spelling of a row's path.
    fn newest(path: &str) -> String {
        let newer = spelling::other_path(path).filter(|other| other.is_newer);
        newer.map_or_else(|| path.to_owned(), |other| other.path)
    }

    #[test]
    fn row_of_older_path_has_newer_path_twin() {
        let table = table().unwrap();
        let rows = table.rows().routes();
        for (old, _) in spelling::MOVED {
            let is_old =
                |route: &&Route| route.path != newest(&route.path) && route.path.starts_with(old);
            let old_rows: Vec<&Route> = rows.iter().filter(is_old).collect();
            assert!(!old_rows.is_empty(), "{old} leads nowhere");
            for row in old_rows {
                let newer = newest(&row.path);
                let twin = rows.iter().find(|one| {
                    one.path == newer
                        && field_names(one) == field_names(row)
                        && one.sudo == row.sudo
                });
                assert!(twin.is_some(), "{} has no row {newer}", row.path);
            }
        }
    }

    #[test]
    fn paths_serving_alike_are_known_to_policies() {
        let table = table().unwrap();
        let mut same: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
        for row in table.rows().routes() {
            let key = (format!("{:?}", row.verb), row.about.clone());
            same.entry(key).or_default().push(&row.path);
        }
        let mut apart = Vec::new();
        for paths in same.values() {
            let mut paths: Vec<String> = paths.iter().map(|path| newest(path)).collect();
            paths.sort_unstable();
            paths.dedup();
            if paths.len() > 1 && !apart.contains(&paths) {
                apart.push(paths);
            }
        }
        apart.sort_unstable();
        assert_eq!(apart, NAMED_OTHERWISE);
    }
}
