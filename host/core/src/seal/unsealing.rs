//! Shares that came in, until enough of them are right.
//!
//! The attacks this file stops: one bogus share that keeps the right one of its number out, or that
//! fills the threshold and lets the right ones be forgotten. Each share is tried in every set of as
//! many as are needed with those that were given before, also in an attempt that failed; as many
//! are kept as can be tried.

use crate::random;
use bulkhead_store::{Progress, SealConfig, SealKey, Share, ShareCollector};
use bulkhead_wire::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// Sets of shares that are tried for one that was given. What was given first makes room, so that
/// what is given now counts.
const MOST_SETS: usize = 128;
/// What finding the keys of all these sets may take: each takes the square of its shares. With more
/// than some fifty shares to a set, none is left to try others beside the right ones.
const MOST_EFFORT: usize = 1 << 17;

/// An attempt to unseal, as far as it came, and the shares of those before.
pub(super) struct Unsealing {
    /// Names the attempt, so that its shares are not mistaken for those of another.
    pub(super) nonce: String,
    config: SealConfig,
    /// Numbers of the shares of this attempt.
    numbers: BTreeSet<u8>,
    /// Every share that is tried with the next, the latest last.
    given: Vec<Share>,
}

impl Unsealing {
    /// An attempt without shares.
    ///
    /// # Errors
    /// 500 where the system gives no randomness.
    pub(super) fn new(config: SealConfig) -> Result<Self, Failure> {
        let (numbers, given) = (BTreeSet::new(), Vec::new());
        Ok(Self { nonce: random::uuid()?, config, numbers, given })
    }

    /// Shares of this attempt, of different numbers.
    pub(super) fn count(&self) -> u8 {
        u8::try_from(self.numbers.len()).unwrap_or(u8::MAX)
    }

    /// Whether as many came in as are needed.
    pub(super) fn is_complete(&self) -> bool {
        self.config.threshold == 1 || self.count() >= self.config.threshold
    }

    /// Adds a share. Returns the keys of all sets of shares that it completes, of which none need
    /// be right.
    ///
    /// # Errors
    /// 400 for what is no share of this seal; what came before stays.
    pub(super) fn add(&mut self, share: &Share) -> Result<Vec<SealKey>, Failure> {
        let refused = |why: String| Failure::invalid(why).recordable();
        let alone = ShareCollector::new(self.config).add(share.clone()).map_err(refused)?;
        let (Progress::More(_), Some(number)) = (&alone, share.number()) else {
            return Ok(alone.into_key().into_iter().collect());
        };
        self.given.retain(|known| !known.is_same(share));
        let keys = self.keys_with(share, number);
        self.numbers.insert(number);
        self.given.push(share.clone());
        while self.sets_of_next() > self.most_sets() {
            self.given.remove(0);
        }
        keys.map_err(refused)
    }

    /// Ends the attempt: its shares did not open the data. They stay for the sets of the next.
    ///
    /// # Errors
    /// As [`Unsealing::new`].
    pub(super) fn end_attempt(&mut self) -> Result<(), Failure> {
        self.numbers.clear();
        self.nonce = random::uuid()?;
        Ok(())
    }

    fn most_sets(&self) -> usize {
        let needed = usize::from(self.config.threshold);
        (MOST_EFFORT / needed.saturating_mul(needed).max(1)).clamp(1, MOST_SETS)
    }

    /// How many others a share needs.
    fn others_needed(&self) -> usize {
        usize::from(self.config.threshold).saturating_sub(1)
    }

    /// The keys of all sets of shares with this one.
    fn keys_with(&self, share: &Share, number: u8) -> Result<Vec<SealKey>, String> {
        let mut by_number: BTreeMap<u8, Vec<&Share>> = BTreeMap::new();
        for known in &self.given {
            let others = known.number().filter(|theirs| *theirs != number);
            others.into_iter().for_each(|theirs| by_number.entry(theirs).or_default().push(known));
        }
        let groups: Vec<Vec<&Share>> = by_number.into_values().collect();
        let mut sets = Vec::new();
        choose(&groups, self.others_needed(), &mut vec![share], &mut sets);
        sets.into_iter().filter_map(|set| self.key_of(&set).transpose()).collect()
    }

    fn key_of(&self, set: &[&Share]) -> Result<Option<SealKey>, String> {
        let mut collector = ShareCollector::new(self.config);
        let mut key = None;
        for share in set {
            key = collector.add((*share).clone())?.into_key();
        }
        Ok(key)
    }

    /// How many sets a share of a number that was not given yet completes: sets of others with
    /// different numbers.
    fn sets_of_next(&self) -> usize {
        let mut same = BTreeMap::<u8, usize>::new();
        for number in self.given.iter().filter_map(Share::number) {
            *same.entry(number).or_default() += 1;
        }
        // Of the numbers so far, how many sets there are of each size.
        let mut sets = vec![1_usize];
        for shares in same.into_values() {
            let with: Vec<usize> = sets.iter().map(|sets| sets.saturating_mul(shares)).collect();
            sets.push(0);
            for (sets, with) in sets.iter_mut().skip(1).zip(with) {
                *sets = sets.saturating_add(with);
            }
        }
        sets.get(self.others_needed()).copied().unwrap_or_default()
    }
}

/// Every way to add `more` shares of different numbers to those that were `chosen`.
fn choose<'a>(
    groups: &[Vec<&'a Share>],
    more: usize,
    chosen: &mut Vec<&'a Share>,
    sets: &mut Vec<Vec<&'a Share>>,
) {
    if more == 0 {
        sets.push(chosen.clone());
        return;
    }
    let Some((first, others)) = groups.split_first().filter(|_| groups.len() >= more) else {
        return;
    };
    for share in first {
        chosen.push(share);
        choose(others, more - 1, chosen, sets);
        chosen.pop();
    }
    choose(others, more, chosen, sets);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bogus(number: u8, filler: u8) -> Share {
        Share::parse(&format!("{}{number:02x}", format!("{filler:02x}").repeat(32))).unwrap()
    }

    /// The shares of a key, and the attempt to find it.
    fn split(shares: u64, threshold: u64) -> (SealKey, Vec<Share>, Unsealing) {
        let (config, key) =
            (SealConfig::new(shares, threshold).unwrap(), SealKey::generate().unwrap());
        let shares = bulkhead_store::split(&key, config).unwrap();
        (key, shares, Unsealing::new(config).unwrap())
    }

    fn finds(attempt: &mut Unsealing, share: &Share, key: &SealKey) -> bool {
        attempt.add(share).unwrap().iter().any(|found| found.share().is_same(&key.share()))
    }

    #[test]
    fn as_many_right_shares_as_are_needed_open_it_among_any_others() {
        for bogus_first in [true, false] {
            let (key, shares, mut attempt) = split(5, 3);
            let strangers = [bogus(5, 1), bogus(1, 2), bogus(4, 3)];
            assert!(!finds(&mut attempt, &shares[0], &key));
            if bogus_first {
                assert!(strangers.iter().all(|share| !finds(&mut attempt, share, &key)));
                attempt.end_attempt().unwrap();
            }
            assert!(!finds(&mut attempt, &shares[1], &key));
            assert!(strangers.iter().all(|share| !finds(&mut attempt, share, &key)));
            assert!(finds(&mut attempt, &shares[2], &key));
        }
    }

    #[test]
    fn shares_without_end_cost_no_more_than_a_bounded_number_of_sets() {
        for (shares, threshold) in [(255, 2), (255, 3), (255, 5), (255, 40), (255, 255), (9, 9)] {
            let (_, _, mut attempt) = split(shares, threshold);
            for round in 0..60_u32 {
                let number = u8::try_from(u64::from(round) % shares + 1).unwrap();
                let filler = u8::try_from(round % 251).unwrap();
                let keys = attempt.add(&bogus(number, filler)).unwrap().len();
                assert!(keys <= attempt.most_sets(), "{keys} of {threshold}");
            }
            let kept = attempt.given.len();
            assert!(kept >= attempt.others_needed().min(60), "{kept} of {threshold}");
        }
    }

    #[test]
    fn what_was_given_last_is_kept_beside_what_a_stranger_gave_before() {
        let (key, shares, mut attempt) = split(5, 3);
        for filler in 0..100 {
            attempt.add(&bogus(filler % 5 + 1, filler)).unwrap();
        }
        let opened = shares[..3].iter().filter(|share| finds(&mut attempt, share, &key)).count();
        assert_eq!(opened, 1);
    }

    #[test]
    fn a_share_counts_once_an_attempt() {
        let (_, shares, mut attempt) = split(5, 3);
        for _ in 0..3 {
            attempt.add(&shares[0]).unwrap();
            assert_eq!((attempt.count(), attempt.is_complete()), (1, false));
        }
        attempt.end_attempt().unwrap();
        assert_eq!(attempt.count(), 0);
        attempt.add(&shares[0]).unwrap();
        assert_eq!(attempt.count(), 1);
        assert!(attempt.add(&SealKey::generate().unwrap().share()).is_err(), "it has no number");
    }
}
