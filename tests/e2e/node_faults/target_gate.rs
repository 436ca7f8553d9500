//! A gate in a target database: statements of a role that wait at the gate stop a node in the
//! middle of a change, for as long as the test wants.

use super::SOON;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Client, Postgres};
use serde_json::json;
use std::process::{Child, Stdio};

/// A statement that waits while the gate is closed.
pub(super) const PASSAGE: &str = "SELECT pg_advisory_xact_lock(7)";

/// The sessions that hold the gate or wait.
const AT_GATE: &str = "FROM pg_locks WHERE locktype = 'advisory' AND objid = 7";

/// A closed gate, which a session of its own holds.
pub(super) struct ClosedGate<'a> {
    target: &'a Postgres,
    session: Child,
}

impl<'a> ClosedGate<'a> {
    #[track_caller]
    pub(super) fn close(target: &'a Postgres) -> Self {
        let mut psql = target.psql_at(target.port, "SELECT pg_advisory_lock(7), pg_sleep(600)");
        let psql = psql.stdout(Stdio::null()).stderr(Stdio::null());
        let session = psql.spawn().expect("psql can be started");
        let gate = Self { target, session };
        until_true("the gate is closed", SOON, || gate.count("granted") == "1");
        gate
    }

    /// Waits until a statement waits.
    #[track_caller]
    pub(super) fn wait_for_caller(&self) {
        until_true("a statement waits at the gate", SOON, || self.count("NOT granted") != "0");
    }

    #[track_caller]
    pub(super) fn open(mut self) {
        let end = format!("SELECT pg_terminate_backend(pid) {AT_GATE} AND granted");
        self.target.query(&end);
        self.session.wait().expect("psql ends");
    }

    fn count(&self, which: &str) -> String {
        self.target.query(&format!("SELECT count(*) {AT_GATE} AND {which}"))
    }
}

/// Mounts `database/` with the connection `orders` to the target.
#[track_caller]
pub(crate) fn connect(root: &Client, target: &Postgres) {
    root.write("sys/mounts/database", &json!({ "type": "database" })).expect(204);
    let connection = json!({
        "plugin_name": "postgresql-database-plugin",
        "connection_url": target.url(),
        "allowed_roles": "*",
        "username": "bulkhead",
        "password": target.password,
    });
    root.write("database/config/orders", &connection).expect_success();
}
