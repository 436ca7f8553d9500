//! Store time: the only clock by which records are due.
//!
//! This file prevents two attacks: a difference between two clocks, and a change of the system's
//! clock. If an expiry is computed from a clock and compared with another clock, a credential lives
//! too long or ends too early; therefore no other code of the host bases a decision on the system's
//! clock. If store time followed the system's clock, a clock set ahead would end every lease at
//! once, and a clock set back would end no lease until it caught up. Store time therefore starts
//! from the system's clock when the process starts, and advances by a clock that cannot be set and
//! also counts the time while the machine sleeps.
//!
//! Store time does not go back between two processes either. The data contain a mark of the store
//! time that was reached; if the system's clock is behind the mark, store time continues from the
//! mark. Otherwise a restart with the clock set back would prolong every token and lease.
//!
//! On a database that several nodes share, store time follows the clock of the database server
//! (`crate::database_clock`), and never goes back either: store time stands still for the
//! milliseconds of a correction.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bulkhead_place::steady_clock::steady_milliseconds;
use bulkhead_wire::sync;

/// Minimum change of the system's clock that is reported, in milliseconds. A smaller change is a
/// correction without consequences.
const REPORTED_JUMP_MS: u64 = 1_000;

/// A clock of milliseconds since 1970 that advances evenly while the process lives, even if the
/// system's clock is set.
pub(crate) struct StoreClock {
    read: Box<dyn Fn() -> ClockReadings + Send + Sync>,
    began: ClockReadings,
    /// Milliseconds by which store time is ahead (negative: behind) of the system's clock as read
    /// at the start of the process.
    lead: AtomicI64,
    /// The latest time that was returned. Each millisecond is written once.
    latest: AtomicU64,
    /// Lead of the system's clock at the last report, in milliseconds.
    told: AtomicI64,
    /// A finding that the system's clock was behind the mark, until the operator is told.
    behind: Mutex<Option<ClockBehind>>,
}

/// The values of the two clocks at the same moment, in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct ClockReadings {
    /// The system's clock, since 1970.
    pub(crate) system: u64,
    /// The clock that cannot be set, since an arbitrary moment.
    pub(crate) steady: u64,
}

/// A change of the system's clock while the process ran. Store time continued unchanged, or, on a
/// shared database, with the clock of the database server, which may have been set instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockJump {
    /// Milliseconds by which the clock was set ahead (negative: back) since the last report.
    pub by: i64,
    /// Milliseconds by which the clock is now ahead of store time (negative: behind).
    pub ahead: i64,
}

/// A system's clock that was behind the store time of the data. Store time continues from the time
/// of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockBehind {
    /// The system's clock, in milliseconds since 1970.
    pub system: u64,
    /// Store time at that moment, likewise.
    pub store: u64,
}

impl StoreClock {
    /// Returns the clock of this machine.
    pub(crate) fn system() -> StoreClock {
        StoreClock::reading(|| ClockReadings {
            system: system_milliseconds(),
            steady: steady_milliseconds(),
        })
    }

    /// Returns a clock with these readings.
    pub(crate) fn reading(read: impl Fn() -> ClockReadings + Send + Sync + 'static) -> StoreClock {
        let began = read();
        StoreClock {
            read: Box::new(read),
            began,
            lead: AtomicI64::new(0),
            latest: AtomicU64::new(0),
            told: AtomicI64::new(0),
            behind: Mutex::default(),
        }
    }

    /// Returns the store time now, never earlier than at an earlier call.
    pub(crate) fn now(&self) -> u64 {
        let now = self.at((self.read)());
        let latest = self.latest.load(Ordering::Relaxed);
        match now <= latest {
            true => latest,
            false => self.latest.fetch_max(now, Ordering::Relaxed).max(now),
        }
    }

    /// Returns the reading of the clock that cannot be set, in milliseconds since an arbitrary
    /// moment.
    pub(crate) fn steady_time(&self) -> u64 {
        (self.read)().steady
    }

    /// Returns the milliseconds by which store time is ahead of the clock that cannot be set.
    pub(crate) fn steady_offset(&self) -> i64 {
        let began = signed(self.began.system).saturating_sub(signed(self.began.steady));
        began.saturating_add(self.lead.load(Ordering::Relaxed))
    }

    /// Corrects store time by `by` milliseconds. After a negative correction, store time stands
    /// still until it has caught up.
    pub(crate) fn correct(&self, by: i64) {
        self.lead.fetch_add(by, Ordering::Relaxed);
    }

    /// Returns the system's clock now, in milliseconds since 1970.
    pub(crate) fn system_time(&self) -> u64 {
        (self.read)().system
    }

    /// Returns the change of the system's clock since the last reported change.
    pub(crate) fn jump(&self) -> Option<ClockJump> {
        let readings = (self.read)();
        let ahead = signed(readings.system).saturating_sub(signed(self.at(readings)));
        let by = ahead.saturating_sub(self.told.load(Ordering::Relaxed));
        if by.unsigned_abs() < REPORTED_JUMP_MS {
            return None;
        }
        self.told.store(ahead, Ordering::Relaxed);
        Some(ClockJump { by, ahead })
    }

    /// Moves store time ahead to `mark` if store time is behind the mark. Store time then advances
    /// from the mark as usual, so that a mark far ahead does not stop time.
    pub(crate) fn advance_to(&self, mark: u64) {
        let readings = (self.read)();
        let behind = mark.saturating_sub(self.at(readings));
        if behind == 0 {
            return;
        }
        self.lead.fetch_add(signed(behind), Ordering::Relaxed);
        self.told.store(signed(readings.system).saturating_sub(signed(mark)), Ordering::Relaxed);
        if behind >= REPORTED_JUMP_MS {
            let found = ClockBehind { system: readings.system, store: mark };
            *sync::lock(&self.behind) = Some(found);
        }
    }

    /// Returns the milliseconds by which the system's clock is behind store time; 0 if the clock is
    /// not behind.
    pub(crate) fn lag(&self) -> u64 {
        let readings = (self.read)();
        self.at(readings).saturating_sub(readings.system)
    }

    /// Returns, once, the finding that the system's clock was behind the mark.
    pub(crate) fn take_behind(&self) -> Option<ClockBehind> {
        sync::lock(&self.behind).take()
    }

    fn at(&self, readings: ClockReadings) -> u64 {
        let passed = readings.steady.saturating_sub(self.began.steady);
        let lead = self.lead.load(Ordering::Relaxed);
        self.began.system.saturating_add_signed(lead).saturating_add(passed)
    }
}

fn signed(milliseconds: u64) -> i64 {
    i64::try_from(milliseconds).unwrap_or(i64::MAX)
}

/// Returns the system's clock, in milliseconds since 1970, for work before any store is open. A
/// clock before 1970 reads as 1970: due records then stay, instead of ending too early.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "only this function reads the clock")]
pub fn system_milliseconds() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
