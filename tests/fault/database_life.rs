//! A server with one connection to a database, and the accounts of one life.

use crate::databases::DatabaseKind;
use crate::injected::{FaultObserved, write};
use crate::stage::{FIRST, SOON};
use bulkhead_tests::paths::{Folder, fault_binary};
use bulkhead_tests::wait::{until_ok, until_true};
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};

/// A server, and its accounts in a database: `NAME-keeper` of the connection, `NAME-app` for a
/// static role, and the accounts of the role `NAME`.
pub struct DatabaseLife<'a, D> {
    pub database: &'a D,
    pub name: String,
    pub server: Bulkhead,
    pub root: Client,
    /// Port of the connection.
    port: u16,
}

impl<'a, D: DatabaseKind> DatabaseLife<'a, D> {
    /// Creates the accounts of a life whose server reaches the database over `port`.
    pub fn on(server: Bulkhead, database: &'a D, name: &str, port: u16) -> Self {
        database.make_accounts(&format!("{name}-keeper"), &format!("{name}-app"));
        Self { database, name: name.to_owned(), root: server.root(), server, port }
    }

    /// Starts a server with failpoints and the environment; `None` if the server died during the
    /// start.
    pub fn begin(database: &'a D, name: &str, environment: &[(&str, String)]) -> Option<Self> {
        let mut server = Bulkhead::prepared(fault_binary(), Folder::new("database-life"));
        server.start_with(environment).ok()?;
        Some(Self::on(server, database, name, database.port()))
    }

    pub fn restart(&mut self) {
        self.server.start_again();
        self.root = self.server.root();
    }

    /// Sends a write that a fault may hit.
    pub fn write(&self, path: &str, body: &Value) -> Result<Answer, FaultObserved> {
        write(&self.root, path, body)
    }

    pub fn configure(&self) -> Result<(), FaultObserved> {
        self.write("database/config/c", &self.connection()).map(drop)
    }

    /// Returns the connection, with its first password.
    pub fn connection(&self) -> Value {
        json!({
            "plugin_name": D::PLUGIN, "connection_url": self.database.url(self.port),
            "username": format!("{}-keeper", self.name), "password": FIRST, "allowed_roles": "*",
        })
    }

    /// Adds the role whose accounts have leases.
    pub fn add_role(&self) -> Result<(), FaultObserved> {
        let role = json!({
            "db_name": "c", "creation_statements": [D::CREATION], "default_ttl": "1h",
        });
        self.write(&self.role_path(), &role).map(drop)
    }

    pub fn role_path(&self) -> String {
        format!("database/roles/{}", self.name)
    }

    /// Name of the static role's account.
    pub fn app(&self) -> String {
        format!("{}-app", self.name)
    }

    pub fn static_role(&self, period: &Value) -> Value {
        json!({ "db_name": "c", "username": self.app(), "rotation_period": period })
    }

    pub fn create(&self) -> Answer {
        self.root.read(&format!("database/creds/{}", self.name))
    }

    pub fn revoke(&self, lease: &str) -> Answer {
        self.root.write("sys/leases/revoke", &json!({ "lease_id": lease }))
    }

    pub fn has_lease(&self, lease: &str) -> bool {
        self.root.write("sys/leases/lookup", &json!({ "lease_id": lease })).status == 200
    }

    /// Revokes the lease, again until its end.
    pub fn end_lease(&self, lease: &str) {
        until_ok("the lease ends", SOON, || match self.has_lease(lease) {
            true => done(self.revoke(lease)),
            false => Ok(()),
        });
    }

    /// Returns the existing accounts of the role.
    pub fn issued(&self) -> Vec<String> {
        self.database.accounts(&format!("-{}-", self.name))
    }

    pub fn leaves_no_account(&self) {
        let mut left = Vec::new();
        until_true("no account is left without a lease", SOON, || {
            left = self.issued();
            left.is_empty()
        });
    }

    /// Asserts that the connection's own user logs in, and that no rotation of the connection is
    /// unfinished.
    pub fn check_connection(&self) {
        until_ok("the connection's own user logs in", SOON, || {
            done(self.root.write("database/reset/c", &json!({})))
        });
        // An unfinished rotation would refuse another rotation.
        until_ok("no rotation of the connection is unfinished", SOON, || {
            done(self.root.write("database/rotate-root/c", &json!({})))
        });
    }

    /// Asserts that the role creates an account that logs in, and ends its lease.
    pub fn check_role(&self) {
        let issued = self.create().expect(200);
        let user = (issued.text("username"), issued.text("password"));
        assert!(self.database.logs_in(user.0, user.1), "{issued:?}");
        self.end_lease(issued.lease());
    }

    pub fn log_text(&self) -> String {
        self.server.printed()
    }
}

/// Returns the answer as an error, unless it is 204.
pub fn done(answer: Answer) -> Result<(), Answer> {
    if answer.status == 204 { Ok(()) } else { Err(answer) }
}
