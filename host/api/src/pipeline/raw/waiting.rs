//! Groups of equal requests that wait for a change, and their runs.

use super::exchange::{handed_on, respond};
use super::run::{CompletedRun, PlannedRun, RunReason};
use bulkhead_access::parking::RequestGroup;
use bulkhead_access::sealing::{InFlight, sealed_failure};
use bulkhead_core::Core;
use bulkhead_core::mounts::Mount;
use bulkhead_sandbox::CallerPresence;
use bulkhead_sandbox::contract::{Park, RawReply};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::raw::RawRequest;
use std::sync::Arc;

/// Returns a name that equal requests of a mount share, and no other request has.
pub(super) fn group_name(core: &Core, mount: &Mount, request: &RawRequest) -> String {
    let access = mount.plugin.description().raw.clone().unwrap_or_default();
    let mut text = Vec::new();
    let mut add = |part: &[u8]| {
        text.extend_from_slice(&(part.len() as u64).to_be_bytes());
        text.extend_from_slice(part);
    };
    add(mount.record.uuid.as_bytes());
    for part in [&request.method, &request.place.base, &request.path, &request.query] {
        add(part.as_bytes());
    }
    for header in handed_on(&access, request) {
        add(header.name.as_bytes());
        add(header.value.as_bytes());
    }
    add(&request.body);
    core.store.keyed_hash("parked", &text)
}

/// Returns the bytes held by a waiting request: the bytes of the request, of the audit lines and of
/// the entry in the list of requests in flight. Lines and entry repeat the path.
pub(super) fn held_bytes(request: &RawRequest) -> usize {
    let headers = request.headers.iter().map(|(name, value)| name.len() + value.len());
    let paths = 4 * request.path.len() + request.canonical_path.len();
    paths + request.query.len() + request.body.len() + headers.sum::<usize>()
}

/// A group of equal requests that wait.
pub(super) struct WaitingGroup {
    pub(super) core: Arc<Core>,
    pub(super) request: Arc<RawRequest>,
    pub(super) group: Arc<RequestGroup>,
}

impl WaitingGroup {
    /// Runs the request again after each change, until it is answered or no caller waits. `seen` is
    /// the change counter of the mount's data before the first run.
    pub(super) async fn drive(self, uuid: String, park: Park, seen: u64) {
        let Self { core, group, .. } = &self;
        let full = |keys: &[String]| keys.iter().map(|key| format!("{uuid}/{key}")).collect();
        let mut keys = park.keys;
        let mut watch = core.store.watch(full(&keys));
        let mut is_behind = core.store.change_count(&uuid) != seen;
        loop {
            if !is_behind {
                tokio::select! {
                    () = watch.changed() => {}
                    _ = core.parking.wait_until_idle(group) => return,
                }
            }
            let seen = core.store.change_count(&uuid);
            core.parking.count_run();
            let Some(ran) = Box::pin(self.run_again(&uuid)).await else { return };
            let answer = match ran {
                Ok(CompletedRun { reply: RawReply { park: Some(park), .. }, .. })
                    if park.keys == keys =>
                {
                    is_behind = false;
                    continue;
                }
                Ok(CompletedRun { reply: RawReply { park: Some(park), .. }, .. }) => {
                    keys = park.keys;
                    watch = core.store.watch(full(&keys));
                    is_behind = core.store.change_count(&uuid) != seen;
                    continue;
                }
                Ok(CompletedRun { mount, reply, .. }) => respond(&mount, reply),
                Err(failure) => Err(failure),
            };
            return core.parking.answer(group, answer);
        }
    }

    /// Runs the request again, in the current state of its mount. Returns `None` if no caller waits
    /// any more.
    async fn run_again(&self, uuid: &str) -> Option<Result<CompletedRun, Failure>> {
        let Self { core, request, group } = self;
        let _in_flight = match keep_unsealed(core) {
            Ok(in_flight) => in_flight,
            Err(sealed) => return Some(Err(sealed)),
        };
        let (waiting, presence) = CallerPresence::begin();
        let run =
            PlannedRun { core, uuid, request, reason: RunReason::Changed, presence: &presence };
        let mut running = Box::pin(run.complete());
        tokio::select! {
            done = &mut running => Some(done),
            _ = core.parking.wait_until_idle(group) => {
                drop(waiting);
                // The run ends at once unless it has begun a change.
                _ = running.await;
                None
            }
        }
    }
}

/// Keeps the service from being sealed while a parked request runs.
///
/// # Errors
/// 503 once the service is being sealed.
pub(super) fn keep_unsealed(core: &Core) -> Result<InFlight, Failure> {
    let in_flight = core.sealing.enter()?;
    if core.sealing.has_begun() { Err(sealed_failure()) } else { Ok(in_flight) }
}
