//! Time zones: the offset of a zone from UTC, and the end of that offset.
//!
//! The rules are compiled in; clock and zone of the environment are never read.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Compiled rules of a zone.
enum ZoneRules {
    /// The same rules every year, as a POSIX TZ string.
    Regular(&'static str),
    /// Individual clock changes, as a TZif file of the zone database.
    Listed(&'static [u8]),
}

/// Rules by zone name in lower case, sorted.
const ZONES: &[(&str, ZoneRules)] = &include!(concat!(env!("OUT_DIR"), "/zones.rs"));

/// A time zone.
#[derive(Clone, Debug)]
pub(super) struct Zone(TimeZone);

/// A time between two clock changes, in seconds.
pub(super) struct OffsetSpan {
    /// Offset from UTC, positive to the east.
    pub(super) offset: i64,
    /// Time of the next clock change; `None` if there is none.
    pub(super) end: Option<i64>,
}

/// Splits off the zone before an expression, and returns the fields.
pub(super) fn split(text: &str) -> Result<(Zone, &str), String> {
    let text = text.trim();
    let named = text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ="));
    let Some(named) = named else { return Ok((Zone(TimeZone::UTC), text)) };
    let (name, fields) = named.split_once(char::is_whitespace).unwrap_or((named, ""));
    Ok((Zone::named(name)?, fields))
}

impl Zone {
    fn named(name: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "there is no time zone {name:?}; give a zone such as CRON_TZ=Europe/Paris, or none"
            )
        };
        let lower = name.to_ascii_lowercase();
        let place = ZONES.binary_search_by(|(zone_name, _)| zone_name.cmp(&lower.as_str()));
        let (_, rules) = place.ok().and_then(|place| ZONES.get(place)).ok_or_else(unknown)?;
        let zone = match rules {
            ZoneRules::Regular(rule) => TimeZone::posix(rule),
            ZoneRules::Listed(file) => TimeZone::tzif(name, file),
        };
        zone.map(Self).map_err(|error| format!("the rules of time zone {name:?}: {error}"))
    }

    /// Returns the span that contains `seconds` since 1970; `None` outside the supported years.
    pub(super) fn span(&self, seconds: i64) -> Option<OffsetSpan> {
        let time = Timestamp::from_second(seconds).ok()?;
        let end = self.0.following(time).next().map(|change| change.timestamp().as_second());
        Some(OffsetSpan { offset: self.0.to_offset(time).seconds().into(), end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zone_reads_and_stands_in_order() {
        assert!(ZONES.len() > 500, "{}", ZONES.len());
        assert!(ZONES.is_sorted_by_key(|(name, _)| *name));
        for (name, _) in ZONES {
            let zone = Zone::named(name).unwrap();
            assert!(zone.span(1_767_225_600).is_some(), "{name}");
        }
    }

    /// Offsets on 2026-01-01 and 2026-07-01 in the zone database, in minutes.
    #[test]
    fn offsets_match_zone_database() {
        for (name, winter, summer) in [
            ("UTC", 0, 0),
            ("Europe/Paris", 60, 120),
            ("America/New_York", -300, -240),
            ("Australia/Lord_Howe", 660, 630),
            ("Asia/Kathmandu", 345, 345),
            ("Africa/Casablanca", 60, 60),
        ] {
            let zone = Zone::named(name).unwrap();
            let minutes = |seconds| zone.span(seconds).unwrap().offset / 60;
            let offsets = (minutes(1_767_225_600), minutes(1_782_864_000));
            assert_eq!(offsets, (winter, summer), "{name}");
        }
    }

    #[test]
    fn zone_with_listed_transitions_uses_listed_transitions() {
        // Ramadan of 2026: clocks go back on 15 February and forward on 22 March.
        let span = Zone::named("Africa/Casablanca").unwrap().span(1_771_804_800).unwrap();
        assert_eq!((span.offset, span.end), (0, Some(1_774_144_800)));
    }
}
