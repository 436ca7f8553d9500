//! `sys/internal/counters/config`: whether and for how long clients are recorded.

use crate::endpoints::call::PermittedCall;
use crate::endpoints::reply::{Reply, ReplyBody};
use crate::endpoints::row::{Endpoint, field, read, write};
use bulkhead_access::activity::ActivitySettings;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, json};

/// Maximum number of months for which clients are stored.
pub(super) const MAX_RETENTION_MONTHS: u32 = 60;

/// Number of months of a report without `start_time`.
const REPORTED_MONTHS: u32 = 12;

pub(super) fn rows() -> Vec<Endpoint> {
    let path = "sys/internal/counters/config";
    let enabled = "enable, disable, or default; an effect follows within a minute";
    let months = "number of months for which clients are stored, at most 60; default 48";
    vec![
        read(path, "the settings of the record of clients").handled_by(show),
        write(path, "change the settings of the record of clients")
            .fields([
                field("enabled", FieldKind::String, enabled),
                field("retention_months", FieldKind::Int, months),
            ])
            .handled_by(change),
    ]
}

/// `GET sys/internal/counters/config`.
async fn show(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let settings = ActivitySettings::read(call.unit).await?;
    let enabled = match settings.enabled {
        None => "default-enabled",
        Some(true) => "enable",
        Some(false) => "disable",
    };
    let has_months = !call.core.activity.months(&call.core.store).await?.is_empty();
    let data = Map::from_iter([
        ("default_report_months".to_owned(), json!(REPORTED_MONTHS)),
        ("enabled".to_owned(), json!(enabled)),
        ("queries_available".to_owned(), json!(has_months)),
        ("reporting_enabled".to_owned(), json!(false)),
        ("retention_months".to_owned(), json!(settings.retention_months)),
    ]);
    Ok(ReplyBody::Data(data).into())
}

/// `POST sys/internal/counters/config`.
async fn change(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let mut settings = ActivitySettings::read(call.unit).await?;
    settings.enabled = match call.fields.text("enabled") {
        "" => settings.enabled,
        "default" => None,
        "enable" => Some(true),
        "disable" => Some(false),
        other => {
            let other = quoted(other);
            let message = format!("enabled {other} is unknown; give enable, disable or default");
            return Err(Failure::invalid(message));
        }
    };
    if let Some(months) = call.fields.integer("retention_months") {
        let within = u32::try_from(months).ok();
        let within = within.filter(|months| (1..=MAX_RETENTION_MONTHS).contains(months));
        settings.retention_months = within.ok_or_else(|| {
            Failure::invalid(format!(
                "retention_months {months} is not a number from 1 to {MAX_RETENTION_MONTHS}; give \
                 the number of months for which clients are stored"
            ))
        })?;
    }
    settings.put(call.unit)?;
    Ok(ReplyBody::Nothing.into())
}
