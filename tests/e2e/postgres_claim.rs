//! The claim of a node on a PostgreSQL database: two servers on one database, and a server that
//! lost its claim.

use bulkhead_tests::operators::seal_status;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Postgres};
use std::time::Duration;

/// Time in which an idle server notices the loss of its claim, on a loaded machine.
const NOTICED: Duration = Duration::from_secs(30);

/// Returns the environment of a server with its data on `database`.
fn on(database: &Postgres) -> [(&'static str, String); 1] {
    let Postgres { password, port, .. } = database;
    let url = format!("postgresql://bulkhead:{password}@127.0.0.1:{port}/demo?sslmode=disable");
    [("BULKHEAD_PG_CONNECTION_URL", url)]
}

fn prepared() -> Bulkhead {
    Bulkhead::prepared(binary(), Folder::new("data"))
}

#[test]
fn second_server_on_postgres_database_is_refused() {
    let database = Postgres::start();
    let (mut first, mut second) = (prepared(), prepared());
    first.start_with(&on(&database)).expect("the database is free");
    second.start_with(&on(&database)).expect_err("the database is in use");
    let printed = second.printed();
    let process = format!("in use by another node: process {} on host ", first.pid());
    assert!(printed.contains(&process), "{printed}");
    first.root().read("sys/mounts").expect(200);
    // The lock of the directory proves that the first process is dead.
    first.kill();
    first.start_with(&on(&database)).expect("the claim is of the same directory");
    first.root().read("sys/mounts").expect(200);
}

#[test]
fn server_without_claim_refuses_and_seals_itself() {
    let database = Postgres::start();
    let mut server = prepared();
    server.start_with(&on(&database)).expect("the database is free");
    database.query("UPDATE bulkhead_node SET holder = NULL");
    until_true("the server seals itself", NOTICED, || seal_status(&server)["sealed"] == true);
    server.wait_for_print("database-claim-lost");
    server.root().read("sys/mounts").expect(503);
    assert!(server.stop());
    server.start_with(&on(&database)).expect("the claim is free");
    server.root().read("sys/mounts").expect(200);
}
