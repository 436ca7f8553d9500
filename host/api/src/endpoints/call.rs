//! Arguments of the handlers.
//!
//! This file prevents an endpoint from answering before the caller's policies were checked:
//! [`PermittedCall`] is created for permitted requests alone, and the two other kinds of call give
//! access to less.

use bulkhead_access::policies::acl::Acl;
use bulkhead_access::policies::capability;
use bulkhead_access::tokens::Caller;
use bulkhead_core::Core;
use bulkhead_core::seal::ServiceSeal;
use bulkhead_store::Unit;
use bulkhead_wire::request::Request;
use bulkhead_wire::route::RouteTable;
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::sync::Arc;

/// A permitted request to the host.
pub(crate) struct PermittedCall<'a> {
    pub(crate) core: &'a Arc<Core>,
    /// The reads and writes of the request. The pipeline commits the unit after the handler.
    pub(crate) unit: &'a mut Unit,
    pub(crate) request: &'a Request,
    pub(crate) caller: &'a Caller,
    pub(crate) fields: RequestFields<'a>,
    /// Capabilities that the caller's policies grant on the path; `root` means all capabilities.
    pub(crate) capabilities: &'a [String],
}

/// A question for the values of an object before the request that changes the object.
pub(crate) struct PresentQuestion<'a> {
    pub(crate) core: &'a Core,
    /// The unit of the request. A row that is read here and changes meanwhile is a conflict.
    pub(crate) unit: &'a mut Unit,
    pub(crate) fields: RequestFields<'a>,
}

/// A request to an endpoint that needs no token.
pub(crate) struct PublicCall<'a> {
    pub(super) core: &'a Core,
    /// Every row of the host's table.
    pub(super) rows: &'a RouteTable,
    pub(super) request: &'a Request,
    /// Policies of the caller's token; `None` without a token.
    pub(super) acl: Option<&'a Acl>,
    pub(super) fields: RequestFields<'a>,
}

/// A request to an endpoint that also answers while sealed, without access to stored data.
pub(crate) struct SealedCall<'a> {
    pub(super) seal: &'a ServiceSeal,
    /// Address of the caller.
    pub(super) remote: IpAddr,
    pub(super) fields: RequestFields<'a>,
}

impl PermittedCall<'_> {
    /// Returns whether the caller has `sudo` on this path.
    pub(super) fn has_sudo(&self) -> bool {
        capability::include_sudo(self.capabilities)
    }
}

/// Canonical fields of a request, captures included.
#[derive(Clone, Copy)]
pub(crate) struct RequestFields<'a>(&'a Map<String, Value>);

impl<'a> RequestFields<'a> {
    pub(crate) fn new(values: &'a Map<String, Value>) -> Self {
        Self(values)
    }

    pub(super) fn all(self) -> &'a Map<String, Value> {
        self.0
    }

    /// Returns whether the caller sent the field.
    pub(super) fn has(self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name)
    }

    /// Returns a text; empty if the caller did not send the field.
    pub(super) fn text(self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a duration in seconds; 0 if the caller did not send the field.
    pub(super) fn seconds(self, name: &str) -> u64 {
        self.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    /// Returns a whole number, which may be negative.
    pub(super) fn integer(self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    pub(super) fn flag(self, name: &str, default: bool) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    /// Returns the texts of a list; empty if the caller did not send the field.
    pub(super) fn list(self, name: &str) -> Vec<String> {
        let items = self.get(name).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Returns the members of an object.
    pub(super) fn object(self, name: &str) -> Option<&'a Map<String, Value>> {
        self.get(name).and_then(Value::as_object)
    }
}
