//! The examination of a server for an operator. Nothing is written.
//!
//! This file prevents an operator who learns at a failover, or from refused connections, of a
//! setting that was wrong from the start.

use std::time::{Duration, Instant};

use sqlx::Row as _;
use sqlx::postgres::PgConnection;

use crate::clock::system_milliseconds;
use crate::server_report::DatabaseServerReport;
use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_record::fault::StoreFault;

use super::postgres_error::PostgresError;
use super::readers::discard;
use super::server_clock;
use super::server_connector::connect;
use super::server_settings::{find_doubts, setting};
use super::statement_draft::StatementDraft;

/// Number of measured round trips, of which the shortest counts.
const ROUND_TRIPS: u32 = 3;
/// Settings with the numbers of connections that ordinary users cannot have.
const RESERVED: [&str; 2] = ["superuser_reserved_connections", "reserved_connections"];
const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname IS NOT NULL";

/// Examines the server at `place` over a connection of its own.
///
/// # Errors
/// [`StoreFault`] if the server cannot be reached or does not answer.
pub(crate) async fn examine_server(
    place: &PostgresPlace,
) -> Result<DatabaseServerReport, StoreFault> {
    let mut connection = connect(place).await?;
    let report = report_on(&mut connection).await;
    discard(connection).await;
    Ok(report?)
}

async fn report_on(connection: &mut PgConnection) -> Result<DatabaseServerReport, PostgresError> {
    let round_trip = measure_round_trip(connection).await?;
    let standbys = setting(connection, "synchronous_standby_names").await.ok().flatten();
    Ok(DatabaseServerReport {
        round_trip,
        durability_doubts: find_doubts(connection).await,
        has_synchronous_standby: standbys.map(|names| !names.trim().is_empty()),
        allowed_connections: allowed_connections(connection).await,
        used_connections: used_connections(connection).await,
        clock_lead: clock_lead(connection).await,
    })
}

async fn measure_round_trip(connection: &mut PgConnection) -> Result<Duration, PostgresError> {
    // The first statement is also prepared, which takes a further round trip.
    StatementDraft::of("SELECT 1").fetch(connection).await?;
    let mut shortest = Duration::MAX;
    for _ in 0..ROUND_TRIPS {
        let begun = Instant::now();
        StatementDraft::of("SELECT 1").fetch(connection).await?;
        shortest = shortest.min(begun.elapsed());
    }
    Ok(shortest)
}

async fn allowed_connections(connection: &mut PgConnection) -> Option<u64> {
    let mut allowed = number_of_setting(connection, "max_connections").await?;
    for name in RESERVED {
        let reserved = number_of_setting(connection, name).await.unwrap_or_default();
        allowed = allowed.saturating_sub(reserved);
    }
    Some(allowed)
}

async fn number_of_setting(connection: &mut PgConnection, name: &str) -> Option<u64> {
    setting(connection, name).await.ok()??.parse().ok()
}

async fn used_connections(connection: &mut PgConnection) -> Option<u64> {
    let sessions = number(connection, SESSIONS).await?;
    Some(u64::try_from(sessions).ok()?.saturating_sub(1))
}

/// Compares the clock of the server with the middle of the question's time.
async fn clock_lead(connection: &mut PgConnection) -> Option<i64> {
    let begun = system_milliseconds();
    let server_time = number(connection, &server_clock::question()).await?;
    let machine_time = begun.midpoint(system_milliseconds());
    Some(server_time.saturating_sub(i64::try_from(machine_time).ok()?))
}

async fn number(connection: &mut PgConnection, text: &str) -> Option<i64> {
    let rows = StatementDraft::of(text).fetch(connection).await.ok()?;
    rows.first()?.try_get(0).ok()
}

#[cfg(test)]
mod tests;
