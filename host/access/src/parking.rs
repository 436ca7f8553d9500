//! Parked requests: groups of equal requests that wait for a change, without an instance.
//!
//! Equal requests (the same mount, method, path, query, headers and body) form a group, and a
//! single run of the component answers the whole group. The comparison includes the headers, so
//! that callers with different tokens never share a run.
//!
//! This file prevents waiting requests without bounds: the process and each client have a maximum
//! number of requests and of bytes that they hold. Callers whom no component named have a small
//! part of both, so that strangers leave most places to callers with a token.

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
/// Maximum number of parked requests of all callers whom no component named.
const MAX_PARKED_UNNAMED: usize = 1_000;
/// Maximum number of parked requests of a client whose callers no component named.
const MAX_PARKED_UNNAMED_PER_CLIENT: usize = 100;
/// Maximum number of bytes that parked requests of the process hold.
const MAX_PARKED_BYTES: usize = 64 << 20;
/// Maximum number of bytes that parked requests of a client hold.
const MAX_PARKED_BYTES_PER_CLIENT: usize = 16 << 20;
/// Maximum number of bytes that parked requests of all callers hold whom no component named.
const MAX_PARKED_UNNAMED_BYTES: usize = 4 << 20;
/// Maximum number of bytes that parked requests of a client hold whose callers no component named.
const MAX_PARKED_UNNAMED_BYTES_PER_CLIENT: usize = 1 << 20;

/// All parked requests.
#[derive(Default)]
pub struct ParkedRequests {
    groups: Mutex<HashMap<String, Arc<RequestGroup>>>,
    /// The failure for new requests, once parking is closed.
    closed: OnceLock<Failure>,
    /// Number of component runs for parked requests.
    runs: AtomicU64,
    places: Arc<Mutex<PlacesInUse>>,
}

/// Equal requests that wait for the same run.
pub struct RequestGroup {
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

/// A request that wants to wait.
#[derive(Clone, Copy)]
pub struct PlaceClaim {
    /// Client of the sender, for the limits per client.
    pub client: Client,
    /// True if the component named the caller.
    pub is_known: bool,
    /// Bytes that the request holds while it waits.
    pub bytes: usize,
}

/// The right to wait, until dropped.
pub struct ParkingPlace {
    places: Arc<Mutex<PlacesInUse>>,
    claim: PlaceClaim,
}

/// A number of waiting requests, and the bytes that they hold.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ParkedUsage {
    requests: usize,
    bytes: usize,
}

/// The usage of all callers, and the part of callers whom no component named.
#[derive(Default)]
struct UsageByCaller {
    all: ParkedUsage,
    unnamed: ParkedUsage,
}

/// The usage of the process and of each client.
#[derive(Default)]
struct PlacesInUse {
    process: UsageByCaller,
    by_client: HashMap<Client, UsageByCaller>,
}

/// A request's membership in its group.
pub struct GroupWaiter(watch::Receiver<GroupStatus>);

/// The end of a group's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// No request of the group waits any more.
    Empty,
    /// The group was released, and its requests have an answer.
    Released,
}

impl ParkedRequests {
    /// Takes a place for a request.
    ///
    /// # Errors
    /// 429 if the client or the process has the maximum number of parked requests or of their
    /// bytes; the reason for the closing, once parking is closed.
    pub fn take_place(&self, claim: PlaceClaim) -> Result<ParkingPlace, Failure> {
        if let Some(closed) = self.closed.get() {
            return Err(closed.clone());
        }
        sync::lock(&self.places).add(claim).map_err(overload_failure)?;
        Ok(ParkingPlace { places: Arc::clone(&self.places), claim })
    }

    /// Joins the group `name`, and creates the group if there is none. The second value is the new
    /// group: its creator must run the group.
    pub fn join(&self, name: &str, mount: &str) -> (GroupWaiter, Option<Arc<RequestGroup>>) {
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
    pub fn answer(&self, group: &RequestGroup, answer: Result<RawResponse, Failure>) {
        let mut groups = sync::lock(&self.groups);
        if groups
            .get(&group.name)
            .is_some_and(|current_group| std::ptr::eq(&**current_group, group))
        {
            groups.remove(&group.name);
        }
        group.status.send_replace(GroupStatus::Answered(answer));
    }

    /// Waits until the group has no waiting request, or is released.
    pub async fn wait_until_idle(&self, group: &RequestGroup) -> WaitOutcome {
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
    pub fn close(&self, failure: &Failure) {
        self.closed.get_or_init(|| failure.clone());
        self.release_if(|_| true, failure);
    }

    /// Answers the waiting requests of a mount with a failure.
    pub fn release(&self, mount: &str, failure: &Failure) {
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
    pub fn count_run(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of component runs for groups since the service was opened.
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> usize {
        sync::lock(&self.places).process.all.requests
    }
}

impl GroupWaiter {
    /// Waits for the answer of the group.
    pub async fn answer(&mut self) -> Result<RawResponse, Failure> {
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
        sync::lock(&self.places).remove(self.claim);
    }
}

impl PlacesInUse {
    /// Adds a request.
    ///
    /// # Errors
    /// The maximum that the request would exceed, in words. Nothing is added.
    fn add(&mut self, claim: PlaceClaim) -> Result<(), String> {
        let of_process = UsageByCaller {
            all: usage(MAX_PARKED, MAX_PARKED_BYTES),
            unnamed: usage(MAX_PARKED_UNNAMED, MAX_PARKED_UNNAMED_BYTES),
        };
        let of_client = UsageByCaller {
            all: usage(MAX_PARKED_PER_CLIENT, MAX_PARKED_BYTES_PER_CLIENT),
            unnamed: usage(MAX_PARKED_UNNAMED_PER_CLIENT, MAX_PARKED_UNNAMED_BYTES_PER_CLIENT),
        };
        let client = self.by_client.entry(claim.client).or_default();
        let checked = client.check(claim, &of_client).map_err(|most| format!("{most} of a client"));
        let checked = checked.and_then(|()| {
            let of_all = self.process.check(claim, &of_process);
            of_all.map_err(|most| format!("{most} of a server"))
        });
        match checked {
            Ok(()) => {
                client.add(claim);
                self.process.add(claim);
            }
            Err(_) => self.forget_if_idle(claim.client),
        }
        checked
    }

    fn remove(&mut self, claim: PlaceClaim) {
        self.process.remove(claim);
        if let Some(client) = self.by_client.get_mut(&claim.client) {
            client.remove(claim);
        }
        self.forget_if_idle(claim.client);
    }

    fn forget_if_idle(&mut self, client: Client) {
        if self.by_client.get(&client).is_some_and(|usage| usage.all.requests == 0) {
            self.by_client.remove(&client);
        }
    }
}

const fn usage(requests: usize, bytes: usize) -> ParkedUsage {
    ParkedUsage { requests, bytes }
}

impl UsageByCaller {
    /// Checks that the request fits into the limits.
    ///
    /// # Errors
    /// The exceeded limit, in words.
    fn check(&self, claim: PlaceClaim, limits: &Self) -> Result<(), String> {
        self.all.check(claim.bytes, limits.all).map_err(|most| format!("{most}, the most"))?;
        if claim.is_known {
            return Ok(());
        }
        self.unnamed
            .check(claim.bytes, limits.unnamed)
            .map_err(|most| format!("{most} without an accepted token, the most"))
    }

    fn add(&mut self, claim: PlaceClaim) {
        self.all.add(claim.bytes);
        if !claim.is_known {
            self.unnamed.add(claim.bytes);
        }
    }

    fn remove(&mut self, claim: PlaceClaim) {
        self.all.remove(claim.bytes);
        if !claim.is_known {
            self.unnamed.remove(claim.bytes);
        }
    }
}

impl ParkedUsage {
    fn check(self, bytes: usize, limit: Self) -> Result<(), String> {
        if self.requests >= limit.requests {
            return Err(format!("{} requests wait for a change", limit.requests));
        }
        if self.bytes.saturating_add(bytes) > limit.bytes {
            let kib = limit.bytes >> 10;
            return Err(format!("requests waiting for a change hold {kib} KiB"));
        }
        Ok(())
    }

    fn add(&mut self, bytes: usize) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn remove(&mut self, bytes: usize) {
        self.requests = self.requests.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

fn overload_failure(why: String) -> Failure {
    let message = format!("{why}; ask without \"index\", or again when others are answered");
    Failure { retry_after: Some(1_000), ..Failure::new(FailureKind::RateLimited, message) }
}

#[cfg(test)]
mod tests;
