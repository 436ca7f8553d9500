//! One request to the scheduler's API, as the host hands it over.

use crate::query::{Pairs, is_pretty};
use bulkhead_sdk::Host;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::Storage;

/// A method that some path knows. POST and PUT are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Read,
    /// POST and PUT.
    Write,
    /// DELETE.
    Delete,
    /// Any other, HEAD and PATCH among them: no path has it.
    Other,
}

impl Method {
    /// The method of that name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "GET" => Self::Read,
            "POST" | "PUT" => Self::Write,
            "DELETE" => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// One request. No `Debug`: headers hold a token.
pub struct ApiRequest<'a> {
    /// Everything outside of the component.
    pub host: &'a dyn Host,
    /// What is asked for.
    pub method: Method,
    /// Decoded segments of the path behind `/v1/`.
    pub segments: Vec<String>,
    /// Decoded pairs of the query, in their order.
    pub query: Vec<(String, String)>,
    /// Headers that carry a token, in their order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Bytes as they came.
    pub body: Vec<u8>,
}

impl ApiRequest<'_> {
    /// The mount's own records.
    #[must_use]
    pub fn storage(&self) -> &dyn Storage {
        self.host.storage()
    }

    /// Store time.
    #[must_use]
    pub fn now(&self) -> StoreTime {
        self.host.clock().now()
    }

    /// The decoded pairs of the query.
    #[must_use]
    pub fn pairs(&self) -> &Pairs {
        &self.query
    }

    /// Whether the answer is indented.
    #[must_use]
    pub fn is_pretty(&self) -> bool {
        is_pretty(&self.query)
    }
}
