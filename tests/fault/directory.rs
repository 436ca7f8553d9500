//! The server dies, or meets an error, at each failpoint of rotations and loans of directory
//! accounts: afterwards each displayed password logs in, no account is lost, and no account is lent
//! twice.
//!
//! `kill_loop.rs` covers the failpoints up to the configuration of the mount; these faults begin
//! later. `cuts/directory.rs` cuts the connections to the directory in the same lives.

use crate::injected::{FaultObserved, InjectedFault, answered, write};
use crate::points;
use crate::stage::{AT_ONCE, FIRST, LONG_STRIDE, SOON, STRIDE};
use bulkhead_tests::paths::{Folder, fault_binary};
use bulkhead_tests::wait::{until, until_true};
use bulkhead_tests::{Answer, Branch, Bulkhead, Client, DirectoryKind, DirectoryServer};
use serde_json::{Value, json};

/// The accounts of one life: `build` belongs to a role, `lent` to a set.
pub struct DirectoryLife {
    /// The engine's configuration.
    pub config: Value,
    branch: Branch,
    server: Bulkhead,
    root: Client,
    /// A loan with an answered check-out and no check-in.
    held: Option<Loan>,
    /// Loans with a sent check-in or revocation, answered or not.
    returned: Vec<Loan>,
}

struct Loan {
    password: String,
    lease: String,
    /// True if a check-in or a revocation was answered with success.
    has_ended: bool,
}

impl DirectoryLife {
    /// Creates the accounts for a running server.
    pub fn on(kind: DirectoryKind, server: Bulkhead) -> Self {
        let branch = DirectoryServer::shared(kind).branch();
        branch.add_all(&["build", "lent"].map(|name| (name.to_owned(), FIRST)));
        let (config, root) = (branch.config(), server.root());
        Self { config, branch, server, root, held: None, returned: Vec::new() }
    }

    /// Starts a server with the environment; `None` if the server died during the start.
    fn begin(kind: DirectoryKind, environment: &[(&str, String)]) -> Option<Self> {
        let mut server = Bulkhead::prepared(fault_binary(), Folder::new("directory"));
        server.start_with(environment).ok()?;
        Some(Self::on(kind, server))
    }

    fn write(&self, path: &str, body: &Value) -> Result<Answer, FaultObserved> {
        write(&self.root, path, body)
    }

    pub fn configure(&self) -> Result<(), FaultObserved> {
        self.write("directory/config", &self.config).map(drop)
    }

    /// Runs each kind of rotation: at a read, on request, of the engine's own account, of an
    /// account that enters a set, at a check-in, and at the revocation of a loan.
    fn rotate(&mut self) -> Result<(), FaultObserved> {
        self.add_role()?;
        self.rotate_role()?;
        self.rotate_root()?;
        self.add_set()?;
        self.borrow()?;
        self.check_in()?;
        self.borrow()?;
        self.revoke()?;
        self.borrow()
    }

    /// Creates the role of `build`, and reads the role's first password.
    pub fn add_role(&self) -> Result<(), FaultObserved> {
        let role = json!({ "service_account_name": self.branch.full("build") });
        self.write("directory/roles/build", &role)?;
        answered(self.root.attempt("GET", "directory/creds/build", b"")).map(drop)
    }

    pub fn rotate_role(&self) -> Result<(), FaultObserved> {
        self.write("directory/rotate-role/build", &json!({})).map(drop)
    }

    pub fn rotate_root(&self) -> Result<(), FaultObserved> {
        self.write("directory/rotate-root", &json!({})).map(drop)
    }

    /// Creates the set of `lent`.
    pub fn add_set(&self) -> Result<(), FaultObserved> {
        let set = json!({ "service_account_names": self.branch.full("lent"), "ttl": "1h" });
        self.write("directory/library/team", &set).map(drop)
    }

    pub fn borrow(&mut self) -> Result<(), FaultObserved> {
        let lent = self.write("directory/library/team/check-out", &json!({}))?.expect(200);
        let password = lent.text("password").to_owned();
        let lease = lent.lease().to_owned();
        self.held = Some(Loan { password, lease, has_ended: false });
        Ok(())
    }

    /// Returns the borrowed account by a check-in.
    pub fn check_in(&mut self) -> Result<(), FaultObserved> {
        self.give_back("directory/library/team/check-in", |_| json!({}))
    }

    /// Returns the borrowed account by a revocation of the lease.
    pub fn revoke(&mut self) -> Result<(), FaultObserved> {
        self.give_back("sys/leases/revoke", |loan| json!({ "lease_id": loan.lease }))
    }

    fn give_back(
        &mut self,
        path: &str,
        body: impl Fn(&Loan) -> Value,
    ) -> Result<(), FaultObserved> {
        let loan = self.held.take().expect("the account was borrowed before");
        let answer = self.write(path, &body(&loan));
        let has_ended = answer.is_ok();
        self.returned.push(Loan { has_ended, ..loan });
        let answer = answer?;
        assert!(answer.status < 300, "{answer:?}");
        Ok(())
    }

    /// Waits until retries by the server have ended the leases of revoked loans.
    pub fn await_ended_leases(&self) {
        self.check_returned();
        until_true("the revocation is retried", SOON, || {
            !self.returned.iter().any(|loan| self.has_lease(loan))
        });
    }

    /// Checks the passwords and the set.
    pub fn check(&self) {
        self.check_returned();
        if self.root.read("directory/config").status == 200 {
            // An unfinished rotation would add a warning and answer 200.
            until_true("the engine logs in, and rotates itself", SOON, || {
                self.root.write("directory/rotate-root", &json!({})).status == 204
            });
        }
        if self.root.read("directory/roles/build").status == 200 {
            until_true("the role shows a password", SOON, || {
                self.root.read("directory/creds/build").status == 200
            });
            let shown = self.root.read("directory/creds/build").expect(200);
            assert!(
                self.branch.takes("build", shown.text("current_password")),
                "{}",
                self.log_text()
            );
        }
        if self.root.read("directory/library/team").status == 200 {
            self.check_set();
        }
    }

    /// Checks that no lease is gone while the loan's password logs in, and that every answered
    /// return has ended the lease.
    fn check_returned(&self) {
        for loan in &self.returned {
            let has_lease = self.has_lease(loan);
            assert!(
                has_lease || !self.takes(loan),
                "a lease is gone too early: {}",
                self.log_text()
            );
            assert!(!has_lease || !loan.has_ended, "a return is lost: {}", self.log_text());
        }
    }

    fn check_set(&self) {
        if let Some(loan) = &self.held {
            self.check_held(loan);
        }
        let named = json!({ "service_account_names": self.branch.full("lent") });
        let (lent, _) = until("the account is lent", SOON, || {
            let given = self.root.write("directory/library/team/check-out", &json!({}));
            if given.status == 200 {
                return Some(given);
            }
            // After a lost answer no borrower can check in the account.
            self.root.write("directory/library/manage/team/check-in", &named);
            None
        });
        assert!(self.branch.takes("lent", lent.text("password")), "{}", self.log_text());
        for loan in self.returned.iter().chain(&self.held) {
            assert!(!self.has_lease(loan), "an account is lent twice: {}", self.log_text());
            assert!(!self.takes(loan), "an earlier borrower logs in: {}", self.log_text());
        }
        self.root.write("directory/library/team/check-out", &json!({})).expect(400);
    }

    /// Checks that a loan is in force, and ends the loan.
    fn check_held(&self, loan: &Loan) {
        assert!(self.has_lease(loan), "{}", self.log_text());
        let other = self.root.write("directory/library/team/check-out", &json!({}));
        assert_eq!(other.status, 400, "an account is lent twice: {}", self.log_text());
        assert!(self.takes(loan), "{}", self.log_text());
        let named = json!({ "service_account_names": self.branch.full("lent") });
        self.root.write("directory/library/team/check-in", &named).expect(200);
        assert!(!self.takes(loan), "{}", self.log_text());
    }

    fn has_lease(&self, loan: &Loan) -> bool {
        let lease = json!({ "lease_id": loan.lease });
        self.root.write("sys/leases/lookup", &lease).status == 200
    }

    fn takes(&self, loan: &Loan) -> bool {
        self.branch.takes("lent", &loan.password)
    }

    pub fn log_text(&self) -> String {
        self.server.printed()
    }
}

#[test]
fn crash_at_any_failpoint_loses_no_directory_account() {
    every_point(DirectoryKind::OpenLdap, "abort");
}

#[test]
fn error_at_any_failpoint_loses_no_directory_account() {
    every_point(DirectoryKind::OpenLdap, "fail");
}

#[test]
fn crash_at_any_failpoint_loses_no_samba_account() {
    every_point(DirectoryKind::Samba, "abort");
}

#[test]
fn error_at_any_failpoint_loses_no_samba_account() {
    every_point(DirectoryKind::Samba, "fail");
}

fn every_point(kind: DirectoryKind, fault: &str) {
    let first = points::passed_by(fault, |environment| before_rotations(kind, environment));
    let what = format!("directory {kind:?}");
    // A life takes half a second of Samba's single process, and a thirtieth of OpenLDAP.
    let stride = if kind == DirectoryKind::Samba { LONG_STRIDE } else { STRIDE };
    let pace = (stride, AT_ONCE);
    points::at_stride_behind(pace, &what, fault, first, |number| live(kind, fault, number));
}

/// Runs a life up to the configured mount.
fn before_rotations(kind: DirectoryKind, environment: &[(&str, String)]) -> DirectoryLife {
    let life = DirectoryLife::begin(kind, environment).expect("the server starts without a fault");
    assert!(life.configure().is_ok(), "{}", life.log_text());
    life
}

/// Runs a life with a fault. Returns false if the life ended before the fault fired.
fn live(kind: DirectoryKind, fault: &str, number: u32) -> bool {
    let fault = InjectedFault::at(fault, number);
    let Some(mut life) = DirectoryLife::begin(kind, &fault.environment()) else { return true };
    let lived = life.configure().and_then(|()| life.rotate());
    let came = fault.end(&mut life.server, &lived);
    life.server.start_again();
    life.root = life.server.root();
    life.check();
    came
}
