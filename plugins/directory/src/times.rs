//! Conversion of the times that directories report into store time in milliseconds. Reported values
//! are untrusted and may be malformed.

use bulkhead_sdk::database_plugin::StoreTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

/// Ticks of Active Directory (100 ns) per millisecond.
const TICKS: u64 = 10_000;
/// Milliseconds from 1601, the epoch of Active Directory, to 1970.
const FROM_1601: u64 = 11_644_473_600_000;

/// Parses `pwdLastSet`: ticks since 1601 as a decimal text. Returns `None` for a malformed time,
/// and for 0: the password must be changed, and the time of the last change is unknown.
pub(crate) fn of_ticks(text: &str) -> Option<StoreTime> {
    let ticks: u64 = text.parse().ok()?;
    (ticks / TICKS).checked_sub(FROM_1601)
}

/// Parses `pwdChangedTime`: `20261120175208Z`, with or without a fraction, always in UTC.
pub(crate) fn of_generalized(text: &str) -> Option<StoreTime> {
    let text = text.strip_suffix('Z')?;
    let seconds = text.split_once('.').map_or(text, |(seconds, _)| seconds);
    let format = format_description!("[year][month][day][hour][minute][second]");
    let time = PrimitiveDateTime::parse(seconds, format).ok()?.assume_utc();
    u64::try_from(time.unix_timestamp()).ok()?.checked_mul(1_000)
}

/// Formats a time for clients: RFC 3339, in UTC.
pub(crate) fn show(time: StoreTime) -> Option<String> {
    let seconds = i64::try_from(time / 1_000).ok()?;
    let nanosecond = u32::try_from(time % 1_000).ok()? * 1_000_000;
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok()?;
    time.replace_nanosecond(nanosecond).ok()?.format(&Rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_count_from_1601_and_invalid_is_none() {
        assert_eq!(
            of_ticks("131680504285591921").and_then(show).as_deref(),
            Some("2018-04-12T23:47:08.559Z")
        );
        for text in ["0", "-1", "", "soon", "99999999999999999999999"] {
            assert_eq!(of_ticks(text), None, "{text}");
        }
    }

    #[test]
    fn generalized_time_is_read_with_or_without_fraction() {
        for text in ["20261120175208Z", "20261120175208.123456Z"] {
            assert_eq!(
                of_generalized(text).and_then(show).as_deref(),
                Some("2026-11-20T17:52:08Z"),
                "{text}"
            );
        }
        for text in ["20261120175208", "20261320175208Z", "2026", "Z", "19691231235959Z"] {
            assert_eq!(of_generalized(text), None, "{text}");
        }
    }
}
