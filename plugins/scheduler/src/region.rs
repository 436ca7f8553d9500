//! The region that a mount serves, and the age of its records if another region is authoritative.
//!
//! This file prevents a reader from mistaking stale records for current records: each read from a
//! replica states the replica's age, and the operator can limit the age.

use crate::index::RecordTable;
use crate::refusal::ApiRefusal;
use crate::region_config::RegionConfig;
use crate::replication_round::ReplicaState;
use crate::request::ApiRequest;
use bulkhead_sdk::Failure;
use bulkhead_sdk::raw::RawReply as Sent;

/// Both names of the header.
const AGE: [&str; 2] = ["X-Nomad-ReplicationAge", "X-Scheduler-ReplicationAge"];

/// Adds the age of the replica to the answer of a read.
///
/// # Errors
/// 500 if the replica is older than the configuration allows.
pub(crate) fn report_age(request: &ApiRequest<'_>, mut sent: Sent) -> Result<Sent, ApiRefusal> {
    let Some(table) = table_of(request) else { return Ok(sent) };
    let config = RegionConfig::stored(request.host)?;
    if !config.is_replica() {
        return Ok(sent);
    }
    let age = age(request, &config, table)?;
    if config.max_stale > 0 && age > config.max_stale {
        let (region, most) = (&config.authoritative_region, config.max_stale);
        return Err(ApiRefusal::Answered {
            status: 500,
            text: format!(
                "the replica of region {region} is {age} ms old and may be {most} ms old: try \
                 again once region {region} answers, or write a longer max_stale"
            ),
        });
    }
    sent.headers.extend(AGE.map(|name| (name.to_owned(), age.to_string())));
    Ok(sent)
}

/// Returns the milliseconds since the authoritative region last confirmed the table.
fn age(
    request: &ApiRequest<'_>,
    config: &RegionConfig,
    table: RecordTable,
) -> Result<u64, Failure> {
    let state = ReplicaState::stored(request.storage(), table)?;
    let confirmed = state.map_or(config.since, |state| state.confirmed);
    Ok(request.now().saturating_sub(confirmed))
}

/// Returns the table that a path reads.
fn table_of(request: &ApiRequest<'_>) -> Option<RecordTable> {
    match request.segments.get(1).map(String::as_str)? {
        "roles" | "role" => Some(RecordTable::Roles),
        "policies" | "policy" => Some(RecordTable::Policies),
        "tokens" | "token" => Some(RecordTable::Tokens),
        _ => None,
    }
    .filter(|_| request.segments.first().is_some_and(|first| first == "acl"))
}
