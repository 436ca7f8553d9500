//! How often callers without a token are answered.
//!
//! The attacks this file stops: tokens and shares that are guessed as fast as the server answers,
//! and an audit disk that is filled with the lines of refusals. A client has so many failed
//! look-ups, unseal attempts and questions to recorded open endpoints at once, and so many a second
//! after them; what is over is refused, unrecorded, and told in the log by its number. A token that
//! holds is never refused here, however often others ask from the same address.

use crate::log::Log;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::sync;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Answers that a client may have at once.
const BURST: u32 = 1_000;
/// After them one more each.
const ONE_MORE_AFTER: Duration = Duration::from_millis(20);
/// When what was refused is worth another try, in milliseconds.
const RETRY_AFTER: u64 = 1_000;
/// Clients that are remembered. Those that come when so many are on have one share together.
const CLIENTS_MAX: usize = 10_000;
/// How often clients are looked through for those that need not be remembered.
const SWEPT_EVERY: Duration = Duration::from_secs(1);
/// How often the log tells of refusals.
const TOLD_EVERY: Duration = Duration::from_mins(1);

/// How often each client was answered of late.
#[derive(Default)]
pub(crate) struct Strangers(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    /// When each client would have all its answers again.
    full_at: HashMap<Client, Instant>,
    /// Refused since the log was told.
    refused: u64,
    told: Option<Instant>,
    /// When the clients that have all their answers were forgotten.
    swept: Option<Instant>,
}

impl Strangers {
    /// Takes one of the answers of `remote`'s client.
    ///
    /// # Errors
    /// 429 when it has had them, with when to try again.
    pub(crate) fn admit(&self, remote: IpAddr, log: &dyn Log) -> Result<(), Failure> {
        self.admit_at(remote, Instant::now(), log)
    }

    /// Gives `remote`'s client the answer back that it had last: it proved who it is.
    pub(crate) fn give_back(&self, remote: IpAddr) {
        let mut counted = sync::lock(&self.0);
        if let Some(full_at) = counted.full_at.get_mut(&Client::of(remote)) {
            *full_at = full_at.checked_sub(ONE_MORE_AFTER).unwrap_or(*full_at);
        }
    }

    fn admit_at(&self, remote: IpAddr, now: Instant, log: &dyn Log) -> Result<(), Failure> {
        let mut counted = sync::lock(&self.0);
        if counted.take(Client::of(remote), now) {
            return Ok(());
        }
        counted.refused += 1;
        if counted.told.is_none_or(|told| now >= told + TOLD_EVERY) {
            let pairs = [("remote", remote.to_string()), ("refused", counted.refused.to_string())];
            log.line("warn", "strangers-refused", &pairs);
            (counted.refused, counted.told) = (0, Some(now));
        }
        let message = "your address had too many requests without a token that holds; send this \
                       one again later";
        Err(Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(Kind::RateLimited, message) })
    }
}

impl Counted {
    fn take(&mut self, client: Client, now: Instant) -> bool {
        if self.full_at.len() >= CLIENTS_MAX
            && self.swept.is_none_or(|swept| now >= swept + SWEPT_EVERY)
        {
            self.full_at.retain(|_, full_at| *full_at > now);
            self.swept = Some(now);
        }
        let is_known = self.full_at.len() < CLIENTS_MAX || self.full_at.contains_key(&client);
        let key = if is_known { client } else { Client::OTHERS };
        let full_at = self.full_at.entry(key).or_insert(now);
        let next = (*full_at).max(now) + ONE_MORE_AFTER;
        let may = next <= now + ONE_MORE_AFTER * BURST;
        if may {
            *full_at = next;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl Log for Lines {
        fn line(&self, _: &str, event: &str, pairs: &[(&str, String)]) {
            sync::lock(&self.0).push(format!("{event} {pairs:?}"));
        }
    }

    #[test]
    fn a_client_has_its_answers_at_once_then_some_a_second_and_others_have_theirs() {
        let (strangers, log, now) = (Strangers::default(), Lines::default(), Instant::now());
        let admit = |remote: &str, now| strangers.admit_at(remote.parse().unwrap(), now, &log);
        for _ in 0..BURST {
            assert_eq!(admit("2001:db8::1", now), Ok(()));
        }
        let refused = admit("2001:db8::ffff:2", now).unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (Kind::RateLimited, Some(1_000)));
        assert_eq!(admit("2001:db8:0:1::1", now), Ok(()));
        assert_eq!(admit("192.0.2.1", now), Ok(()));
        let later = now + Duration::from_secs(1);
        let answered = (0..BURST).filter(|_| admit("2001:db8::1", later).is_ok()).count();
        assert_eq!(answered, 50);
        assert_eq!(sync::lock(&log.0).len(), 1, "one line a minute");
        assert!(admit("2001:db8::1", now + TOLD_EVERY + TOLD_EVERY).is_ok());
    }

    #[test]
    fn who_proves_who_it_is_has_its_answers_again() {
        let (strangers, log, now) = (Strangers::default(), Lines::default(), Instant::now());
        let remote = IpAddr::from([192, 0, 2, 1]);
        for _ in 0..10 * BURST {
            strangers.admit_at(remote, now, &log).unwrap();
            strangers.give_back(remote);
        }
        let answered = (0..2 * BURST).filter(|_| strangers.admit_at(remote, now, &log).is_ok());
        assert_eq!(answered.count(), usize::try_from(BURST).unwrap(), "and no more than it had");
    }

    #[test]
    fn a_flood_of_addresses_takes_no_more_memory_and_has_one_share() {
        let (strangers, log, now) = (Strangers::default(), Lines::default(), Instant::now());
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        let count = u32::try_from(CLIENTS_MAX).unwrap();
        for number in 0..count {
            strangers.admit_at(address(number), now, &log).unwrap();
        }
        let others = (0..2 * BURST).map(|number| address(count + number));
        let answered = others.filter(|one| strangers.admit_at(*one, now, &log).is_ok()).count();
        assert_eq!(answered, usize::try_from(BURST).unwrap());
        assert!(strangers.admit_at(address(0), now, &log).is_ok(), "it is known");
        assert!(sync::lock(&strangers.0).full_at.len() <= CLIENTS_MAX + 1);
        let later = now + ONE_MORE_AFTER * (BURST + 1);
        strangers.admit_at(address(count), later, &log).unwrap();
        assert_eq!(sync::lock(&strangers.0).full_at.len(), 1, "those that are full are forgotten");
    }
}
