//! Parked requests: groups of equal requests that wait for a change, without an instance.
//!
//! Equal requests (the same mount, method, path, query, headers and body) form a group, and a
//! single run of the component answers the whole group. The comparison includes the headers, so
//! that callers with different tokens never share a run.
//!
//! Prevents an unbounded number of waiting requests, by a maximum for the process and a maximum for
//! each client.

use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::raw::RawResponse;
use bulkhead_wire::sync;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::{Notify, watch};

/// Maximum number of parked requests of the process.
const MAX_PARKED: usize = 10_000;
/// Maximum number of parked requests of a client.
const MAX_PARKED_PER_CLIENT: usize = 1_000;

/// All parked requests.
#[derive(Default)]
pub(crate) struct ParkedRequests {
    groups: Mutex<HashMap<String, Arc<RequestGroup>>>,
    /// The failure for new requests, once parking is closed.
    closed: OnceLock<Failure>,
    /// Number of component runs for parked requests.
    runs: AtomicU64,
    places: Arc<Mutex<HashMap<Client, usize>>>,
}

/// Equal requests that wait for the same run.
pub(crate) struct RequestGroup {
    name: String,
    mount: String,
    status: watch::Sender<GroupStatus>,
    released: Notify,
}

/// The state of a group.
#[derive(Clone)]
enum GroupStatus {
    Waiting,
    Answered(Result<RawResponse, Failure>),
}

/// The right to wait, until dropped.
pub(crate) struct ParkingPlace {
    places: Arc<Mutex<HashMap<Client, usize>>>,
    client: Client,
}

/// A request's membership in its group.
pub(crate) struct GroupWaiter(watch::Receiver<GroupStatus>);

/// The end of a group's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// No request of the group waits any more.
    Empty,
    /// The group was released, and its requests have an answer.
    Released,
}

impl ParkedRequests {
    /// Takes a place for a request of `client`.
    ///
    /// # Errors
    /// 429 if the client or the process has the maximum number of parked requests; the reason for
    /// the closing, once parking is closed.
    pub(crate) fn take_place(&self, client: Client) -> Result<ParkingPlace, Failure> {
        if let Some(closed) = self.closed.get() {
            return Err(closed.clone());
        }
        let mut places = sync::lock(&self.places);
        if places.values().sum::<usize>() >= MAX_PARKED {
            return Err(overload_failure(format!(
                "{MAX_PARKED} requests wait for a change, the most of a server"
            )));
        }
        let of_client = places.entry(client).or_default();
        if *of_client >= MAX_PARKED_PER_CLIENT {
            let whole =
                format!("{MAX_PARKED_PER_CLIENT} requests of this client wait for a change");
            return Err(overload_failure(format!("{whole}, the most of a client")));
        }
        *of_client += 1;
        Ok(ParkingPlace { places: Arc::clone(&self.places), client })
    }

    /// Joins the group `name`, and creates the group if there is none. The second value is the new
    /// group: its creator must run the group.
    pub(crate) fn join(&self, name: &str, mount: &str) -> (GroupWaiter, Option<Arc<RequestGroup>>) {
        let mut groups = sync::lock(&self.groups);
        // Checked under the lock, so that a concurrent close either is seen here or releases the
        // new group.
        if let Some(closed) = self.closed.get() {
            return (
                GroupWaiter(watch::channel(GroupStatus::Answered(Err(closed.clone()))).1),
                None,
            );
        }
        if let Some(group) = groups.get(name) {
            return (GroupWaiter(group.status.subscribe()), None);
        }
        let (status, seat) = watch::channel(GroupStatus::Waiting);
        let (name, mount) = (name.to_owned(), mount.to_owned());
        let group =
            Arc::new(RequestGroup { name: name.clone(), mount, status, released: Notify::new() });
        groups.insert(name, Arc::clone(&group));
        (GroupWaiter(seat), Some(group))
    }

    /// Gives the group its answer. Later requests create a new group.
    pub(crate) fn answer(&self, group: &RequestGroup, answer: Result<RawResponse, Failure>) {
        let mut groups = sync::lock(&self.groups);
        if groups.get(&group.name).is_some_and(|known| std::ptr::eq(&**known, group)) {
            groups.remove(&group.name);
        }
        group.status.send_replace(GroupStatus::Answered(answer));
    }

    /// Waits until the group has no waiting request, or is released.
    pub(crate) async fn wait_until_idle(&self, group: &RequestGroup) -> WaitOutcome {
        loop {
            tokio::select! {
                () = group.status.closed() => {}
                () = group.released.notified() => return WaitOutcome::Released,
            }
            let mut groups = sync::lock(&self.groups);
            // Checked under the lock that a joining request holds, too.
            if group.status.receiver_count() == 0 {
                groups.remove(&group.name);
                return WaitOutcome::Empty;
            }
        }
    }

    /// Answers every waiting request with a failure, and refuses new requests from now on.
    pub(crate) fn close(&self, failure: &Failure) {
        self.closed.get_or_init(|| failure.clone());
        self.release_if(|_| true, failure);
    }

    /// Answers the waiting requests of a mount with a failure.
    pub(crate) fn release(&self, mount: &str, failure: &Failure) {
        self.release_if(|group| group.mount == mount, failure);
    }

    fn release_if(&self, is_meant: impl Fn(&RequestGroup) -> bool, failure: &Failure) {
        let mut groups = sync::lock(&self.groups);
        groups.retain(|_, group| {
            if !is_meant(group) {
                return true;
            }
            group.status.send_replace(GroupStatus::Answered(Err(failure.clone())));
            group.released.notify_one();
            false
        });
    }

    /// Counts a run of a component for a group.
    pub(crate) fn count_run(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of component runs for groups since the service was opened.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Returns the number of waiting requests.
    pub(crate) fn waiting(&self) -> usize {
        sync::lock(&self.places).values().sum()
    }
}

impl GroupWaiter {
    /// Waits for the answer of the group.
    pub(crate) async fn answer(&mut self) -> Result<RawResponse, Failure> {
        let status = self.0.wait_for(|status| matches!(status, GroupStatus::Answered(_))).await;
        match status.map(|status| status.clone()) {
            Ok(GroupStatus::Answered(answer)) => answer,
            // The group's task panicked; the log has the details.
            _ => Err(Failure::internal("internal error")),
        }
    }
}

impl Drop for ParkingPlace {
    fn drop(&mut self) {
        let mut places = sync::lock(&self.places);
        if let Some(of_client) = places.get_mut(&self.client) {
            *of_client -= 1;
            if *of_client == 0 {
                places.remove(&self.client);
            }
        }
    }
}

fn overload_failure(why: String) -> Failure {
    let message = format!("{why}; ask without \"index\", or again when others are answered");
    Failure { retry_after: Some(1_000), ..Failure::new(FailureKind::RateLimited, message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn answer(text: &str) -> Result<RawResponse, Failure> {
        let body = Arc::new(text.as_bytes().to_vec());
        Ok(RawResponse { status: 200, headers: Vec::new(), body })
    }

    fn client(last: u8) -> Client {
        Client::of(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)))
    }

    #[tokio::test]
    async fn equal_requests_have_one_group_and_later_ones_another() {
        let parking = ParkedRequests::default();
        let (mut one, made) = parking.join("a", "m");
        let group = made.unwrap();
        let (mut other, joined) = parking.join("a", "m");
        assert!(joined.is_none());
        parking.answer(&group, answer("x"));
        assert!(one.answer().await == answer("x") && other.answer().await == answer("x"));
        assert!(parking.join("a", "m").1.is_some(), "a new run begins after the end of the first");
    }

    #[tokio::test]
    async fn a_group_ends_with_its_last_request_or_when_it_is_released() {
        let parking = ParkedRequests::default();
        let (seat, made) = parking.join("a", "m");
        drop(seat);
        assert_eq!(parking.wait_until_idle(&made.unwrap()).await, WaitOutcome::Empty);
        let (mut seat, made) = parking.join("a", "m");
        let group = made.unwrap();
        parking.release("other", &Failure::denied("x"));
        parking.release("m", &Failure::denied("gone"));
        assert_eq!(parking.wait_until_idle(&group).await, WaitOutcome::Released);
        assert_eq!(seat.answer().await.err().unwrap(), Failure::denied("gone"));
    }

    #[test]
    fn a_client_has_its_places_and_gives_them_back() {
        let parking = ParkedRequests::default();
        let taken: Vec<_> =
            (0..MAX_PARKED_PER_CLIENT).map(|_| parking.take_place(client(1)).unwrap()).collect();
        let refused = parking.take_place(client(1)).err().unwrap();
        assert_eq!(refused.kind, FailureKind::RateLimited);
        let of_other = parking.take_place(client(2)).unwrap();
        assert_eq!(parking.waiting(), MAX_PARKED_PER_CLIENT + 1);
        drop((taken, of_other));
        assert_eq!(parking.waiting(), 0);
        assert!(parking.take_place(client(1)).is_ok());
    }
}
