//! Shares that came in, until there are enough.
//!
//! The attack this file stops: one bogus share that keeps the right one of its number out. Where
//! two differ both are followed, each in a group of shares that fit together, and the first group
//! that opens the data counts.

use crate::random;
use bulkhead_store::{Progress, SealConfig, SealKey, Share, ShareCollector};
use bulkhead_wire::failure::Failure;

/// Groups that are followed at a time; the oldest makes room, so that what is given now counts.
const GROUPS_MAX: usize = 16;

/// An attempt to unseal, as far as it came.
pub(super) struct Unsealing {
    /// Names the attempt, so that its shares are not mistaken for those of another.
    pub(super) nonce: String,
    groups: Vec<ShareCollector>,
}

impl Unsealing {
    /// An attempt without shares.
    ///
    /// # Errors
    /// 500 where the system gives no randomness.
    pub(super) fn new(config: SealConfig) -> Result<Self, Failure> {
        let groups = vec![ShareCollector::new(config)];
        Ok(Self { nonce: random::uuid()?, groups })
    }

    /// Shares of the group that came furthest.
    pub(super) fn count(&self) -> u8 {
        self.groups.iter().map(ShareCollector::count).max().unwrap_or_default()
    }

    /// Adds a share to every group that it fits, and to new ones beside those that it contradicts.
    /// Returns the keys of the groups that have enough, of which none need be right.
    ///
    /// # Errors
    /// 400 for what is no share of this seal; what came before stays.
    pub(super) fn add(&mut self, share: &Share) -> Result<Vec<SealKey>, Failure> {
        if !self.groups.iter().any(|group| group.has(share)) {
            let beside: Vec<_> = self.groups.iter().filter_map(|one| one.beside(share)).collect();
            self.groups.extend(beside);
            let over = self.groups.len().saturating_sub(GROUPS_MAX);
            self.groups.drain(..over);
        }
        let (mut keys, mut refused, mut fits) = (Vec::new(), None, false);
        for group in &mut self.groups {
            match group.add(share.clone()) {
                Ok(Progress::Enough(key)) => keys.push(key),
                Ok(Progress::More(_)) => fits = true,
                Err(why) => refused = Some(why),
            }
        }
        match refused {
            Some(why) if keys.is_empty() && !fits => Err(Failure::invalid(why).recordable()),
            _ => Ok(keys),
        }
    }
}
