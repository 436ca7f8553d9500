//! Guards: timers that fire because the call that set them ended without cancelling them.
//!
//! This file prevents an unfinished change of an external system, left by a call that failed or
//! whose process died. A guard is a timer row with a special owner. Three mechanisms turn a guard
//! into an ordinary due timer: the end of the call that set the guard; the next start of a process,
//! which releases the guards of dead processes because no call survives its process; and the row's
//! own due time, a minute after the call's deadline, in case both are lost.
//!
//! The text of a guard is the number of failed attempts, the mark of the call and the epoch of the
//! process, with spaces between. Guards of earlier releases name no epoch.

use super::backoff::CALL_GRACE;
use super::claims::{Claim, Claims};
use super::dead_work::{DeadWork, find_dead_work};
use crate::log::{Log, cause};
use crate::random;
use bulkhead_store::{Address, IndexColumns, Record, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Owner of guard rows. The start of a process finds guards by this owner.
const OWNER: &str = "guard";
/// Maximum number of keys that a call may guard.
const MAX_GUARDED_KEYS: usize = 64;

/// A timer that a call asks to be guarded.
pub struct GuardRequest {
    /// The address of the timer's row.
    pub timer: Address,
    /// The full lane, with the mount as prefix, as the row is indexed.
    pub lane: String,
    /// Latest time at which the call is stopped, as store time in milliseconds.
    pub deadline: u64,
}

/// The guards of a call. Each timer has a mark that distinguishes its row from later rows of the
/// same key.
#[derive(Default)]
pub struct CallGuards {
    set: Mutex<BTreeMap<Address, ArmedGuard>>,
}

/// A guard that was set.
struct ArmedGuard {
    mark: String,
    /// Keeps due work of this process away while the call runs, even if the clock jumps. `None` if
    /// the address is claimed already: a wake holds the claim on its own key.
    claim: Option<Claim>,
}

impl CallGuards {
    /// Writes a guard into the call's unit of work.
    ///
    /// # Errors
    /// 400 when the call already guards the maximum number of keys.
    pub fn set(
        &self,
        claims: &Arc<Claims>,
        unit: &mut Unit,
        request: GuardRequest,
    ) -> Result<(), Failure> {
        let mut set = sync::lock(&self.set);
        if set.len() >= MAX_GUARDED_KEYS && !set.contains_key(&request.timer) {
            return Err(Failure::invalid(format!(
                "a call guards at most {MAX_GUARDED_KEYS} keys; finish the begun changes, or split \
                 the call into several"
            )));
        }
        // A call uses the same mark for every write of a key: if the commit of this write fails, an
        // earlier guard of the call still belongs to the call.
        let mark = match set.get(&request.timer) {
            Some(before) => before.mark.clone(),
            None => random::random_hex::<16>()?,
        };
        let body = format!("0 {mark} {}", unit.epoch()).into_bytes();
        let due = Some(request.deadline.saturating_add(CALL_GRACE));
        unit.put(
            request.timer.clone(),
            body,
            IndexColumns { due, lane: request.lane, owner: OWNER.to_owned() },
        );
        let before = set.remove(&request.timer).and_then(|before| before.claim);
        let claim = before.or_else(|| claims.claim_here(&request.timer));
        set.insert(request.timer, ArmedGuard { mark, claim });
        Ok(())
    }

    /// Returns whether `record`, found at `timer`, is the guard that this call set there.
    pub fn is_own_guard(&self, timer: &Address, record: &Record) -> bool {
        let set = sync::lock(&self.set);
        set.get(timer).is_some_and(|set| is_guard(record, &set.mark))
    }

    fn take(&self) -> BTreeMap<Address, ArmedGuard> {
        std::mem::take(&mut *sync::lock(&self.set))
    }
}

fn is_guard(record: &Record, mark: &str) -> bool {
    record.index.owner == OWNER && word(record, 1) == mark
}

fn epoch_of(guard: &Record) -> String {
    word(guard, 2).to_owned()
}

/// Returns the number of failed attempts in the body of a timer. Guards and schedules share the
/// format.
pub fn attempts(timer: &Record) -> u32 {
    word(timer, 0).parse().unwrap_or_default()
}

/// Returns the word at `place` in the body of a timer; empty if there is none.
fn word(timer: &Record, place: usize) -> &str {
    let body = std::str::from_utf8(&timer.body).unwrap_or_default();
    body.split(' ').nth(place).unwrap_or_default()
}

/// Writes the next attempt of a timer or guard, as an ordinary timer.
pub fn put_timer(unit: &mut Unit, address: &Address, lane: &str, attempts: u32, due: u64) {
    let index = IndexColumns { due: Some(due), lane: lane.to_owned(), owner: String::new() };
    unit.put(address.clone(), attempts.to_string().into_bytes(), index);
}

/// Releases the guards of a call, as its last act after commit or failure. No guard becomes due
/// before `earliest`.
pub async fn release(store: &Arc<Store>, log: &dyn Log, guards: &CallGuards, earliest: u64) {
    for (timer, set) in guards.take() {
        if let Err(failure) = Box::pin(release_one(store, &timer, &set.mark, earliest)).await {
            // Nothing is lost: the guard becomes due a minute after the call's deadline, or at the
            // next unsealing.
            log.line(LogLevel::Warn, "guard-delayed", &[("timer", timer.key), cause(&failure)]);
        }
    }
}

/// Makes a guard due, if it was committed and still belongs to the call.
async fn release_one(
    store: &Arc<Store>,
    timer: &Address,
    mark: &str,
    earliest: u64,
) -> Result<(), Failure> {
    let mut unit = store.begin();
    let Some(guard) = unit.get(timer).await?.filter(|record| is_guard(record, mark)) else {
        return Ok(());
    };
    let due = store.now().max(earliest);
    put_timer(&mut unit, timer, &guard.index.lane, attempts(&guard), due);
    match unit.commit().await {
        // A concurrent change cancelled, rescheduled or took over the key, and takes precedence.
        Err(StoreFault::Conflict) => Ok(()),
        committed => Ok(committed.map(drop)?),
    }
}

/// Makes the guards of dead processes due now, because no call that set such a guard still runs.
/// Guards of living processes stay.
///
/// # Errors
/// 503 when the store cannot be read or written. An unreadable guard is logged and skipped.
pub async fn release_dead(store: &Arc<Store>, log: &dyn Log) -> Result<(), Failure> {
    let mut scan = store.scan_owned(Space::Timer, OWNER);
    while let Some(page) = scan.page().await? {
        let dead = find_dead_work(store, page, epoch_of).await?;
        release_rows(store, log, &dead).await?;
    }
    Ok(())
}

/// Makes guards of dead processes due, in one commit.
async fn release_rows(
    store: &Arc<Store>,
    log: &dyn Log,
    dead: &DeadWork,
) -> Result<(), StoreFault> {
    let is_dead = |row: &Record| row.index.owner == OWNER && dead.epochs.contains(&epoch_of(row));
    let mut finish = store.begin().finish();
    loop {
        let unit = finish.restart_host_part();
        for timer in &dead.rows {
            match unit.get(timer).await {
                Ok(Some(row)) if is_dead(&row) => {
                    put_timer(unit, timer, &row.index.lane, attempts(&row), store.now());
                }
                Ok(_) => {}
                Err(damaged @ StoreFault::Damaged(_)) => {
                    log.line(LogLevel::Error, "guard-unreadable", &[cause(&damaged)]);
                }
                Err(fault) => return Err(fault),
            }
        }
        // After a conflict, another process has released a guard, or a call has taken over the key.
        if finish.try_commit().await? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options;
    use bulkhead_store::{RecordBody, SealKey};
    use std::path::PathBuf;

    struct TemporaryFolder(PathBuf);

    impl TemporaryFolder {
        async fn open(name: &str) -> (Self, Arc<Store>) {
            let directory =
                std::env::temp_dir().join(format!("bulkhead-guards-{name}-{}", std::process::id()));
            let key = SealKey::generate().unwrap();
            let store = Store::open(options(&directory), key).await.unwrap();
            (Self(directory), store)
        }
    }

    impl Drop for TemporaryFolder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn timer(key: &str) -> Address {
        Address::new(Space::Timer, key)
    }

    fn guard_request(key: &str, deadline: u64) -> GuardRequest {
        GuardRequest { timer: timer(key), lane: "mount/lane".to_owned(), deadline }
    }

    async fn index(store: &Arc<Store>, key: &str) -> Option<IndexColumns> {
        store.begin().get(&timer(key)).await.unwrap().map(|record| record.index)
    }

    async fn let_go(store: &Arc<Store>, guards: &CallGuards) {
        for (timer, set) in guards.take() {
            release_one(store, &timer, &set.mark, 0).await.unwrap();
        }
    }

    #[tokio::test]
    async fn guard_becomes_ordinary_timer_when_call_ends() {
        let (_scratch, store) = TemporaryFolder::open("waits").await;
        let guards = CallGuards::default();
        let mut unit = store.begin();
        let deadline = store.now() + 90_000;
        guards.set(&Arc::default(), &mut unit, guard_request("m/a", deadline)).unwrap();
        unit.commit().await.unwrap();
        let lane = "mount/lane".to_owned();
        let while_it_runs = IndexColumns {
            due: Some(deadline + CALL_GRACE),
            lane: lane.clone(),
            owner: OWNER.to_owned(),
        };
        assert_eq!(index(&store, "m/a").await, Some(while_it_runs));
        let_go(&store, &guards).await;
        let after = index(&store, "m/a").await.unwrap();
        assert!(after.due.unwrap() <= store.now(), "{after:?}");
        assert_eq!((after.lane, after.owner), (lane, String::new()));
    }

    #[tokio::test]
    async fn uncommitted_or_cancelled_guard_leaves_no_timer() {
        let (_scratch, store) = TemporaryFolder::open("nothing").await;
        let guards = CallGuards::default();
        let mut unit = store.begin();
        guards.set(&Arc::default(), &mut unit, guard_request("m/cancelled", store.now())).unwrap();
        unit.checkpoint().await.unwrap();
        unit.delete(timer("m/cancelled"));
        unit.commit().await.unwrap();
        let mut dropped = store.begin();
        guards.set(&Arc::default(), &mut dropped, guard_request("m/dropped", store.now())).unwrap();
        drop(dropped);
        let_go(&store, &guards).await;
        assert_eq!(store.count(Space::Timer, "", 9).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn committed_guard_stays_owned_after_later_uncommitted_write() {
        let (_scratch, store) = TemporaryFolder::open("again").await;
        let guards = CallGuards::default();
        let deadline = store.now() + 90_000;
        let mut unit = store.begin();
        guards.set(&Arc::default(), &mut unit, guard_request("m/a", deadline)).unwrap();
        unit.checkpoint().await.unwrap();
        guards.set(&Arc::default(), &mut unit, guard_request("m/a", deadline)).unwrap();
        drop(unit);
        let row = store.begin().get(&timer("m/a")).await.unwrap().unwrap();
        assert!(guards.is_own_guard(&timer("m/a"), &row));
        let_go(&store, &guards).await;
        assert!(index(&store, "m/a").await.unwrap().due.unwrap() < deadline);
    }

    #[tokio::test]
    async fn guard_release_skips_key_taken_by_another_call() {
        let (_scratch, store) = TemporaryFolder::open("others").await;
        let (first, second) = (CallGuards::default(), CallGuards::default());
        let deadline = store.now() + 90_000;
        for guards in [&first, &second] {
            let mut unit = store.begin();
            guards.set(&Arc::default(), &mut unit, guard_request("m/a", deadline)).unwrap();
            guards.set(&Arc::default(), &mut unit, guard_request("m/b", deadline)).unwrap();
            unit.commit().await.unwrap();
        }
        let mut unit = store.begin();
        put_timer(&mut unit, &timer("m/b"), "mount/lane", 3, deadline);
        unit.commit().await.unwrap();
        // Both guard rows have the same columns; only the mark identifies the call.
        let_go(&store, &first).await;
        assert_eq!(
            index(&store, "m/a").await.unwrap().due,
            Some(deadline + CALL_GRACE),
            "the second call still runs"
        );
        let_go(&store, &second).await;
        assert!(index(&store, "m/a").await.unwrap().due.unwrap() < deadline);
        assert_eq!(
            index(&store, "m/b").await.unwrap().due,
            Some(deadline),
            "a schedule is not a guard"
        );
    }

    #[tokio::test]
    async fn call_guards_64_keys_and_repeats_any_key() {
        let (_scratch, store) = TemporaryFolder::open("limit").await;
        let guards = CallGuards::default();
        let mut unit = store.begin();
        for key in 0..MAX_GUARDED_KEYS {
            guards.set(&Arc::default(), &mut unit, guard_request(&key.to_string(), 1)).unwrap();
        }
        guards.set(&Arc::default(), &mut unit, guard_request("0", 2)).unwrap();
        let refused =
            guards.set(&Arc::default(), &mut unit, guard_request("one too many", 1)).unwrap_err();
        assert!(refused.message.contains("at most 64 keys"), "{refused}");
        unit.commit().await.unwrap();
        assert_eq!(store.count(Space::Timer, "", 99).await.unwrap(), 64);
        assert_eq!(index(&store, "0").await.unwrap().due, Some(2 + CALL_GRACE));
    }

    #[tokio::test]
    async fn attempts_are_counted_in_bodies_of_any_shape() {
        let body = |text: &str| {
            Record::unwritten(RecordBody::new(text.as_bytes().to_vec()), IndexColumns::default())
        };
        let counted = ["0", "7", "7 mark", "", " ", "x", "-1", "99999999999"]
            .map(|text| attempts(&body(text)));
        assert_eq!(counted, [0, 7, 7, 0, 0, 0, 0, 0]);
    }
}
