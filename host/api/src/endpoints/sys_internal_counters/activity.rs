//! `sys/internal/counters/activity`: clients by month and by auth mount.

use super::report::{ActivityReport, MountNames};
use super::settings::MAX_RETENTION_MONTHS;
use crate::endpoints::call::{PermittedCall, RequestFields};
use crate::endpoints::reply::{Reply, ReplyBody};
use crate::endpoints::row::{Endpoint, field, read};
use bulkhead_access::activity::ActivityMonth;
use bulkhead_access::timestamp::timestamp;
use bulkhead_core::Core;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, json};
use std::ops::RangeInclusive;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Number of months before the present month that a report shows without `start_time`.
const EARLIER_MONTHS: u32 = 11;

pub(super) fn rows() -> Vec<Endpoint> {
    let moment = |name: &str, about: &str| field(name, FieldKind::String, about);
    vec![
        read("sys/internal/counters/activity", "clients of a period, by month and auth mount")
            .fields([
                moment("start_time", "a moment of the first month: RFC 3339, or Unix seconds"),
                moment("end_time", "a moment of the last month; default: the present month"),
            ])
            .handled_by(show),
        read("sys/internal/counters/activity/monthly", "clients of the present month")
            .handled_by(show_present),
    ]
}

/// `GET sys/internal/counters/activity`. A period without clients is 204.
async fn show(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    let period = read_period(fields, present_month(core))?;
    let report = collect(core, period.clone()).await?;
    if report.is_empty() {
        return Ok(ReplyBody::Nothing.into());
    }
    let names = MountNames::of(core);
    let data = Map::from_iter([
        ("start_time".to_owned(), timestamp(period.start().begin())),
        ("end_time".to_owned(), timestamp(period.end().end())),
        ("by_namespace".to_owned(), json!([report.namespace(&names)])),
        ("months".to_owned(), report.months(&names)),
        ("total".to_owned(), report.total()),
    ]);
    Ok(ReplyBody::Data(data).into())
}

/// `GET sys/internal/counters/activity/monthly`.
async fn show_present(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let core = call.core;
    let present = present_month(core);
    let report = collect(core, present..=present).await?;
    let names = MountNames::of(core);
    let mut data = match report.total() {
        serde_json::Value::Object(counts) => counts,
        _ => Map::new(),
    };
    data.insert("by_namespace".to_owned(), json!([report.namespace(&names)]));
    data.insert("months".to_owned(), report.months(&names));
    Ok(ReplyBody::Data(data).into())
}

fn present_month(core: &Core) -> ActivityMonth {
    ActivityMonth::of_seconds(core.store.now() / 1_000)
}

/// Reads the clients of each month of the period. Months before the first month with clients are
/// left out.
async fn collect(
    core: &Core,
    period: RangeInclusive<ActivityMonth>,
) -> Result<ActivityReport, Failure> {
    let recorded = core.activity.months(&core.store).await?;
    let mut report = ActivityReport::default();
    // A period before the oldest month that can be stored is empty: its end is before its start.
    let Some(first) = recorded.iter().find(|month| period.contains(month)) else {
        return Ok(report);
    };
    let mut month = *first;
    while month <= *period.end() {
        match recorded.contains(&month) {
            true => report.add(month, core.activity.read(&core.store, month).await?),
            false => report.add_empty(month),
        }
        month = month.plus(1);
    }
    Ok(report)
}

/// Returns the months from `start_time` to `end_time`, neither in the future nor before the oldest
/// month that can be stored.
///
/// # Errors
/// 400 for a text that is not a time, and for a period that ends before its beginning.
fn read_period(
    fields: RequestFields<'_>,
    present: ActivityMonth,
) -> Result<RangeInclusive<ActivityMonth>, Failure> {
    let month = |name, default| match fields.text(name) {
        "" => Ok(default),
        text => parse_month(text).ok_or_else(|| {
            Failure::invalid(format!(
                "{name} {} is not a time; give a time such as 2026-11-01T00:00:00Z, or seconds \
                 since 1970",
                quoted(text)
            ))
        }),
    };
    let end = month("end_time", present)?;
    let start = month("start_time", end.minus(EARLIER_MONTHS))?;
    if start > end {
        return Err(Failure::invalid(
            "start_time is after end_time; give a period that begins before its end",
        ));
    }
    let oldest = present.minus(MAX_RETENTION_MONTHS);
    Ok(start.max(oldest)..=end.min(present))
}

fn parse_month(text: &str) -> Option<ActivityMonth> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(ActivityMonth::of_seconds(seconds));
    }
    let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(ActivityMonth::of_seconds(u64::try_from(moment.unix_timestamp()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn period(start: &str, end: &str) -> Result<[String; 2], Failure> {
        let fields = json!({ "start_time": start, "end_time": end });
        let Value::Object(fields) = fields else { unreachable!() };
        let present = ActivityMonth::parse("2026-11").unwrap();
        let period = read_period(RequestFields::new(&fields), present)?;
        Ok([period.start().word(), period.end().word()])
    }

    #[test]
    fn period_is_whole_months_up_to_the_present() {
        assert_eq!(period("", "").unwrap(), ["2025-12", "2026-11"]);
        let given = period("2026-03-31T23:00:00-05:00", "1793491199").unwrap();
        assert_eq!(given, ["2026-04", "2026-10"]);
        assert_eq!(period("0", "2030-01-01T00:00:00Z").unwrap(), ["2021-11", "2026-11"]);
        for (start, end) in [("yesterday", ""), ("", "2026-11"), ("2026-11-01T00:00:00Z", "0")] {
            assert!(period(start, end).is_err(), "{start} {end}");
        }
    }
}
