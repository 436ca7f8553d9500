//! What a handler is given.
//!
//! The attack this file stops: an endpoint that answers before the caller's policies were asked,
//! with what only a permitted request may see. [`Call`] is made for permitted requests alone; the
//! two other kinds of call hold less.

use crate::core::Core;
use crate::policies::ROOT;
use crate::policies::acl::Acl;
use crate::policies::capability::Capability;
use crate::seal::Seal;
use crate::tokens::Caller;
use bulkhead_store::Unit;
use bulkhead_wire::request::Request;
use bulkhead_wire::route::Table;
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::sync::Arc;

/// A permitted request to the host.
pub(crate) struct Call<'a> {
    pub(crate) core: &'a Arc<Core>,
    /// What the request reads and writes. The pipeline commits it after the handler.
    pub(crate) unit: &'a mut Unit,
    pub(crate) request: &'a Request,
    pub(crate) caller: &'a Caller,
    pub(crate) fields: Fields<'a>,
    /// What the caller's policies grant on the path; `root` for all.
    pub(crate) capabilities: &'a [String],
}

/// A request to an endpoint that asks for no token.
pub(crate) struct PublicCall<'a> {
    pub(super) core: &'a Core,
    /// Every row of the host.
    pub(super) rows: &'a Table,
    pub(super) request: &'a Request,
    /// What the caller's token may do; `None` without a token.
    pub(super) acl: Option<&'a Acl>,
    pub(super) fields: Fields<'a>,
}

/// A request to an endpoint that answers while sealed too: of what is stored it knows nothing.
pub(crate) struct SealedCall<'a> {
    pub(super) seal: &'a Seal,
    /// Where it comes from.
    pub(super) remote: IpAddr,
    pub(super) fields: Fields<'a>,
}

impl Call<'_> {
    /// May the caller do more on this path than its ordinary callers?
    pub(super) fn has_sudo(&self) -> bool {
        self.capabilities.iter().any(|word| word == Capability::Sudo.word() || word == ROOT)
    }
}

/// Canonical fields of a request, captures included.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(crate) fn new(values: &'a Map<String, Value>) -> Self {
        Self(values)
    }

    pub(super) fn all(self) -> &'a Map<String, Value> {
        self.0
    }

    /// Did the caller send the field?
    pub(super) fn has(self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name)
    }

    /// A text; empty when it was not sent.
    pub(super) fn text(self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A duration in seconds; 0 when it was not sent.
    pub(super) fn seconds(self, name: &str) -> u64 {
        self.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    /// A whole number, which may be negative.
    pub(super) fn integer(self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    pub(super) fn flag(self, name: &str, default: bool) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    /// The texts of a list; none when it was not sent.
    pub(super) fn list(self, name: &str) -> Vec<String> {
        let items = self.get(name).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The members of an object.
    pub(super) fn object(self, name: &str) -> Option<&'a Map<String, Value>> {
        self.get(name).and_then(Value::as_object)
    }
}
