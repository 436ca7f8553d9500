//! The lease book in memory.

use crate::database_plugin::StoreTime;
use crate::engine::Lease;
use bulkhead_wire::failure::{Failure, FailureKind};
use std::collections::{BTreeMap, BTreeSet};

/// Prefix of a lease's handle, before the tag.
const HANDLE: &str = "handle of ";

/// Committed leases, and the leases that the running call reserved or amended, by tag.
#[derive(Default)]
pub(super) struct LeaseBook {
    committed: BTreeMap<String, BookedLease>,
    buffered: BTreeMap<String, BookedLease>,
    /// Tags of leases that end when the call commits.
    ended: BTreeSet<String>,
}

#[derive(Clone)]
struct BookedLease {
    lease: Lease,
    lane: String,
    is_confirmed: bool,
}

impl LeaseBook {
    pub(super) fn reserve(
        &mut self,
        tag: &str,
        lane: &str,
        internal: &str,
        now: StoreTime,
    ) -> Result<String, Failure> {
        let is_taken = self.buffered.contains_key(tag) || self.committed.contains_key(tag);
        if tag.is_empty() || is_taken {
            return Err(Failure::invalid(format!("the tag {tag:?} is empty or taken")));
        }
        let handle = format!("{HANDLE}{tag}");
        let (tag, internal) = (tag.to_owned(), internal.to_owned());
        let lease = Lease { tag: tag.clone(), internal, issued: now, expires: now };
        self.buffered
            .insert(tag, BookedLease { lease, lane: lane.to_owned(), is_confirmed: false });
        Ok(handle)
    }

    pub(super) fn amend(&mut self, tag: &str, internal: &str) -> Result<(), Failure> {
        let entry = self.buffered.get(tag).or_else(|| self.committed.get(tag));
        let ours = entry.filter(|booked| !booked.is_confirmed).cloned();
        let mut booked = ours.ok_or_else(|| not_reserved(tag))?;
        internal.clone_into(&mut booked.lease.internal);
        self.buffered.insert(tag.to_owned(), booked);
        Ok(())
    }

    pub(super) fn end_issued(&mut self, handle: &str) -> Result<(), Failure> {
        let tag = handle.strip_prefix(HANDLE);
        let tag = tag.ok_or_else(|| Failure::invalid(format!("{handle:?} is not a handle")))?;
        self.ended.insert(tag.to_owned());
        Ok(())
    }

    pub(super) fn end(&mut self, tag: &str) -> Result<(), Failure> {
        match self.committed.remove(tag).or(self.buffered.remove(tag)) {
            Some(_) => Ok(()),
            None => Err(not_reserved(tag)),
        }
    }

    pub(super) fn count(&self, lane: &str) -> u32 {
        let live = self.committed.values().filter(|booked| booked.lane == lane).count();
        u32::try_from(live).unwrap_or(u32::MAX).min(10_000)
    }

    pub(super) fn commit(&mut self) {
        self.committed.append(&mut self.buffered);
        for tag in std::mem::take(&mut self.ended) {
            self.committed.remove(&tag);
        }
    }

    pub(super) fn roll_back(&mut self) {
        self.buffered.clear();
        self.ended.clear();
    }

    /// Returns committed leases that no answer has confirmed.
    pub(super) fn unconfirmed(&self) -> Vec<Lease> {
        let waiting = self.committed.values().filter(|booked| !booked.is_confirmed);
        waiting.map(|booked| booked.lease.clone()).collect()
    }

    pub(super) fn confirm(&mut self, tag: &str, expires: StoreTime) -> Result<(), Failure> {
        let Some(booked) = self.committed.get_mut(tag) else {
            return Err(Failure::internal(format!(
                "the answer names {tag:?}, which this call did not reserve"
            )));
        };
        booked.is_confirmed = true;
        booked.lease.expires = expires;
        if let Some(amended) = self.buffered.get_mut(tag) {
            amended.is_confirmed = true;
            amended.lease.expires = expires;
        }
        Ok(())
    }

    pub(super) fn prolong(&mut self, tag: &str, expires: StoreTime) {
        if let Some(booked) = self.committed.get_mut(tag) {
            booked.lease.expires = expires;
        }
    }

    pub(super) fn lease(&self, tag: &str) -> Option<Lease> {
        self.committed.get(tag).map(|booked| booked.lease.clone())
    }

    pub(super) fn forget(&mut self, tag: &str) {
        self.committed.remove(tag);
    }

    pub(super) fn tags(&self) -> Vec<String> {
        self.committed.keys().cloned().collect()
    }
}

fn not_reserved(tag: &str) -> Failure {
    Failure::new(FailureKind::NotFound, format!("this call did not reserve {tag:?}"))
}
