//! Times as the API writes them.

use bulkhead_sdk::database_plugin::StoreTime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Formats a time in RFC 3339, in UTC.
pub(crate) fn timestamp(at: StoreTime) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at) * 1_000_000).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// Formats a time that may not be there, as an empty text.
pub(crate) fn timestamp_or_empty(at: Option<StoreTime>) -> String {
    at.map(timestamp).unwrap_or_default()
}
