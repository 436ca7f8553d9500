//! The server dies, or meets an error, at each failpoint of a creation and a revocation in MariaDB,
//! where neither is a transaction: afterwards each account has a lease, and no lease is gone while
//! its account logs in.
//!
//! `kill_loop.rs` tests the same with PostgreSQL, and covers the failpoints up to the configuration
//! of the mount; these faults begin later.

use crate::database_life::DatabaseLife;
use crate::databases::DatabaseKind;
use crate::injected::{FaultObserved, InjectedFault, answered};
use crate::points;
use crate::stage::{SOON, lease_count, mariadb};
use bulkhead_tests::Answer;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::collections::BTreeSet;

/// A life of leases.
struct LeaseLife<'a, D> {
    base: DatabaseLife<'a, D>,
    /// A credential with an answered creation and no answered revocation.
    held: Option<HeldCredential>,
}

struct HeldCredential {
    user: String,
    password: String,
    lease: String,
    /// True if a revocation was sent.
    is_ending: bool,
}

impl<'a, D: DatabaseKind> LeaseLife<'a, D> {
    /// Starts a server with the environment; `None` if the server died during the start.
    fn begin(database: &'a D, name: &str, environment: &[(&str, String)]) -> Option<Self> {
        let base = DatabaseLife::begin(database, name, environment)?;
        Some(Self { base, held: None })
    }

    fn configure(&self) -> Result<(), FaultObserved> {
        self.base.configure()?;
        self.base.add_role()
    }

    /// Renews and revokes a credential, and issues another one.
    fn use_role(&mut self) -> Result<(), FaultObserved> {
        self.issue()?;
        self.renew()?;
        self.revoke()?;
        self.issue()
    }

    fn issue(&mut self) -> Result<(), FaultObserved> {
        let path = format!("database/creds/{}", self.base.name);
        let issued = answered(self.base.root.attempt("GET", &path, b""))?.expect(200);
        self.held = Some(HeldCredential::of(&issued));
        Ok(())
    }

    fn renew(&self) -> Result<(), FaultObserved> {
        let credential = self.held.as_ref().expect("a credential was issued before");
        let fields = json!({ "lease_id": credential.lease, "increment": "2h" });
        self.base.write("sys/leases/renew", &fields)?.expect(200);
        Ok(())
    }

    fn revoke(&mut self) -> Result<(), FaultObserved> {
        let credential = self.held.as_mut().expect("a credential was issued before");
        credential.is_ending = true;
        let lease = json!({ "lease_id": credential.lease });
        self.base.write("sys/leases/revoke", &lease)?.expect(204);
        let ended = self.held.take();
        assert!(ended.is_some_and(|ended| !self.logs_in(&ended)), "a revoked account logs in");
        Ok(())
    }

    fn logs_in(&self, held: &HeldCredential) -> bool {
        self.base.database.logs_in(&held.user, &held.password)
    }

    /// Restarts the server and checks the accounts and the leases.
    fn check(&mut self) {
        self.base.restart();
        if let Some(held) = &self.held {
            let (has_lease, logs_in) = (self.base.has_lease(&held.lease), self.logs_in(held));
            assert!(
                has_lease || !logs_in,
                "an account outlives its lease: {}",
                self.base.log_text()
            );
            assert!(logs_in || held.is_ending, "an account is lost: {}", self.base.log_text());
        }
        until_true("each account has a lease", SOON, || self.users() <= self.leases());
        let ended = self.base.root.write("sys/leases/revoke-prefix/database", &json!({}));
        assert!(ended.status < 300, "{ended:?}");
        self.base.leaves_no_account();
        if self.base.root.read(&self.base.role_path()).status == 200 {
            self.base.check_role();
        }
        assert_eq!(self.base.issued(), Vec::<String>::new(), "a revoked account exists");
    }

    /// Number of names with accounts. A creation makes several accounts of one name.
    fn users(&self) -> usize {
        let issued = self.base.issued();
        let names = issued.iter().map(|account| account.split('@').next());
        names.collect::<BTreeSet<_>>().len()
    }

    fn leases(&self) -> usize {
        lease_count(&self.base.root, &format!("database/creds/{}", self.base.name))
    }
}

impl HeldCredential {
    fn of(issued: &Answer) -> Self {
        Self {
            user: issued.text("username").to_owned(),
            password: issued.text("password").to_owned(),
            lease: issued.lease().to_owned(),
            is_ending: false,
        }
    }
}

#[test]
fn crash_at_any_failpoint_leaves_no_mariadb_account() {
    every_point(mariadb(), "abort");
}

#[test]
fn error_at_any_failpoint_leaves_no_mariadb_account() {
    every_point(mariadb(), "fail");
}

fn every_point<D: DatabaseKind>(database: &D, fault: &str) {
    let first = points::passed_by(fault, |environment| before_leases(database, fault, environment));
    let what = format!("leases with {}", D::PLUGIN);
    points::every_behind(&what, fault, first, |number| live(database, fault, number));
}

/// Runs a life up to the configured role.
fn before_leases<'a, D: DatabaseKind>(
    database: &'a D,
    fault: &str,
    environment: &[(&str, String)],
) -> LeaseLife<'a, D> {
    let life = LeaseLife::begin(database, &name(fault, 0), environment)
        .expect("the server starts without a fault");
    assert!(life.configure().is_ok(), "{}", life.base.log_text());
    life
}

/// Returns a name that fits into the name of a user as it is.
fn name(fault: &str, number: u32) -> String {
    format!("{}{number}", if fault == "abort" { 'x' } else { 'y' })
}

/// Runs a life with a fault. Returns false if the life ended before the fault fired.
fn live<D: DatabaseKind>(database: &D, fault: &str, number: u32) -> bool {
    let name = name(fault, number);
    let fault = InjectedFault::at(fault, number);
    let begun = LeaseLife::begin(database, &name, &fault.environment());
    let Some(mut life) = begun else { return true };
    let lived = life.configure().and_then(|()| life.use_role());
    let came = fault.end(&mut life.base.server, &lived);
    life.check();
    came
}
