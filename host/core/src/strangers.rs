//! How often callers without a token are answered.
//!
//! The attacks this file stops: tokens and shares that are guessed as fast as the server answers,
//! and an audit disk that is filled with the lines of refusals. A client has so many failed
//! look-ups, unseal attempts and questions to recorded open endpoints at once, and so many a second
//! after them; what is over is refused, unrecorded, and told in the log by its number. A token that
//! holds is never refused here, however often others ask from the same address.
//!
//! A refusal comes after a pause: it costs next to nothing to make, so that who asks again at once
//! would otherwise have the processors to itself, and every other client would stand in its line.

use crate::log::Log;
use crate::random;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::sync;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Answers that a client may have at once.
const BURST: u32 = 1_000;
/// After them one more each.
const ONE_MORE_AFTER: Duration = Duration::from_millis(20);
/// When what was refused is worth another try, in milliseconds.
const RETRY_AFTER: u64 = 1_000;
/// How long a refusal waits at least, and by how much more at most: those that come together do not
/// come together again.
const PAUSE: Duration = Duration::from_millis(500);
const MORE_PAUSE: Duration = Duration::from_millis(500);
/// Refusals that wait at a time. Each holds a connection; those beyond are told at once.
const PAUSED_MAX: usize = 256;
/// Clients that are remembered. Those that come when so many are on have one share together.
const CLIENTS_MAX: usize = 10_000;
/// How often clients are looked through for those that need not be remembered.
const SWEPT_EVERY: Duration = Duration::from_secs(1);
/// How often the log tells of refusals.
const TOLD_EVERY: Duration = Duration::from_mins(1);

/// How often each client was answered of late.
pub(crate) struct Strangers {
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
    /// 429 when it has had them, after a pause, with when to try again.
    pub(crate) async fn admit(&self, remote: IpAddr, log: &dyn Log) -> Result<(), Failure> {
        self.after_a_pause(self.admit_at(remote, Instant::now(), log)).await
    }

    /// Whether `remote`'s client has an answer left. None is taken.
    ///
    /// # Errors
    /// 429 when it has none, after a pause, with when to try again.
    pub(crate) async fn check(&self, remote: IpAddr, log: &dyn Log) -> Result<(), Failure> {
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

    /// Gives `remote`'s client the answer back that it had last: it proved who it is.
    pub(crate) fn give_back(&self, remote: IpAddr) {
        let mut counted = sync::lock(&self.counted);
        if let Some(full_at) = counted.full_at.get_mut(&Client::of(remote)) {
            *full_at = full_at.checked_sub(ONE_MORE_AFTER).unwrap_or(*full_at);
        }
    }

    fn admit_at(&self, remote: IpAddr, now: Instant, log: &dyn Log) -> Result<(), Failure> {
        let mut counted = sync::lock(&self.counted);
        let next = counted.after_one_more(remote, now, log)?;
        *counted.full_at(Client::of(remote), now) = next;
        Ok(())
    }

    fn check_at(&self, remote: IpAddr, now: Instant, log: &dyn Log) -> Result<(), Failure> {
        sync::lock(&self.counted).after_one_more(remote, now, log).map(drop)
    }
}

/// How long one refusal waits.
fn pause() -> Duration {
    let share = random::bytes::<1>().map_or(0, |drawn| drawn.first().copied().unwrap_or_default());
    PAUSE + MORE_PAUSE * u32::from(share) / u32::from(u8::MAX)
}

impl Counted {
    /// When the client would have all its answers again.
    fn full_at(&mut self, client: Client, now: Instant) -> &mut Instant {
        if self.full_at.len() >= CLIENTS_MAX
            && self.swept.is_none_or(|swept| now >= swept + SWEPT_EVERY)
        {
            self.full_at.retain(|_, full_at| *full_at > now);
            self.swept = Some(now);
        }
        let is_known = self.full_at.len() < CLIENTS_MAX || self.full_at.contains_key(&client);
        let key = if is_known { client } else { Client::OTHERS };
        self.full_at.entry(key).or_insert(now)
    }

    /// When `remote`'s client would have all its answers again after one more, which is not taken.
    ///
    /// # Errors
    /// 429 when it has none left.
    fn after_one_more(
        &mut self,
        remote: IpAddr,
        now: Instant,
        log: &dyn Log,
    ) -> Result<Instant, Failure> {
        let next = (*self.full_at(Client::of(remote), now)).max(now) + ONE_MORE_AFTER;
        if next <= now + ONE_MORE_AFTER * BURST {
            return Ok(next);
        }
        Err(self.refuse(remote, now, log))
    }

    /// Counts a refusal, of which the log is told from time to time.
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
        assert!(sync::lock(&strangers.counted).full_at.len() <= CLIENTS_MAX + 1);
        let later = now + ONE_MORE_AFTER * (BURST + 1);
        strangers.admit_at(address(count), later, &log).unwrap();
        assert_eq!(
            sync::lock(&strangers.counted).full_at.len(),
            1,
            "those that are full are forgotten"
        );
    }
}
