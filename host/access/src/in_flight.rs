//! The requests that are being served, for `sys/in-flight-req`.
//!
//! This file prevents a request from staying in the list: the entry is removed when its guard is
//! dropped, however the request ends. Bodies, headers and tokens are never in the list.

use bulkhead_wire::description::Verb;
use bulkhead_wire::request::Request;
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// A request that is being served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlightRequest {
    /// Store time, in milliseconds.
    pub began: u64,
    /// Address and port of the client; port 0 if the port is unknown.
    pub remote: SocketAddr,
    /// HTTP side of the route; does not tell a creation from an update.
    pub verb: Verb,
    /// Path below `/v1/`.
    pub path: String,
    /// Entity of the caller; empty if the caller has none.
    pub entity_id: String,
}

type List = Arc<Mutex<BTreeMap<String, ListedRequest>>>;

/// A request of the list, with the number of its entries.
struct ListedRequest {
    request: InFlightRequest,
    entries: u32,
}

/// The requests that are being served, by their ids.
#[derive(Default)]
pub struct InFlightRequests(List);

/// An entry of the list.
pub struct InFlightEntry {
    list: List,
    id: String,
}

impl InFlightRequests {
    /// Adds a request until the entry is dropped. `path` is the path to show.
    #[must_use]
    pub fn enter(
        &self,
        request: &Request,
        path: &str,
        began: u64,
        entity_id: &str,
    ) -> InFlightEntry {
        let shown = InFlightRequest {
            began,
            remote: SocketAddr::new(request.remote, request.remote_port),
            verb: request.verb,
            path: path.to_owned(),
            entity_id: entity_id.to_owned(),
        };
        let listed = ListedRequest { request: shown, entries: 1 };
        sync::lock(&self.0).insert(request.id.clone(), listed);
        InFlightEntry { list: Arc::clone(&self.0), id: request.id.clone() }
    }

    /// Adds another entry for a request in the list, for an answer that is sent for long. Returns
    /// `None` if the request has ended.
    #[must_use]
    pub fn enter_again(&self, id: &str) -> Option<InFlightEntry> {
        sync::lock(&self.0).get_mut(id)?.entries += 1;
        Some(InFlightEntry { list: Arc::clone(&self.0), id: id.to_owned() })
    }

    /// Returns a copy of the list.
    pub fn all(&self) -> BTreeMap<String, InFlightRequest> {
        let list = sync::lock(&self.0);
        list.iter().map(|(id, listed)| (id.clone(), listed.request.clone())).collect()
    }
}

impl Drop for InFlightEntry {
    fn drop(&mut self) {
        let mut list = sync::lock(&self.list);
        let Some(listed) = list.get_mut(&self.id) else { return };
        listed.entries = listed.entries.saturating_sub(1);
        if listed.entries == 0 {
            list.remove(&self.id);
        }
    }
}
