//! The cron dialect as a table, and due times around clock changes.

use super::*;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

fn at(text: &str) -> StoreTime {
    let time = OffsetDateTime::parse(text, &Rfc3339).unwrap();
    StoreTime::try_from(time.unix_timestamp_nanos() / 1_000_000).unwrap()
}

fn shown(time: StoreTime) -> String {
    let time = OffsetDateTime::from_unix_timestamp(i64::try_from(time / 1_000).unwrap()).unwrap();
    time.format(&Rfc3339).unwrap()
}

/// Returns the first due times after `after`.
fn due(expression: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::parse(expression).unwrap_or_else(|why| panic!("{expression}: {why}"));
    let next = |time: &StoreTime| schedule.next_after(*time);
    std::iter::successors(Some(at(after)), next).skip(1).take(count).map(shown).collect()
}

fn refusal(expression: &str) -> String {
    match Schedule::parse(expression) {
        Ok(_) => panic!("{expression:?} was read"),
        Err(why) => why,
    }
}

/// Each line: an expression, a time, and the next due time.
#[test]
fn schedule_dialect_matches_servers_of_this_api() {
    for (expression, after, next) in [
        // Sunday is 0, and Saturday 6.
        ("0 0 * * 0", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("0 0 * * 6", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"),
        ("0 0 * * 1-5", "2026-01-02T00:00:00Z", "2026-01-05T00:00:00Z"),
        // Both day fields restricted: a match of either is enough.
        ("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("0 0 13 * 5", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"),
        // One day field open: the other decides.
        ("0 0 13 * *", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z"),
        ("0 0 * * 5", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"),
        ("0 0 *,13 * 5", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"),
        // A step restricts a field; a step of 1 does not.
        ("0 0 */30 * 5", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"),
        ("0 0 */30 * 5", "2026-01-30T00:00:00Z", "2026-01-31T00:00:00Z"),
        ("0 0 */1 * 5", "2026-01-30T00:00:00Z", "2026-02-06T00:00:00Z"),
        // `?` means `*`, in every field.
        ("0 0 ? * 5", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"),
        ("? ? 1 ? ?", "2026-01-01T23:59:00Z", "2026-02-01T00:00:00Z"),
        // `N/step` runs from N to the end of the field.
        ("5/20 * * * *", "2026-01-01T00:30:00Z", "2026-01-01T00:45:00Z"),
        ("5/20 * * * *", "2026-01-01T00:45:00Z", "2026-01-01T01:05:00Z"),
        ("10-40/15 * * * *", "2026-01-01T00:25:00Z", "2026-01-01T00:40:00Z"),
        ("*/25 * * * *", "2026-01-01T00:25:00Z", "2026-01-01T00:50:00Z"),
        // Names, in any case and in ranges.
        ("0 0 1 feb *", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("0 0 * * MON", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z"),
        ("0 0 * Mar-May Sun", "2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z"),
        ("0 0 * * sun,wed", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        // A zone, in both spellings.
        ("CRON_TZ=Europe/Paris 0 6 * * *", "2026-01-01T00:00:00Z", "2026-01-01T05:00:00Z"),
        ("TZ=Asia/Tokyo 30 5 * * *", "2026-01-01T00:00:00Z", "2026-01-01T20:30:00Z"),
        // End of a year, of a month, and of four years.
        ("0 0 1 1 *", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("0 0 31 * *", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        // Parts of a second and of a minute.
        ("* * * * *", "2026-01-01T00:00:00.5Z", "2026-01-01T00:01:00Z"),
        ("* * * * *", "2026-01-01T00:00:59.999Z", "2026-01-01T00:01:00Z"),
        ("  0   12  * *\t* ", "2026-01-01T00:00:00Z", "2026-01-01T12:00:00Z"),
    ] {
        assert_eq!(due(expression, after, 1), [next], "{expression} after {after}");
    }
}

#[test]
fn expressions_unknown_to_servers_are_refused_with_reason() {
    for (expression, says) in [
        ("", "not 0"),
        ("* * * *", "not 4"),
        ("0 0 0 1 1 *", "not 6"),
        ("@daily", "descriptors such as \"@daily\""),
        ("CRON_TZ=UTC @daily", "descriptors"),
        ("foo", "not 1"),
        ("0 0 * * 7", "day of week \"7\" has no value \"7\": 0 to 6"),
        ("60 * * * *", "minute \"60\""),
        ("* 24 * * *", "hour"),
        ("0 0 0 * *", "1 to 31 are known"),
        ("0 0 * 13 *", "1 to 12 are known"),
        ("0 0 * january *", "month"),
        ("*/0 * * * *", "a step of 1 or more"),
        ("*/ * * * *", "a step of 1 or more"),
        ("1/2/3 * * * *", "a step"),
        ("*/-1 * * * *", "a step"),
        ("5-1 * * * *", "begins behind its end"),
        ("1-2-3 * * * *", "no value \"2-3\""),
        ("-1 * * * *", "no value \"\""),
        ("+1 * * * *", "no value \"+1\""),
        ("*-5 * * * *", "no value \"*\""),
        ("1,,2 * * * *", "no value \"\""),
        ("99999999999 * * * *", "no value"),
        ("0 0 30 2 *", "never due"),
        ("0 0 31 apr,jun,sep,nov *", "never due"),
        ("CRON_TZ=Moon/Tranquility 0 0 * * *", "no time zone \"Moon/Tranquility\""),
        ("CRON_TZ=Europe/Paris", "not 0"),
        ("CRON_TZ= 0 0 * * *", "no time zone \"\""),
        ("TZ=../etc/passwd 0 0 * * *", "no time zone"),
    ] {
        let why = refusal(expression);
        assert!(why.contains(says), "{expression:?}: {why}");
    }
    assert!(refusal(&"* ".repeat(600)).contains("at most 1024"));
}

#[test]
fn time_skipped_by_forward_clock_is_not_due() {
    let nightly = "CRON_TZ=America/New_York 30 2 * * *";
    assert_eq!(
        due(nightly, "2026-03-07T00:00:00Z", 3),
        ["2026-03-07T07:30:00Z", "2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z"]
    );
    let hourly = "CRON_TZ=America/New_York 0 * * * *";
    assert_eq!(
        due(hourly, "2026-03-08T05:30:00Z", 3),
        ["2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z", "2026-03-08T08:00:00Z"],
        "1:00, 3:00 and 4:00 on the wall"
    );
}

#[test]
fn time_repeated_by_backward_clock_is_due_twice() {
    let nightly = "CRON_TZ=America/New_York 30 1 * * *";
    assert_eq!(
        due(nightly, "2026-10-31T12:00:00Z", 3),
        ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"]
    );
    let often = "CRON_TZ=Australia/Lord_Howe */20 1 * * *";
    assert_eq!(
        due(often, "2026-04-04T14:00:00Z", 6),
        [
            "2026-04-04T14:20:00Z",
            "2026-04-04T14:40:00Z",
            "2026-04-04T15:10:00Z",
            "2026-04-05T14:30:00Z",
            "2026-04-05T14:50:00Z",
            "2026-04-05T15:10:00Z",
        ],
        "half an hour is shown twice there, of which 1:40 is due"
    );
}

#[test]
fn schedule_includes_second_of_clock_change() {
    // At 01:00 UTC the clocks of Paris go from 2:00 to 3:00, and from 3:00 back to 2:00.
    let at_three = "CRON_TZ=Europe/Paris 0 3 * * *";
    assert_eq!(due(at_three, "2026-03-28T12:00:00Z", 1), ["2026-03-29T01:00:00Z"]);
    let at_two = "CRON_TZ=Europe/Paris 0 2 * * *";
    assert_eq!(
        due(at_two, "2026-10-24T12:00:00Z", 2),
        ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"]
    );
}

/// Compares every due time with a clock that advances minute by minute.
#[test]
fn due_times_match_wall_clock_minutes() {
    for (zone, from, days) in [
        ("Europe/Paris", "2026-03-27T00:00:00Z", 4),
        ("Europe/Paris", "2026-10-23T00:00:00Z", 4),
        ("Australia/Lord_Howe", "2026-04-03T00:00:00Z", 3),
        ("Africa/Casablanca", "2026-02-14T00:00:00Z", 3),
    ] {
        let schedule = Schedule::parse(&format!("CRON_TZ={zone} 7/10 1-3 * * *")).unwrap();
        let start = at(from);
        let (wall, _) = zone::split(&format!("TZ={zone} x")).unwrap();
        let is_due = |time: &StoreTime| {
            let seconds = i64::try_from(time / 1_000).unwrap();
            let shown = seconds + wall.span(seconds).unwrap().offset;
            let (hour, minute) = (shown.rem_euclid(86_400) / 3_600, shown.rem_euclid(3_600) / 60);
            (1..=3).contains(&hour) && minute % 10 == 7
        };
        let minutes = (1..days * 1_440).map(|minute| start + minute * 60_000);
        let expected: Vec<StoreTime> = minutes.filter(is_due).collect();
        let next = |time: &StoreTime| schedule.next_after(*time);
        let found: Vec<StoreTime> =
            std::iter::successors(schedule.next_after(start), next).take(expected.len()).collect();
        assert_eq!(found, expected, "{zone}");
    }
}

#[test]
fn times_beyond_calendar_have_no_next_time() {
    let schedule = Schedule::parse("0 0 * * *").unwrap();
    assert_eq!(schedule.next_after(StoreTime::MAX), None);
    assert_eq!(schedule.next_after(at("2101-01-01T00:00:00Z")), None);
    assert_eq!(schedule.next_after(0), Some(86_400_000));
}
