//! A search for due work: claims the oldest rows of each lane, and starts the work.
//!
//! This file prevents a commit for each lane on a database of several nodes: the search claims the
//! rows of several lanes in memory, and records the claims in one commit.

use super::super::claims::{Claim, Claims};
use super::super::lane_order::{IN_LANES, LaneOrder, RingRange, end_of_mount, mount_of};
use super::{BackgroundState, DueWork, LONGEST_SLEEP, do_and_pause};
use bulkhead_store::{Address, Space};
use bulkhead_wire::failure::Failure;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Pause until the next search after due work of another node was passed over.
const NODE_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of rows of a lane that a search passes over because other nodes work on the rows.
const MOST_PASSED_OVER: usize = 1_000;
/// Number of claims from which a search records its claims.
const FULL_BATCH: usize = 64;

/// Kinds of work without lanes.
const WITHOUT_LANE: [Space; 2] = [Space::Token, Space::Core];

/// Kinds of work that continue although nothing can be stored. Ending a credential twice is
/// harmless; leaving the credential active until the restart is not.
const WITHOUT_STORE: [Space; 2] = [Space::Lease, Space::Reservation];

/// A single search for due work.
struct DueSearch<'a, Work> {
    background: &'a Arc<BackgroundState>,
    work: &'a Arc<Work>,
    order: &'a mut LaneOrder,
    /// Store time in milliseconds; rows due by then are processed.
    now: u64,
    batch: ClaimBatch,
}

/// Claims in memory whose records are not committed yet.
#[derive(Default)]
struct ClaimBatch {
    claims: Vec<Claim>,
    /// The lanes with further due rows, each with the rows that the search found.
    visits: Vec<(LaneVisit, Vec<Address>)>,
}

/// A lane of a search.
struct LaneVisit {
    space: Space,
    lane: String,
    /// Rows of other nodes, which the search passes over.
    elsewhere: BTreeSet<Address>,
}

/// Claims and starts due work. Returns the time until more work may be due.
pub(super) async fn begin_what_is_due(
    background: &Arc<BackgroundState>,
    work: &Arc<impl DueWork>,
    order: &mut LaneOrder,
) -> Result<Duration, Failure> {
    let now = background.store.now();
    let mut search = DueSearch { background, work, order, now, batch: ClaimBatch::default() };
    if let Err(failure) = search.begin_all().await {
        Claims::give_back(search.batch.claims);
        return Err(failure);
    }
    let next = background.store.next_due_after(now).await?;
    let latest = now.saturating_add(u64::try_from(LONGEST_SLEEP.as_millis()).unwrap_or(u64::MAX));
    let next = next.unwrap_or(latest).min(latest);
    background.store.alarm().ring_before(next);
    let sleep = Duration::from_millis(next.saturating_sub(now));
    let of_nodes = background.claims.take_passed_over_node().then_some(NODE_PAUSE);
    let sooner = background.claims.next_end_of_rest().into_iter().chain(of_nodes);
    Ok(sooner.fold(sleep, Duration::min))
}

impl<Work: DueWork> DueSearch<'_, Work> {
    async fn begin_all(&mut self) -> Result<(), Failure> {
        let in_lanes = match self.background.store.stopped() {
            None => {
                for space in WITHOUT_LANE {
                    self.visit(space, "").await?;
                }
                &IN_LANES[..]
            }
            Some(reason) => {
                self.background.log_stopped_writes(reason);
                &WITHOUT_STORE[..]
            }
        };
        let mut served = None;
        for space in self.order.kinds(in_lanes) {
            if self.visit_kind(space).await? {
                served = served.or(Some(space));
            }
        }
        if let Some(first) = served {
            self.order.kind_began(first);
        }
        self.begin_batch().await
    }

    /// Claims due work in the lanes of `space`, as far as claims are free. Returns `true` if any
    /// was claimed.
    async fn visit_kind(&mut self, space: Space) -> Result<bool, Failure> {
        let mut claimed = false;
        for part in self.order.of_kind(space) {
            let mut left = Some(part.clone());
            while let Some(RingRange { first, end }) = left
                && self.has_room().await?
            {
                let found =
                    self.background.store.due_lanes(space, (&first, &end), self.now).await?;
                let mut mounts: Vec<&str> = found.lanes.iter().map(|lane| mount_of(lane)).collect();
                mounts.dedup();
                for mount in &mounts {
                    claimed |= self.visit_mount(space, mount).await?;
                }
                let done = mounts.last().map(|mount| end_of_mount(mount));
                left = found
                    .next
                    .and_then(|next| part.rest_from(done.map_or(next.clone(), |d| d.max(next))));
            }
        }
        Ok(claimed)
    }

    /// Claims due work in the lanes of a mount, as far as its share allows. Returns `true` if any
    /// was claimed.
    async fn visit_mount(&mut self, space: Space, mount: &str) -> Result<bool, Failure> {
        let mut claimed = false;
        for part in self.order.of_mount(space, mount) {
            let mut left = Some(part.clone());
            while let Some(RingRange { first, end }) = left
                && self.has_share(mount).await?
            {
                let found =
                    self.background.store.due_lanes(space, (&first, &end), self.now).await?;
                for lane in &found.lanes {
                    if self.visit(space, lane).await? {
                        claimed = true;
                        self.order.lane_began(space, lane);
                    }
                }
                left = found.next.and_then(|next| part.rest_from(next));
            }
        }
        Ok(claimed)
    }

    /// Returns whether any claim in lanes is free. Claims of the batch may turn out to be of other
    /// nodes.
    async fn has_room(&mut self) -> Result<bool, Failure> {
        if !self.background.claims.has_room_in_lanes() {
            self.begin_batch().await?;
        }
        Ok(self.background.claims.has_room_in_lanes())
    }

    /// Returns whether the mount's share allows another claim, as [`DueSearch::has_room`].
    async fn has_share(&mut self, mount: &str) -> Result<bool, Failure> {
        if !self.background.claims.has_share(mount) {
            self.begin_batch().await?;
        }
        Ok(self.background.claims.has_share(mount))
    }

    /// Claims the oldest due work of a lane, as far as the lane has room, and records the batch if
    /// the batch is full. Returns `true` if any was claimed.
    async fn visit(&mut self, space: Space, lane: &str) -> Result<bool, Failure> {
        let visit = LaneVisit { space, lane: lane.to_owned(), elsewhere: BTreeSet::new() };
        let claimed = self.claim_here(visit).await?;
        // A claim in memory alone needs no other claims.
        if self.batch.claims.len() >= FULL_BATCH || !self.background.claims.has_records() {
            self.begin_batch().await?;
        }
        Ok(claimed)
    }

    /// Claims the oldest due work of a lane in memory. Returns `true` if any was claimed.
    async fn claim_here(&mut self, visit: LaneVisit) -> Result<bool, Failure> {
        let (claims, lane) = (&self.background.claims, (visit.space, visit.lane.as_str()));
        let (room, elsewhere) = (claims.room(lane.0, lane.1), &visit.elsewhere);
        if room == 0 || self.background.sealing.has_begun() || elsewhere.len() > MOST_PASSED_OVER {
            return Ok(false);
        }
        // As many of the first rows may already be claimed.
        let claimed = claims.count_claimed(lane.0, lane.1).saturating_add(elsewhere.len());
        let limit = u32::try_from(room.saturating_add(claimed)).unwrap_or(u32::MAX);
        let found = self.background.store.due_in_lane(lane, self.now, limit).await?;
        let is_last = u32::try_from(found.len()).is_ok_and(|found| found < limit);
        let addresses = found.into_iter().map(|due| due.address);
        let new: Vec<_> = addresses.filter(|address| !elsewhere.contains(address)).collect();
        let new_claims = claims.hold_due(lane, &new);
        let claimed = !new_claims.is_empty();
        self.batch.claims.extend(new_claims);
        if claimed && !is_last {
            self.batch.visits.push((visit, new));
        }
        Ok(claimed)
    }

    /// Records the claims of the batch, and starts their work. Visits lanes again in which other
    /// nodes hold rows.
    async fn begin_batch(&mut self) -> Result<(), Failure> {
        while !self.batch.claims.is_empty() {
            let ClaimBatch { claims, visits } = std::mem::take(&mut self.batch);
            let due = self.background.claims.record_due(claims).await?;
            for claim in due.taken {
                // Fails if the service is being sealed.
                let Ok(in_flight) = self.background.sealing.enter() else { return Ok(()) };
                let (background, work) = (Arc::clone(self.background), Arc::clone(self.work));
                tokio::spawn(do_and_pause(background, work, claim, in_flight));
            }
            for (mut visit, rows) in visits {
                let before = visit.elsewhere.len();
                let foreign = rows.into_iter().filter(|row| due.elsewhere.contains(row));
                visit.elsewhere.extend(foreign);
                if visit.elsewhere.len() > before {
                    self.claim_here(visit).await?;
                }
            }
        }
        Ok(())
    }
}
