//! Rate limit for callers without a valid token.
//!
//! Prevents guessing tokens and unseal shares at full server speed, and filling the audit disk with
//! refusals. Failed token look-ups, unseal attempts and requests to audited open endpoints share a
//! budget per client: a burst, then a fixed rate. Requests over the limit are refused and not
//! audited; the log tells their number. A valid token is never refused here, even if other callers
//! at the same address exceed the limit.
//!
//! A refusal is delayed. Without the delay a refusal is so cheap that a client in a retry loop
//! would take the processors and delay every other client.

use crate::client_buckets::ClientBuckets;
use crate::log::Log;
use crate::random;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Maximum number of requests that a client may make at once.
const BURST: u32 = 1_000;
/// Time after which the budget grows by 1 request.
const ONE_MORE_AFTER: Duration = Duration::from_millis(20);
/// Retry-after value of a refusal, in milliseconds.
const RETRY_AFTER: u64 = 1_000;
/// Minimum delay of a refusal, and maximum random extra delay. The random part spreads the retries
/// of clients that were refused together.
const PAUSE: Duration = Duration::from_millis(500);
const MORE_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of delayed refusals. Each delayed refusal holds a connection; further refusals
/// are sent at once.
const PAUSED_MAX: usize = 256;
/// Minimum interval between log lines about refusals.
const TOLD_EVERY: Duration = Duration::from_mins(1);

/// Budgets of all clients without a valid token.
pub struct Strangers {
    counted: Mutex<Counted>,
    pauses: Semaphore,
}

impl Default for Strangers {
    fn default() -> Self {
        Self { counted: Mutex::default(), pauses: Semaphore::new(PAUSED_MAX) }
    }
}

#[derive(Default)]
struct Counted {
    buckets: ClientBuckets,
    /// Number of refusals since the last log line.
    refused: u64,
    told: Option<Instant>,
}

impl Strangers {
    /// Takes a request from the budget of `remote`'s client.
    ///
    /// # Errors
    /// 429 with a retry-after value, after a delay, if the budget is empty.
    pub async fn admit(&self, remote: IpAddr, log: &dyn Log) -> Result<(), Failure> {
        self.after_a_pause(self.admit_at(remote, Instant::now(), log)).await
    }

    /// Checks that `remote`'s client has budget left, without taking a request.
    ///
    /// # Errors
    /// 429 with a retry-after value, after a delay, if the budget is empty.
    pub async fn check(&self, remote: IpAddr, log: &dyn Log) -> Result<(), Failure> {
        self.after_a_pause(self.check_at(remote, Instant::now(), log)).await
    }

    async fn after_a_pause(&self, admitted: Result<(), Failure>) -> Result<(), Failure> {
        if admitted.is_err()
            && let Ok(_paused) = self.pauses.try_acquire()
        {
            tokio::time::sleep(pause()).await;
        }
        admitted
    }

    /// Returns the last request to the budget of `remote`'s client, because the client
    /// authenticated.
    pub fn give_back(&self, remote: IpAddr) {
        sync::lock(&self.counted).buckets.give_back(Client::of(remote), ONE_MORE_AFTER);
    }

    fn admit_at(&self, remote: IpAddr, now: Instant, log: &dyn Log) -> Result<(), Failure> {
        let mut counted = sync::lock(&self.counted);
        let next = counted.after_one_more(remote, now, log)?;
        *counted.buckets.full_at(Client::of(remote), now) = next;
        Ok(())
    }

    fn check_at(&self, remote: IpAddr, now: Instant, log: &dyn Log) -> Result<(), Failure> {
        sync::lock(&self.counted).after_one_more(remote, now, log).map(drop)
    }
}

/// Returns the delay of a refusal.
fn pause() -> Duration {
    let share = random::bytes::<1>().map_or(0, |drawn| drawn.first().copied().unwrap_or_default());
    PAUSE + MORE_PAUSE * u32::from(share) / u32::from(u8::MAX)
}

impl Counted {
    /// Returns the time at which the budget of `remote`'s client would be full again after another
    /// request. The request is not taken.
    ///
    /// # Errors
    /// 429 if the budget is empty.
    fn after_one_more(
        &mut self,
        remote: IpAddr,
        now: Instant,
        log: &dyn Log,
    ) -> Result<Instant, Failure> {
        let next = (*self.buckets.full_at(Client::of(remote), now)).max(now) + ONE_MORE_AFTER;
        if next <= now + ONE_MORE_AFTER * BURST {
            return Ok(next);
        }
        Err(self.refuse(remote, now, log))
    }

    /// Counts a refusal and writes a log line from time to time.
    fn refuse(&mut self, remote: IpAddr, now: Instant, log: &dyn Log) -> Failure {
        self.refused += 1;
        if self.told.is_none_or(|told| now >= told + TOLD_EVERY) {
            let pairs = [("remote", remote.to_string()), ("refused", self.refused.to_string())];
            log.line("warn", "strangers-refused", &pairs);
            (self.refused, self.told) = (0, Some(now));
        }
        let message = "your address had too many requests without a token that holds; send this \
                       one again later";
        Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(Kind::RateLimited, message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_buckets::CLIENTS_MAX;
    use std::sync::Arc;

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

    #[tokio::test]
    async fn a_refusal_comes_after_a_pause_and_only_so_many_wait() {
        let (strangers, log) = (Arc::new(Strangers::default()), Lines::default());
        let remote = IpAddr::from([192, 0, 2, 1]);
        let long_after = Instant::now() + Duration::from_mins(1);
        while strangers.admit_at(remote, long_after, &log).is_ok() {}
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..PAUSED_MAX {
            let strangers = Arc::clone(&strangers);
            waiting.spawn(async move {
                let asked = Instant::now();
                assert!(strangers.admit(remote, &Lines::default()).await.is_err());
                asked.elapsed()
            });
        }
        while strangers.pauses.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(strangers.admit(remote, &log).await.is_err());
        assert_eq!(strangers.pauses.available_permits(), 0, "the one beyond did not wait");
        assert!(waiting.join_all().await.into_iter().all(|waited| waited >= PAUSE));
        let drawn: std::collections::BTreeSet<_> = (0..100).map(|_| pause()).collect();
        assert!(drawn.len() > 10 && drawn.iter().all(|one| *one <= PAUSE + MORE_PAUSE));
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
        assert!(sync::lock(&strangers.counted).buckets.len() <= CLIENTS_MAX + 1);
        let later = now + ONE_MORE_AFTER * (BURST + 1);
        strangers.admit_at(address(count), later, &log).unwrap();
        assert_eq!(
            sync::lock(&strangers.counted).buckets.len(),
            1,
            "those that are full are forgotten"
        );
    }
}
