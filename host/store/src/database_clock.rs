//! Store time of a node that shares its database: the clock of the database server.
//!
//! This file prevents times of different machines from being compared: a lease that a node gives is
//! ended by any node, so that all nodes have one clock, and the database server is the only machine
//! that all of them know. A statement returns the clock of the server; the moment of the reading is
//! known up to half of the time that the statement took. The best reading of the last minutes
//! counts: its error grows by the drift of two clocks, until a newer reading is better.
//!
//! Store time is moved ahead at once, and slows to half of its speed otherwise.

use std::sync::{Arc, Mutex};

use bulkhead_wire::sync;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::clock::StoreClock;
use bulkhead_record::fault::StoreFault;

/// Difference between the clocks of this machine and of the database server above which a node does
/// not begin, in milliseconds.
const REFUSED_DIFFERENCE_MS: u64 = 10_000;
/// Maximum difference between the store times of two nodes of a shared database, in milliseconds:
/// the clocks of a node that begins, and what they drift apart until a reading counts.
pub const CLOCK_TOLERANCE_MS: u64 = REFUSED_DIFFERENCE_MS + 5_000;
/// Milliseconds in which two clocks drift apart by a millisecond.
const DRIFT_MS: u64 = 10_000;
/// Maximum time for which store time stands still after one reading, in milliseconds.
const STANDSTILL_MS: u64 = 1_000;

/// A reading of the clock of the database server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    /// The clock that cannot be set, before the statement and after its answer, in milliseconds.
    pub(crate) asked: (u64, u64),
    /// The clock of the database server, in milliseconds since 1970.
    pub(crate) database: u64,
}

/// The relation of the two clocks as a reading shows it, in milliseconds.
#[derive(Clone, Copy)]
struct Estimate {
    /// The clock of the server less the clock that cannot be set.
    offset: i64,
    /// Maximum error at the moment of the reading.
    error: u64,
    /// The clock that cannot be set, at the reading.
    moment: u64,
}

impl Estimate {
    fn of(reading: &ClockReading) -> Estimate {
        let (before, after) = reading.asked;
        let half = after.saturating_sub(before).div_ceil(2);
        let middle = before.saturating_add(half);
        // Each of the three readings is rounded.
        Estimate {
            offset: signed_difference(reading.database, middle),
            error: half.saturating_add(2),
            moment: after,
        }
    }

    /// Returns the maximum error at `moment`.
    fn error_at(&self, moment: u64) -> u64 {
        self.error.saturating_add(moment.saturating_sub(self.moment) / DRIFT_MS)
    }

    /// Returns whether both estimates may be right. Otherwise a clock was set, or another server
    /// answers.
    fn agrees_with(&self, later: &Estimate) -> bool {
        let age = later.moment.saturating_sub(self.moment);
        let most = self.error.saturating_add(later.error).saturating_add(10 * age / DRIFT_MS);
        self.offset.abs_diff(later.offset) <= most
    }
}

/// The clock of the database server, which store time follows.
pub(crate) struct DatabaseClock {
    clock: Arc<StoreClock>,
    state: Mutex<FollowingState>,
}

#[derive(Default)]
struct FollowingState {
    best: Option<Estimate>,
    /// The clock that cannot be set, at the last correction.
    corrected: Option<u64>,
}

impl DatabaseClock {
    /// Creates the follower of `clock`.
    pub(crate) fn new(clock: &Arc<StoreClock>) -> DatabaseClock {
        DatabaseClock { clock: Arc::clone(clock), state: Mutex::default() }
    }

    /// Returns the clock that cannot be set, for the times of a [`ClockReading`].
    pub(crate) fn steady_time(&self) -> u64 {
        self.clock.steady_time()
    }

    /// Moves store time away from the clock of the server.
    #[cfg(test)]
    pub(crate) fn correct(&self, by: i64) {
        self.clock.correct(by);
    }

    /// Moves store time towards the best reading so far, among which is `reading`.
    pub(crate) fn follow(&self, reading: &ClockReading) {
        let mut state = sync::lock(&self.state);
        let new = Estimate::of(reading);
        let is_better =
            |best: Estimate| !best.agrees_with(&new) || new.error <= best.error_at(new.moment);
        let best = state.best.filter(|best| !is_better(*best)).unwrap_or(new);
        let passed = new.moment.saturating_sub(state.corrected.unwrap_or(new.moment));
        (state.best, state.corrected) = (Some(best), Some(new.moment));
        let by = best.offset.saturating_sub(self.clock.steady_offset());
        if by.unsigned_abs() <= best.error_at(new.moment) {
            return;
        }
        let most_back = i64::try_from((passed / 2).min(STANDSTILL_MS)).unwrap_or_default();
        self.clock.correct(by.max(-most_back));
    }
}

/// Begins store time at the clock of the database server, before the service of a node begins.
/// `readings` are readings of the same moment, of which the best counts.
///
/// # Errors
/// [`StoreFault::Refused`] if the clocks of this machine and of the server differ by more than
/// [`REFUSED_DIFFERENCE_MS`]; [`StoreFault::Unavailable`] without a reading.
pub(crate) fn begin_at(clock: &StoreClock, readings: &[ClockReading]) -> Result<(), StoreFault> {
    let estimates = readings.iter().map(Estimate::of);
    let best = estimates.min_by_key(|estimate| estimate.error).ok_or_else(|| {
        StoreFault::Unavailable("the database server did not tell its time; try again".to_owned())
    })?;
    let (system, steady) = (clock.system_time(), clock.steady_time());
    let database = steady.saturating_add_signed(best.offset);
    if system.abs_diff(database) > REFUSED_DIFFERENCE_MS.saturating_add(best.error) {
        return Err(StoreFault::Refused(format!(
            "the clock of this machine shows {}, and the clock of the database server shows {}; \
             nodes that share a database need the same time, up to {} s; set the clocks right, and \
             start again",
            text_of(system),
            text_of(database),
            REFUSED_DIFFERENCE_MS / 1_000
        )));
    }
    clock.correct(best.offset.saturating_sub(clock.steady_offset()));
    Ok(())
}

/// Returns a time, in milliseconds since 1970, in the form of RFC 3339.
fn text_of(milliseconds: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(milliseconds) * 1_000_000);
    let text = moment.ok().and_then(|moment| moment.format(&Rfc3339).ok());
    text.unwrap_or_else(|| format!("{milliseconds} ms after 1970"))
}

fn signed_difference(later: u64, earlier: u64) -> i64 {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    signed(later).saturating_sub(signed(earlier))
}

#[cfg(test)]
mod tests;
