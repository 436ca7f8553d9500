//! Shares of the unseal key, kept by client.
//!
//! This file prevents bogus shares from blocking right shares, filling the threshold, or pushing
//! the shares of other clients out of memory; and prevents a reset from erasing the operators'
//! shares. Each new share is combined with the earlier shares, also after a failed attempt. No
//! client can end the attempt of another client, evict its shares or reset its shares.
//!
//! Key holders give their shares from different addresses. So each share is combined with three
//! pools: the shares of the same client, which no other client can crowd out; the latest shares of
//! every client, taken client by client; and, if there are too many, a random choice of clients. A
//! crowd of addresses makes unsealing from several addresses take more attempts, but cannot prevent
//! success.

use crate::random;
use bulkhead_store::{KeyShare, SealConfig, SealKey, ShareCollector, ShareProgress};
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of sets of shares tried for a new share, in each pool.
const MAX_SETS: usize = 64;
/// Maximum work on all sets of a pool: a set costs the square of its number of shares. Above a
/// threshold of 128 only a single set is tried, so every share must be right.
const MAX_SET_WORK: usize = 1 << 15;
/// Maximum number of clients with kept shares. The client that has been silent longest is removed
/// first.
const MAX_GIVERS: usize = 256;

/// The attempts of all clients, and the shares of earlier attempts.
pub struct Quorum {
    /// Identifies the shares in progress, so that clients can distinguish two attempts.
    pub nonce: String,
    config: SealConfig,
    /// Clients in order of their latest share, the latest last.
    givers: Vec<ShareGiver>,
}

/// A client and its shares.
struct ShareGiver {
    client: Client,
    /// Numbers of the shares in the current attempt.
    numbers: BTreeSet<u8>,
    /// Shares to combine with the next share, the latest last.
    given: Vec<KeyShare>,
}

impl Quorum {
    /// Returns an attempt without shares.
    ///
    /// # Errors
    /// 500 if the machine's random generator fails.
    pub fn new(config: SealConfig) -> Result<Self, Failure> {
        Ok(Self { nonce: random::uuid()?, config, givers: Vec::new() })
    }

    /// Returns the number of different share numbers in progress, but always fewer than the
    /// threshold: clients take a full threshold for an open server.
    pub fn progress(&self) -> u8 {
        let most = self.config.threshold.saturating_sub(1);
        u8::try_from(self.share_numbers().len()).unwrap_or(u8::MAX).min(most)
    }

    /// Returns true if enough shares are in progress, so that at least one share is wrong.
    pub fn has_wrong_share(&self) -> bool {
        self.share_numbers().len() >= usize::from(self.config.threshold)
    }

    fn share_numbers(&self) -> BTreeSet<u8> {
        self.givers.iter().flat_map(|giver| giver.numbers.iter().copied()).collect()
    }

    /// Returns true if `client` alone gave enough shares.
    fn is_complete(&self, client: Client) -> bool {
        let needed = usize::from(self.config.threshold);
        needed == 1 || self.giver(client).is_some_and(|giver| giver.numbers.len() >= needed)
    }

    fn giver(&self, client: Client) -> Option<&ShareGiver> {
        self.givers.iter().find(|giver| giver.client == client)
    }

    /// Adds a share of `client`. Returns the key of every set that the new share completes. None of
    /// the keys need be right.
    ///
    /// # Errors
    /// 400 for a share that does not fit this seal; the earlier shares stay. 500 if the machine's
    /// random generator fails.
    pub fn add(&mut self, client: Client, share: &KeyShare) -> Result<Vec<SealKey>, Failure> {
        let refused = |why: String| Failure::invalid(why).recordable();
        let alone = ShareCollector::new(self.config).add(share.clone()).map_err(refused)?;
        let (ShareProgress::More(_), Some(number)) = (&alone, share.number()) else {
            return Ok(alone.into_key().into_iter().collect());
        };
        let mut giver = self.take_giver(client);
        giver.given.retain(|other| !other.is_same(share));
        self.givers.push(giver);
        let mut keys = Vec::new();
        for pool in self.pools(number)? {
            keys.extend(self.keys_with(share, &pool).map_err(refused)?);
        }
        if let Some(giver) = self.givers.last_mut() {
            giver.add(share.clone(), number, self.config);
        }
        Ok(keys)
    }

    /// Removes the client and returns its shares; a new client has none.
    fn take_giver(&mut self, client: Client) -> ShareGiver {
        if let Some(index) = self.givers.iter().position(|giver| giver.client == client) {
            return self.givers.remove(index);
        }
        if self.givers.len() >= MAX_GIVERS {
            self.givers.remove(0);
        }
        ShareGiver { client, numbers: BTreeSet::new(), given: Vec::new() }
    }

    /// Ends the attempt of `client` if the client gave enough shares, because none of their sets
    /// was the key. The shares stay for the sets of the next attempt.
    ///
    /// # Errors
    /// 400 if the attempt is over; else as [`Quorum::new`].
    pub fn end_if_complete(&mut self, client: Client) -> Result<(), Failure> {
        if !self.is_complete(client) {
            return Ok(());
        }
        self.end_attempt(client)?;
        Err(wrong_shares())
    }

    fn end_attempt(&mut self, client: Client) -> Result<(), Failure> {
        let giver = self.givers.iter_mut().find(|giver| giver.client == client);
        giver.into_iter().for_each(|giver| giver.numbers.clear());
        self.rename_when_empty()
    }

    /// Forgets the shares of `client`. Returns how many shares were in progress.
    ///
    /// # Errors
    /// As [`Quorum::new`].
    pub fn forget(&mut self, client: Client) -> Result<usize, Failure> {
        let forgotten = self.giver(client).map_or(0, |giver| giver.numbers.len());
        self.givers.retain(|giver| giver.client != client);
        self.rename_when_empty()?;
        Ok(forgotten)
    }

    fn rename_when_empty(&mut self) -> Result<(), Failure> {
        if self.share_numbers().is_empty() {
            self.nonce = random::uuid()?;
        }
        Ok(())
    }

    /// Returns the pools to combine with a new share of the latest client, with this number.
    fn pools(&self, number: u8) -> Result<Vec<Vec<&KeyShare>>, Failure> {
        let latest_first: Vec<&ShareGiver> = self.givers.iter().rev().collect();
        let (recent, is_whole) = self.pool(&latest_first, number);
        if is_whole {
            return Ok(vec![recent]);
        }
        let (own, _) = self.pool(latest_first.get(..1).unwrap_or_default(), number);
        let drawn = random::bytes::<MAX_GIVERS>()?;
        let mut shuffled: Vec<(&u8, &ShareGiver)> = drawn.iter().zip(latest_first).collect();
        shuffled.sort_by_key(|(drawn, _)| **drawn);
        let shuffled: Vec<&ShareGiver> = shuffled.into_iter().map(|(_, giver)| giver).collect();
        let (random, _) = self.pool(&shuffled, number);
        Ok(vec![own, recent, random])
    }

    /// Collects shares of these clients: the latest share of each client, then the second latest,
    /// until a share of this number would complete too many sets. The flag is true if no share was
    /// left out.
    fn pool<'a>(&self, givers: &[&'a ShareGiver], number: u8) -> (Vec<&'a KeyShare>, bool) {
        let depth = givers.iter().map(|giver| giver.given.len()).max().unwrap_or_default();
        let layers = (0..depth)
            .flat_map(|layer| givers.iter().filter_map(move |it| it.given.iter().rev().nth(layer)));
        let mut pool = Vec::new();
        for share in layers.filter(|share| share.number() != Some(number)) {
            pool.push(share);
            if number_of_sets(&pool, self.config) > most_sets(self.config) {
                pool.pop();
                return (pool, false);
            }
        }
        (pool, true)
    }

    /// Returns the keys of all sets that this share completes in the pool.
    fn keys_with(&self, share: &KeyShare, pool: &[&KeyShare]) -> Result<Vec<SealKey>, String> {
        let mut by_number: BTreeMap<u8, Vec<&KeyShare>> = BTreeMap::new();
        for candidate in pool {
            let number = candidate.number();
            number.into_iter().for_each(|it| by_number.entry(it).or_default().push(candidate));
        }
        let groups: Vec<Vec<&KeyShare>> = by_number.into_values().collect();
        let mut sets = Vec::new();
        choose(&groups, others_needed(self.config), &mut vec![share], &mut sets);
        sets.into_iter().filter_map(|set| self.key_of(&set).transpose()).collect()
    }

    fn key_of(&self, set: &[&KeyShare]) -> Result<Option<SealKey>, String> {
        let mut collector = ShareCollector::new(self.config);
        let mut key = None;
        for share in set {
            key = collector.add((*share).clone())?.into_key();
        }
        Ok(key)
    }
}

impl ShareGiver {
    /// Keeps a share for later sets. The oldest shares make room if the sets would be too many.
    fn add(&mut self, share: KeyShare, number: u8, config: SealConfig) {
        self.numbers.insert(number);
        self.given.push(share);
        while number_of_sets(&self.given.iter().collect::<Vec<_>>(), config) > most_sets(config) {
            self.given.remove(0);
        }
    }
}

fn wrong_shares() -> Failure {
    Failure::invalid(
        "the shares do not open this data: at least one is wrong or of another cluster; the \
         attempt is over, give other shares, or begin again with the first",
    )
}

fn most_sets(config: SealConfig) -> usize {
    let needed = usize::from(config.threshold);
    (MAX_SET_WORK / needed.saturating_mul(needed).max(1)).clamp(1, MAX_SETS)
}

/// Returns the number of other shares needed for a complete set.
fn others_needed(config: SealConfig) -> usize {
    usize::from(config.threshold).saturating_sub(1)
}

/// Returns the number of sets of `pool` with different share numbers that another share would
/// complete.
fn number_of_sets(pool: &[&KeyShare], config: SealConfig) -> usize {
    let others = others_needed(config);
    if pool.len() <= others {
        return usize::from(pool.len() == others);
    }
    let mut same = BTreeMap::<u8, usize>::new();
    for number in pool.iter().filter_map(|share| share.number()) {
        *same.entry(number).or_default() += 1;
    }
    // Number of sets of each size, among the share numbers so far.
    let mut sets = vec![1_usize];
    for shares in same.into_values() {
        let with: Vec<usize> = sets.iter().map(|sets| sets.saturating_mul(shares)).collect();
        sets.push(0);
        for (sets, with) in sets.iter_mut().skip(1).zip(with) {
            *sets = sets.saturating_add(with);
        }
    }
    sets.get(others).copied().unwrap_or_default()
}

/// Adds to `sets` every way to complete `chosen` with `more` shares of different numbers.
fn choose<'a>(
    groups: &[Vec<&'a KeyShare>],
    more: usize,
    chosen: &mut Vec<&'a KeyShare>,
    sets: &mut Vec<Vec<&'a KeyShare>>,
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
mod tests;
