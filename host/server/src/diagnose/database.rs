//! Checks of a database server: reachability, settings that lose data, time of a round trip, free
//! connections and clock.
//!
//! This file prevents an operator who learns at a failover, or under load, of a setting that was
//! wrong from the start. The running server of Bulkhead is not disturbed.

use super::findings::{CheckStatus, Diagnosis};
use crate::config::{Config, unverified_server};
use crate::production::environment;
use bulkhead_store::{
    DataDirectory, DatabaseChoice, DatabaseServerReport, PostgresPlace, StoreFault, StoreOptions,
};
use std::time::Duration;

/// Name of the checks.
const DATABASE: &str = "database";
/// Round trip above which writes are slow: a group of commits takes four or five.
const SLOW_ROUND_TRIP: Duration = Duration::from_millis(10);
/// Difference of the clocks that synchronised machines do not have, in milliseconds.
const CLOCK_TOLERANCE: u64 = 1_000;

/// Checks the database server, if the records are on a server.
pub(super) async fn check(config: &Config, is_in_use: bool, diagnosis: &mut Diagnosis) {
    if config.database.is_file() {
        return;
    }
    if config.database.has_written_password() {
        let message = "connection_url holds a password, and every reader of the configuration \
                       reads the password; write the password to a file with mode 0600, and name \
                       the file in password_file";
        diagnosis.add(DATABASE, CheckStatus::Warn, message);
    }
    let options = match config.store_options(&environment) {
        Ok(options) => options,
        Err(why) => return diagnosis.add(DATABASE, CheckStatus::Fail, why),
    };
    let DatabaseChoice::Postgres(place) = &options.database else { return };
    if let Some((server, mode)) = unverified_server(place) {
        diagnosis.add(DATABASE, CheckStatus::Warn, describe_unverified(&server.host, mode));
    }
    match examine(&options, is_in_use).await {
        Ok(Some(report)) => {
            diagnosis.add(DATABASE, CheckStatus::Ok, format!("{place} can be reached"));
            if let Some(node_id) = &config.node_id {
                let message = format!("shared with other nodes, as node {node_id}");
                diagnosis.add(DATABASE, CheckStatus::Ok, message);
            }
            add_report(&report, place, is_in_use, diagnosis);
        }
        Ok(None) => {}
        Err(why) => diagnosis.add(DATABASE, CheckStatus::Fail, why),
    }
}

/// Describes connections to another machine that do not prove the identity of the machine.
fn describe_unverified(host: &str, mode: &str) -> String {
    format!(
        "sslmode {mode} does not verify {host}: another machine could pose as the database and \
         receive the password; write sslmode = \"verify-full\", and sslrootcert if the authority \
         is your own"
    )
}

/// Checks that a start would take the database, and examines the database server. A server of
/// Bulkhead with the data directory holds the claim itself.
async fn examine(
    options: &StoreOptions,
    is_in_use: bool,
) -> Result<Option<DatabaseServerReport>, String> {
    let examined = async {
        DataDirectory::examine(options).await?;
        if !is_in_use {
            DataDirectory::examine_claim(options).await?;
        }
        DataDirectory::examine_server(options).await
    };
    examined.await.map_err(|fault: StoreFault| fault.to_string())
}

fn add_report(
    report: &DatabaseServerReport,
    place: &PostgresPlace,
    is_in_use: bool,
    diagnosis: &mut Diagnosis,
) {
    for doubt in &report.durability_doubts {
        diagnosis.add(DATABASE, CheckStatus::Warn, doubt.as_str());
    }
    if place.servers.len() > 1 && report.has_synchronous_standby == Some(false) {
        let message = "several servers are named, and no standby is synchronous: a failover may \
                       lose the last acknowledged commits; set synchronous_standby_names, unless \
                       the database replicates in another way";
        diagnosis.add(DATABASE, CheckStatus::Warn, message);
    }
    let (status, message) = round_trip(report.round_trip);
    diagnosis.add(DATABASE, status, message);
    for (status, message) in
        [connections(report, place.max_parallel, is_in_use), clock(report.clock_lead)]
            .into_iter()
            .flatten()
    {
        diagnosis.add(DATABASE, status, message);
    }
}

fn round_trip(time: Duration) -> (CheckStatus, String) {
    let milliseconds = time.as_secs_f64() * 1_000.0;
    let found = format!("a round trip takes {milliseconds:.2} ms");
    if time <= SLOW_ROUND_TRIP {
        return (CheckStatus::Ok, found);
    }
    let advice = "a write waits for four or five; run the server nearer to the database";
    (CheckStatus::Warn, format!("{found}, and {advice}"))
}

/// Compares the connections that the server of Bulkhead may open with the connections that are
/// free. `None` if the database does not tell.
fn connections(
    report: &DatabaseServerReport,
    max_parallel: u32,
    is_in_use: bool,
) -> Option<(CheckStatus, String)> {
    let allowed = report.allowed_connections?;
    let needed = u64::from(max_parallel).saturating_add(1);
    // The connections of a running server of Bulkhead are among the used connections.
    let own = if is_in_use { needed } else { 0 };
    let used = report.used_connections.unwrap_or_default().saturating_sub(own);
    let free = allowed.saturating_sub(used);
    let found = format!("{free} connections are free, and this server opens up to {needed}");
    Some(match free < needed {
        true => (
            CheckStatus::Warn,
            format!("{found}; raise max_connections of the database, or lower max_parallel"),
        ),
        false => (CheckStatus::Ok, found),
    })
}

/// Judges the lead of the database's clock, in milliseconds. `None` if the database does not tell.
fn clock(lead: Option<i64>) -> Option<(CheckStatus, String)> {
    let lead = lead?;
    if lead.unsigned_abs() <= CLOCK_TOLERANCE {
        return Some((CheckStatus::Ok, "the clocks of database and machine agree".to_owned()));
    }
    let direction = if lead > 0 { "ahead of" } else { "behind" };
    let message = format!(
        "the clock of the database is {} ms {direction} this machine; synchronise both clocks",
        lead.unsigned_abs()
    );
    Some((CheckStatus::Warn, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> DatabaseServerReport {
        DatabaseServerReport {
            round_trip: Duration::from_millis(1),
            durability_doubts: Vec::new(),
            has_synchronous_standby: Some(false),
            allowed_connections: Some(97),
            used_connections: Some(80),
            clock_lead: Some(-30),
        }
    }

    fn place(hosts: &str) -> PostgresPlace {
        PostgresPlace::from_url(&format!("postgresql://u@{hosts}/d")).unwrap()
    }

    fn warnings(report: &DatabaseServerReport, hosts: &str) -> Vec<String> {
        let mut diagnosis = Diagnosis::default();
        add_report(report, &place(hosts), false, &mut diagnosis);
        assert!(diagnosis.failures().is_empty());
        diagnosis.remarks()
    }

    #[test]
    fn healthy_server_has_no_warning() {
        assert_eq!(warnings(&report(), "127.0.0.1"), [""; 0]);
    }

    #[test]
    fn slow_full_and_skewed_server_has_warnings() {
        let report = DatabaseServerReport {
            round_trip: Duration::from_millis(25),
            durability_doubts: vec!["fsync = off".to_owned()],
            used_connections: Some(81),
            clock_lead: Some(90_000),
            ..report()
        };
        let found = warnings(&report, "a,b");
        let parts =
            ["fsync = off", "no standby", "25.00 ms", "16 connections are free", "90000 ms"];
        assert_eq!(found.len(), parts.len(), "{found:?}");
        for (found, part) in found.iter().zip(parts) {
            assert!(found.starts_with("warning: database: ") && found.contains(part), "{found}");
        }
    }

    #[test]
    fn connections_of_running_server_count_as_free() {
        let full = DatabaseServerReport { used_connections: Some(97), ..report() };
        for (is_in_use, status, free) in
            [(false, CheckStatus::Warn, "0 "), (true, CheckStatus::Ok, "17 ")]
        {
            let (found, message) = connections(&full, 16, is_in_use).unwrap();
            assert!(found == status && message.starts_with(free), "{is_in_use}: {message}");
        }
        let few = DatabaseServerReport { used_connections: Some(3), ..report() };
        let (_, message) = connections(&few, 16, true).unwrap();
        assert!(message.starts_with("97 "), "{message}");
    }

    #[test]
    fn silent_database_gives_no_finding() {
        let report = DatabaseServerReport {
            has_synchronous_standby: None,
            allowed_connections: None,
            used_connections: None,
            clock_lead: None,
            ..report()
        };
        assert_eq!(warnings(&report, "a,b"), [""; 0]);
    }
}
