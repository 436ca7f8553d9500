//! Rate limit for callers without a valid token.
//!
//! This file prevents guessing tokens and unseal shares at full server speed, and filling the audit
//! disk with refusals. Failed token look-ups, unseal attempts and requests to audited open
//! endpoints share a budget per client: a burst, then a fixed rate. Requests over the limit are
//! refused and not audited; the log tells their number. A valid token is never refused here, even
//! if other callers at the same address exceed the limit.
//!
//! A refusal is delayed. Without the delay a refusal is so cheap that a client in a retry loop
//! would take the processors and delay every other client.

use crate::client_buckets::ClientBuckets;
use crate::log::Log;
use crate::random;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Maximum number of requests that a client may make at once.
const BURST_REQUESTS: u32 = 1_000;
/// Time after which the budget grows by 1 request.
const REFILL_INTERVAL: Duration = Duration::from_millis(20);
/// Retry-after value of a refusal, in milliseconds.
const RETRY_AFTER: u64 = 1_000;
/// Minimum delay of a refusal, and maximum random extra delay. The random part spreads the retries
/// of clients that were refused together.
const REFUSAL_DELAY: Duration = Duration::from_millis(500);
const REFUSAL_DELAY_SPREAD: Duration = Duration::from_millis(500);
/// Maximum number of delayed refusals. Each delayed refusal holds a connection; further refusals
/// are sent at once.
const MAX_DELAYED_REFUSALS: usize = 256;
/// Minimum interval between log lines about refusals.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Budgets of all clients without a valid token.
pub struct UnauthenticatedLimiter {
    state: Mutex<LimiterState>,
    pauses: Semaphore,
    /// Number of refusals since the start of the process.
    refusals: AtomicU64,
}

impl Default for UnauthenticatedLimiter {
    fn default() -> Self {
        let pauses = Semaphore::new(MAX_DELAYED_REFUSALS);
        Self { state: Mutex::default(), pauses, refusals: AtomicU64::new(0) }
    }
}

#[derive(Default)]
struct LimiterState {
    buckets: ClientBuckets,
    /// Number of refusals since the last log line.
    refused: u64,
    last_logged: Option<Instant>,
}

impl UnauthenticatedLimiter {
    /// Takes a request from the budget of `remote`'s client.
    ///
    /// # Errors
    /// 429 with a retry-after value, after a delay, if the budget is empty.
    pub async fn admit(&self, remote: IpAddr, log: &dyn Log) -> Result<(), Failure> {
        self.delay_refusal(self.admit_at(remote, Instant::now(), log)).await
    }

    /// Checks that `remote`'s client has budget left, without taking a request.
    ///
    /// # Errors
    /// 429 with a retry-after value, after a delay, if the budget is empty.
    pub async fn check(&self, remote: IpAddr, log: &dyn Log) -> Result<(), Failure> {
        self.delay_refusal(self.check_at(remote, Instant::now(), log)).await
    }

    async fn delay_refusal(&self, admitted: Result<(), Failure>) -> Result<(), Failure> {
        if admitted.is_err() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            if let Ok(_paused) = self.pauses.try_acquire() {
                tokio::time::sleep(draw_delay()).await;
            }
        }
        admitted
    }

    /// Returns the number of refusals since the start of the process.
    pub fn count_refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Returns the last request to the budget of `remote`'s client, because the client
    /// authenticated.
    pub fn give_back(&self, remote: IpAddr) {
        sync::lock(&self.state).buckets.give_back(Client::of(remote), REFILL_INTERVAL);
    }

    fn admit_at(&self, remote: IpAddr, now: Instant, log: &dyn Log) -> Result<(), Failure> {
        let mut counted = sync::lock(&self.state);
        let next = counted.next_full_time(remote, now, log)?;
        *counted.buckets.full_at(Client::of(remote), now) = next;
        Ok(())
    }

    fn check_at(&self, remote: IpAddr, now: Instant, log: &dyn Log) -> Result<(), Failure> {
        sync::lock(&self.state).next_full_time(remote, now, log).map(drop)
    }
}

/// Returns the delay of a refusal.
fn draw_delay() -> Duration {
    let share = random::bytes::<1>().map_or(0, |drawn| drawn.first().copied().unwrap_or_default());
    REFUSAL_DELAY + REFUSAL_DELAY_SPREAD * u32::from(share) / u32::from(u8::MAX)
}

impl LimiterState {
    /// Returns the time at which the budget of `remote`'s client would be full again after another
    /// request. The request is not taken.
    ///
    /// # Errors
    /// 429 if the budget is empty.
    fn next_full_time(
        &mut self,
        remote: IpAddr,
        now: Instant,
        log: &dyn Log,
    ) -> Result<Instant, Failure> {
        let next = (*self.buckets.full_at(Client::of(remote), now)).max(now) + REFILL_INTERVAL;
        if next <= now + REFILL_INTERVAL * BURST_REQUESTS {
            return Ok(next);
        }
        Err(self.refuse(remote, now, log))
    }

    /// Counts a refusal and writes a log line from time to time.
    fn refuse(&mut self, remote: IpAddr, now: Instant, log: &dyn Log) -> Failure {
        self.refused += 1;
        if self.last_logged.is_none_or(|logged_at| now >= logged_at + LOG_INTERVAL) {
            let pairs = [("remote", remote.to_string()), ("refused", self.refused.to_string())];
            log.line(LogLevel::Warn, "unauthenticated-requests-refused", &pairs);
            (self.refused, self.last_logged) = (0, Some(now));
        }
        let message = "your address sent too many requests without a valid token; try again later";
        Failure {
            retry_after: Some(RETRY_AFTER),
            ..Failure::new(FailureKind::RateLimited, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_buckets::CLIENTS_MAX;
    use std::sync::Arc;

    #[derive(Default)]
    struct RecordingLog(Mutex<Vec<String>>);

    impl Log for RecordingLog {
        fn line(&self, _: LogLevel, event: &str, pairs: &[(&str, String)]) {
            sync::lock(&self.0).push(format!("{event} {pairs:?}"));
        }
    }

    #[test]
    fn each_client_has_own_budget_refilling_per_second() {
        let (limiter, log, now) =
            (UnauthenticatedLimiter::default(), RecordingLog::default(), Instant::now());
        let admit = |remote: &str, now| limiter.admit_at(remote.parse().unwrap(), now, &log);
        for _ in 0..BURST_REQUESTS {
            assert_eq!(admit("2001:db8::1", now), Ok(()));
        }
        let refused = admit("2001:db8::ffff:2", now).unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (FailureKind::RateLimited, Some(1_000)));
        assert_eq!(admit("2001:db8:0:1::1", now), Ok(()));
        assert_eq!(admit("192.0.2.1", now), Ok(()));
        let later = now + Duration::from_secs(1);
        let answered = (0..BURST_REQUESTS).filter(|_| admit("2001:db8::1", later).is_ok()).count();
        assert_eq!(answered, 50);
        assert_eq!(sync::lock(&log.0).len(), 1, "one log line a minute");
        assert!(admit("2001:db8::1", now + LOG_INTERVAL + LOG_INTERVAL).is_ok());
    }

    #[tokio::test]
    async fn refusal_is_delayed_and_delayed_refusals_are_bounded() {
        let (limiter, log) = (Arc::new(UnauthenticatedLimiter::default()), RecordingLog::default());
        let remote = IpAddr::from([192, 0, 2, 1]);
        let long_after = Instant::now() + Duration::from_mins(1);
        while limiter.admit_at(remote, long_after, &log).is_ok() {}
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..MAX_DELAYED_REFUSALS {
            let limiter = Arc::clone(&limiter);
            waiting.spawn(async move {
                let start = Instant::now();
                assert!(limiter.admit(remote, &RecordingLog::default()).await.is_err());
                start.elapsed()
            });
        }
        while limiter.pauses.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(limiter.admit(remote, &log).await.is_err());
        assert_eq!(limiter.pauses.available_permits(), 0, "the one beyond did not wait");
        assert_eq!(limiter.count_refusals(), MAX_DELAYED_REFUSALS as u64 + 1);
        assert!(waiting.join_all().await.into_iter().all(|waited| waited >= REFUSAL_DELAY));
        let drawn: std::collections::BTreeSet<_> = (0..100).map(|_| draw_delay()).collect();
        assert!(
            drawn.len() > 10
                && drawn.iter().all(|one| *one <= REFUSAL_DELAY + REFUSAL_DELAY_SPREAD)
        );
    }

    #[test]
    fn successful_login_returns_answer_to_budget() {
        let (limiter, log, now) =
            (UnauthenticatedLimiter::default(), RecordingLog::default(), Instant::now());
        let remote = IpAddr::from([192, 0, 2, 1]);
        for _ in 0..10 * BURST_REQUESTS {
            limiter.admit_at(remote, now, &log).unwrap();
            limiter.give_back(remote);
        }
        let answered =
            (0..2 * BURST_REQUESTS).filter(|_| limiter.admit_at(remote, now, &log).is_ok());
        assert_eq!(
            answered.count(),
            usize::try_from(BURST_REQUESTS).unwrap(),
            "the budget never grows above its maximum"
        );
    }

    #[test]
    fn address_flood_shares_one_budget_in_bounded_memory() {
        let (limiter, log, now) =
            (UnauthenticatedLimiter::default(), RecordingLog::default(), Instant::now());
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        let count = u32::try_from(CLIENTS_MAX).unwrap();
        for number in 0..count {
            limiter.admit_at(address(number), now, &log).unwrap();
        }
        let others = (0..2 * BURST_REQUESTS).map(|number| address(count + number));
        let answered = others.filter(|one| limiter.admit_at(*one, now, &log).is_ok()).count();
        assert_eq!(answered, usize::try_from(BURST_REQUESTS).unwrap());
        assert!(
            limiter.admit_at(address(0), now, &log).is_ok(),
            "a known client keeps its own budget"
        );
        assert!(sync::lock(&limiter.state).buckets.len() <= CLIENTS_MAX + 1);
        let later = now + REFILL_INTERVAL * (BURST_REQUESTS + 1);
        limiter.admit_at(address(count), later, &log).unwrap();
        assert_eq!(
            sync::lock(&limiter.state).buckets.len(),
            1,
            "clients with a full budget are removed"
        );
    }
}
