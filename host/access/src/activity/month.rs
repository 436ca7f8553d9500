//! Months of the calendar, in UTC.

use time::{Date, Month, OffsetDateTime};

/// A month of the calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActivityMonth {
    /// The months since the beginning of the year 0.
    number: i32,
}

/// Months of a year.
const MONTHS: i32 = 12;

impl ActivityMonth {
    /// Returns the month of a time in seconds since 1970. A time outside of the calendar belongs to
    /// the first month of 1970.
    #[must_use]
    pub fn of_seconds(seconds: u64) -> Self {
        let moment = i64::try_from(seconds)
            .ok()
            .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
            .unwrap_or(OffsetDateTime::UNIX_EPOCH);
        Self { number: moment.year() * MONTHS + i32::from(u8::from(moment.month())) - 1 }
    }

    /// Returns the month `count` months later.
    #[must_use]
    pub fn plus(self, count: u32) -> Self {
        Self { number: self.number.saturating_add(i32::try_from(count).unwrap_or(i32::MAX)) }
    }

    /// Returns the month `count` months earlier.
    #[must_use]
    pub fn minus(self, count: u32) -> Self {
        Self { number: self.number.saturating_sub(i32::try_from(count).unwrap_or(i32::MAX)) }
    }

    /// Returns the first second of the month, since 1970; 0 for a month before 1970.
    #[must_use]
    pub fn begin(self) -> u64 {
        let (year, month) = self.year_and_month();
        let month = u8::try_from(month).ok().and_then(|month| Month::try_from(month).ok());
        let first = month.and_then(|month| Date::from_calendar_date(year, month, 1).ok());
        let seconds = first.map(|first| first.midnight().assume_utc().unix_timestamp());
        seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default()
    }

    /// Returns the last second of the month, since 1970.
    #[must_use]
    pub fn end(self) -> u64 {
        self.plus(1).begin().saturating_sub(1)
    }

    /// Returns the name in keys: `2026-11`. Part of the stored format.
    #[must_use]
    pub fn word(self) -> String {
        let (year, month) = self.year_and_month();
        format!("{year:04}-{month:02}")
    }

    /// Parses the name in keys.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let (year, month) = word.split_once('-')?;
        let (year, month) = (year.parse::<i32>().ok()?, month.parse::<i32>().ok()?);
        let number = year.checked_mul(MONTHS)?.checked_add(month.checked_sub(1)?)?;
        ((1..=MONTHS).contains(&month) && year >= 0).then_some(Self { number })
    }

    fn year_and_month(self) -> (i32, i32) {
        (self.number.div_euclid(MONTHS), self.number.rem_euclid(MONTHS) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_follow_the_calendar() {
        // 2026-11-29 01:00:00 UTC.
        let month = ActivityMonth::of_seconds(1_795_914_000);
        assert_eq!((month.word().as_str(), month.plus(2).word().as_str()), ("2026-11", "2027-01"));
        assert_eq!((month.begin(), month.end()), (1_793_491_200, 1_796_083_199));
        assert_eq!(month.minus(11).word(), "2025-12");
        assert_eq!(ActivityMonth::parse("2026-11"), Some(month));
        assert_eq!(ActivityMonth::of_seconds(month.end()), month);
        assert_eq!(ActivityMonth::of_seconds(month.end() + 1), month.plus(1));
        for wrong in ["", "2026", "2026-13", "2026-00", "x-01", "-1-01"] {
            assert_eq!(ActivityMonth::parse(wrong), None, "{wrong}");
        }
    }
}
