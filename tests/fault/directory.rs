//! The server dies, or meets an error, at each failpoint of rotations and loans of directory
//! accounts: afterwards each displayed password logs in, no account is lost, and no account is lent
//! twice.
//!
//! `kill_loop.rs` covers the failpoints up to the configuration of the mount; these faults begin
//! later.

use crate::injected::{FaultObserved, InjectedFault, answered, write};
use crate::points;
use crate::stage::SOON;
use bulkhead_tests::paths::{Folder, fault_binary};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Branch, Bulkhead, Client, DirectoryKind, DirectoryServer};
use serde_json::{Value, json};

/// Password of an account before a life takes it over.
const FIRST: &str = "Qd7-Vm3-Wx5-Bn8";

/// The accounts of one life: `build` belongs to a role, `lent` to a set.
struct DirectoryLife {
    branch: Branch,
    server: Bulkhead,
    root: Client,
    /// A loan with an answered check-out and no check-in.
    held: Option<Loan>,
    /// Passwords of loans with an answered check-in.
    returned: Vec<String>,
}

struct Loan {
    password: String,
    lease: String,
}

impl DirectoryLife {
    /// Starts a server with the environment; `None` if the server died during the start.
    fn begin(environment: &[(&str, String)]) -> Option<Self> {
        let branch = DirectoryServer::shared(DirectoryKind::OpenLdap).branch();
        branch.add_all(&["build", "lent"].map(|name| (name.to_owned(), FIRST)));
        let mut server = Bulkhead::prepared(fault_binary(), Folder::new("directory"));
        server.start_with(environment).ok()?;
        let root = server.root();
        Some(Self { branch, server, root, held: None, returned: Vec::new() })
    }

    fn write(&self, path: &str, body: &Value) -> Result<Answer, FaultObserved> {
        write(&self.root, path, body)
    }

    fn configure(&self) -> Result<(), FaultObserved> {
        self.write("directory/config", &self.branch.config()).map(drop)
    }

    /// Runs each kind of rotation: at a read, on request, of the engine's own account, of an
    /// account that enters a set, at a check-in, and at the revocation of a loan.
    fn rotate(&mut self) -> Result<(), FaultObserved> {
        let role = json!({ "service_account_name": self.branch.full("build") });
        self.write("directory/roles/build", &role)?;
        answered(self.root.attempt("GET", "directory/creds/build", b""))?;
        self.write("directory/rotate-role/build", &json!({}))?;
        self.write("directory/rotate-root", &json!({}))?;
        let set = json!({ "service_account_names": self.branch.full("lent"), "ttl": "1h" });
        self.write("directory/library/team", &set)?;
        self.borrow()?;
        self.give_back("directory/library/team/check-in", |_| json!({}))?;
        self.borrow()?;
        self.give_back("sys/leases/revoke", |loan| json!({ "lease_id": loan.lease }))?;
        self.borrow()
    }

    fn borrow(&mut self) -> Result<(), FaultObserved> {
        let lent = self.write("directory/library/team/check-out", &json!({}))?.expect(200);
        let password = lent.text("password").to_owned();
        self.held = Some(Loan { password, lease: lent.lease().to_owned() });
        Ok(())
    }

    fn give_back(
        &mut self,
        path: &str,
        body: impl Fn(&Loan) -> Value,
    ) -> Result<(), FaultObserved> {
        let loan = self.held.take().expect("the account was borrowed before");
        let answer = self.write(path, &body(&loan))?;
        assert!(answer.status < 300, "{answer:?}");
        self.returned.push(loan.password);
        Ok(())
    }

    /// Restarts the server and checks the passwords and the set.
    fn check(&mut self) {
        self.server.start_again();
        self.root = self.server.root();
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
            assert!(self.branch.takes("build", shown.text("current_password")), "{}", self.told());
        }
        if self.root.read("directory/library/team").status == 200 {
            self.check_set();
        }
    }

    fn check_set(&mut self) {
        let named = json!({ "service_account_names": self.branch.full("lent") });
        if let Some(loan) = &self.held {
            let lease = json!({ "lease_id": loan.lease });
            self.root.write("sys/leases/lookup", &lease).expect(200);
            let other = self.root.write("directory/library/team/check-out", &json!({}));
            assert_eq!(other.status, 400, "an account is lent twice: {}", self.told());
            assert!(self.branch.takes("lent", &loan.password), "{}", self.told());
            self.root.write("directory/library/team/check-in", &named).expect(200);
            assert!(!self.branch.takes("lent", &loan.password), "{}", self.told());
        }
        let mut lent = None;
        until_true("the account is lent", SOON, || {
            // After a lost answer no borrower can check in the account.
            let home = self.root.write("directory/library/manage/team/check-in", &named);
            let given = self.root.write("directory/library/team/check-out", &json!({}));
            let is_lent = home.status == 200 && given.status == 200;
            lent = is_lent.then_some(given);
            is_lent
        });
        let lent = lent.expect("the account is lent");
        assert!(self.branch.takes("lent", lent.text("password")), "{}", self.told());
        for password in &self.returned {
            assert_ne!(password, lent.text("password"), "the password of an earlier borrower");
        }
        self.root.write("directory/library/team/check-out", &json!({})).expect(400);
    }

    fn told(&self) -> String {
        self.server.printed()
    }
}

#[test]
fn a_crash_at_any_failpoint_loses_no_directory_account() {
    every_point("abort");
}

#[test]
fn an_error_at_any_failpoint_loses_no_directory_account() {
    every_point("fail");
}

fn every_point(fault: &str) {
    let first = points::passed_by(fault, before_rotations);
    points::every_behind("directory", fault, first, |number| live(fault, number));
}

/// Runs a life up to the configured mount.
fn before_rotations(environment: &[(&str, String)]) -> DirectoryLife {
    let life = DirectoryLife::begin(environment).expect("the server starts without a fault");
    assert!(life.configure().is_ok(), "{}", life.told());
    life
}

/// Runs a life with a fault. Returns false if the life ended before the fault fired.
fn live(fault: &str, number: u32) -> bool {
    let fault = InjectedFault::at(fault, number);
    let Some(mut life) = DirectoryLife::begin(&fault.environment()) else { return true };
    let lived = life.configure().and_then(|()| life.rotate());
    let came = fault.end(&mut life.server, &lived);
    life.check();
    came
}
