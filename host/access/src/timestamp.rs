//! Times as answers show them.

use serde_json::Value;

/// Formats seconds since 1970 as RFC 3339 in UTC.
pub fn timestamp(seconds: u64) -> Value {
    let moment = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| time::OffsetDateTime::from_unix_timestamp(seconds).ok());
    let text = moment
        .and_then(|moment| moment.format(&time::format_description::well_known::Rfc3339).ok());
    text.map_or(Value::Null, Value::String)
}
