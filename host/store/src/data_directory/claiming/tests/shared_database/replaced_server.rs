//! Tests of nodes whose server is replaced: connections that carry nothing any more, and an old
//! primary server that still answers reads.

mod stalling_relay;
mod two_servers;

use std::time::Instant;

use super::super::place;
use super::*;
use crate::PostgresPlace;
use crate::postgres::PostgresDatabase;
use bulkhead_place::options::FlushPolicy;
use bulkhead_place::postgres_place::PostgresServer;
use stalling_relay::StallingRelay;
use tokio::task::JoinHandle;
use two_servers::TwoServers;

/// Maximum time until a node serves again: five seconds, and more for a busy machine.
const SERVICE_TIME: Duration = Duration::from_secs(20);
/// The sessions whose commit waits for the standby.
const WAITING_COMMITS: &str = "SELECT pid FROM pg_stat_activity \
     WHERE wait_event = 'SyncRep' AND query LIKE '%COMMIT'";

fn behind(scratch: &ScratchDirectory, ports: &[u16]) -> ScratchDirectory {
    let server = |port: &u16| PostgresServer { host: "127.0.0.1".to_owned(), port: *port };
    let servers: Vec<PostgresServer> = ports.iter().map(server).collect();
    let mut behind = scratch.beside();
    behind.change_place(|place| PostgresPlace { servers, ..place.clone() });
    behind
}

/// A firewall that forgets its connections answers nothing, and new connections pass.
#[tokio::test]
async fn node_serves_soon_after_connections_carry_nothing() {
    let relay = StallingRelay::start(bulkhead_test_database::port()).await;
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    scratch.open().await.close().await;
    let one = open_shared(&scratch, ClaimTimes::default()).await.unwrap();
    let directory = behind(&scratch, &[relay.port]);
    let other = open_shared(&directory, ClaimTimes::default()).await.unwrap();
    let policy = Address::new(Space::Core, "policy");
    put(&one, policy.clone(), "1").await;
    put(&other, data("a"), "1").await;
    assert_eq!(body(&other, &policy).await.unwrap(), "1");
    relay.stall();
    let begun = Instant::now();
    put(&one, policy.clone(), "2").await;
    while other.begin().get(&policy).await.is_err() {}
    assert_eq!(body(&other, &policy).await.unwrap(), "2");
    put(&other, data("a"), "2").await;
    assert!(begun.elapsed() < SERVICE_TIME, "{:?}", begun.elapsed());
}

/// A change on the promoted standby is answered only once a node that still reads the old primary
/// uses nothing in memory: the old primary stores no proof without its standby.
#[tokio::test]
async fn old_primary_serves_no_node_after_promotion() {
    let mut servers = TwoServers::start();
    let relay = StallingRelay::start(&servers.primary.to_string()).await;
    let scratch = servers.scratch().await;
    let (moving, cut_off) = (behind(&scratch, &[relay.port]), scratch.beside());
    let writer = open_shared(&moving, ClaimTimes::default()).await.unwrap();
    let reader = open_shared(&cut_off, ClaimTimes::default()).await.unwrap();
    let token = Address::new(Space::Token, "t");
    put(&writer, token.clone(), "1").await;
    assert_eq!(body(&reader, &token).await.unwrap(), "1");
    servers.promote();
    assert!(reader.data().read_changes().await.is_ok(), "the old primary answers reads");
    relay.redirect(servers.standby);
    let mut unit = writer.begin();
    unit.delete(token.clone());
    unit.commit().await.unwrap();
    assert!(reader.data().changes.check().is_err(), "a revoked token in memory");
    let found = reader.begin().get(&token).await;
    assert!(found.is_err(), "the old primary still has the token");
}

/// The end of a session that waits for the standby makes its commit visible, although a failover
/// would lose the commit.
#[tokio::test]
async fn visible_commit_is_answered_only_with_standby() {
    let mut servers = TwoServers::start();
    let scratch = servers.scratch().await;
    let store = open_shared(&scratch, IDLE).await.unwrap();
    let commit = show_commit_without_standby(&mut servers, &place(&scratch), &store).await;
    servers.start_standby();
    commit.await.unwrap().unwrap();
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
}

/// The standby that is promoted lacks the commit that the old primary showed: the commit is
/// answered if it is stored there, and not otherwise.
#[tokio::test]
async fn visible_commit_that_failover_loses_is_not_answered() {
    let mut servers = TwoServers::start();
    let relay = StallingRelay::start(&servers.primary.to_string()).await;
    let scratch = servers.scratch().await;
    let moving = behind(&scratch, &[relay.port]);
    let store = open_shared(&moving, IDLE).await.unwrap();
    let commit = show_commit_without_standby(&mut servers, &place(&scratch), &store).await;
    servers.stop_primary();
    servers.start_standby();
    servers.promote();
    relay.redirect(servers.standby);
    let answered = commit.await.unwrap();
    let stored = store.begin().get(&data("a")).await.unwrap();
    // The committer may have repeated the commit on the promoted standby.
    assert_eq!(answered.is_ok(), stored.is_some(), "{answered:?}");
}

/// Ends the standby, begins a commit, and ends the session of the commit: the primary shows the
/// commit. Returns the commit once its inspection waits for the standby.
async fn show_commit_without_standby(
    servers: &mut TwoServers,
    place: &PostgresPlace,
    store: &Arc<Store>,
) -> JoinHandle<Result<Option<u64>, StoreFault>> {
    let database = PostgresDatabase::open(place, FlushPolicy::EveryCommit).await.unwrap();
    end_standby(servers, &database).await;
    let mut unit = store.begin();
    unit.put(data("a"), b"1".to_vec(), IndexColumns::default());
    let commit = tokio::spawn(unit.commit());
    end_waiting_commit(&database).await;
    while database.query(WAITING_COMMITS).await.is_empty() {
        assert!(!commit.is_finished(), "answered without the standby");
        tokio::task::yield_now().await;
    }
    commit
}

/// Ends the standby. A standby that was killed may receive for a moment.
async fn end_standby(servers: &mut TwoServers, database: &PostgresDatabase) {
    servers.kill_standby();
    while !database.query("SELECT 1 FROM pg_stat_replication").await.is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Ends the session whose commit waits for the standby.
async fn end_waiting_commit(database: &PostgresDatabase) {
    while database.query(WAITING_COMMITS).await.is_empty() {
        tokio::task::yield_now().await;
    }
    let waiting = format!("({WAITING_COMMITS}) AS waiting");
    database.query(&format!("SELECT pg_terminate_backend(pid, 10000) FROM {waiting}")).await;
}
