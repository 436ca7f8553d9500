//! The examination of a real server.

use super::*;
use crate::DataDirectory;
use crate::postgres::statement_draft::run_script;
use crate::testing::{ScratchDirectory, TestDatabase};
use bulkhead_place::options::DatabaseChoice;

#[tokio::test]
async fn examination_reports_figures_of_server() {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    let options = scratch.options();
    let report = DataDirectory::examine_server(&options).await.unwrap().unwrap();
    assert!(report.round_trip > Duration::ZERO && report.round_trip < Duration::from_secs(45));
    assert_eq!(report.has_synchronous_standby, Some(false));
    assert!(report.allowed_connections.unwrap() > 0, "{report:?}");
    assert!(report.used_connections.is_some(), "{report:?}");
    // Server and test are on one machine.
    assert!(report.clock_lead.unwrap().abs() < 60_000, "{report:?}");
    assert!(!DataDirectory::has_data(&options).await.unwrap(), "nothing was created");
    let store = scratch.open().await;
    let usage = store.activity().connections.unwrap();
    assert!(usage.in_use <= usage.maximum && usage.maximum > 0, "{usage:?}");
    store.close().await;
    assert!(DataDirectory::has_data(&options).await.unwrap());
}

#[tokio::test]
async fn examination_of_sqlite_finds_no_server() {
    let scratch = ScratchDirectory::of_files();
    let options = scratch.options();
    assert_eq!(DataDirectory::examine_server(&options).await.unwrap(), None);
    assert!(!DataDirectory::has_data(&options).await.unwrap());
}

#[tokio::test]
async fn commit_without_durable_standby_is_doubted() {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    let DatabaseChoice::Postgres(place) = scratch.options().database else { panic!("no server") };
    let mut connection = connect(&place).await.unwrap();
    run_script(&mut connection, "SET synchronous_commit = off").await.unwrap();
    let doubts = find_doubts(&mut connection).await;
    assert!(doubts.iter().any(|doubt| doubt.contains("synchronous_commit = off")), "{doubts:?}");
}
