//! The server dies, or meets an error, at each failpoint of a rotation: afterwards the displayed
//! password logs in, the connection works, and no rotation is unfinished.
//!
//! `kill_loop.rs` covers the failpoints up to the first rotation; these faults begin later.

use crate::injected::{FaultObserved, InjectedFault, write};
use crate::points;
use crate::stage::{SOON, postgres};
use bulkhead_tests::paths::{Folder, fault_binary};
use bulkhead_tests::wait::{until_ok, until_true};
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Password of an account before a life takes it over.
const FIRST: &str = "Qd7-Vm3-Wx5-Bn8";
/// Longest wait for a scheduled rotation before the life looks at the server.
const A_WHILE: Duration = Duration::from_secs(15);

/// The accounts and objects of one life.
struct RotationLife {
    name: String,
    server: Bulkhead,
    root: Client,
}

impl RotationLife {
    /// Starts a server with the environment; `None` if the server died during the start.
    fn begin(name: &str, environment: &[(&str, String)]) -> Option<Self> {
        for user in [format!("{name}-app"), format!("{name}-keeper")] {
            let rights = if user.ends_with("keeper") { "SUPERUSER" } else { "" };
            postgres().query(&format!("CREATE ROLE \"{user}\" {rights} LOGIN PASSWORD '{FIRST}'"));
        }
        let mut server = Bulkhead::prepared(fault_binary(), Folder::new("rotations"));
        let started = server.start_with(environment);
        started.ok().map(|()| Self { name: name.to_owned(), root: server.root(), server })
    }

    fn connection(&self) -> Value {
        json!({
            "plugin_name": "postgresql-database-plugin", "connection_url": postgres().url(),
            "username": format!("{}-keeper", self.name), "password": FIRST, "allowed_roles": "*",
        })
    }

    fn write(&self, path: &str, body: &Value) -> Result<Answer, FaultObserved> {
        write(&self.root, path, body)
    }

    fn configure(&self) -> Result<(), FaultObserved> {
        self.write("database/config/c", &self.connection()).map(drop)
    }

    /// Runs each kind of rotation: at creation, on request, of the connection's own user, on
    /// schedule. Writes that replace the new password of the connection's own user, or lead
    /// elsewhere, follow the rotation.
    fn rotate(&mut self) -> Result<(), FaultObserved> {
        let role = json!({
            "db_name": "c", "username": format!("{}-app", self.name), "rotation_period": 5,
        });
        self.write("database/static-roles/app", &role)?;
        self.write("database/rotate-role/app", &json!({}))?;
        self.write("database/rotate-root/c", &json!({}))?;
        self.overwrite()?;
        let (before, began) = (self.shown(), Instant::now());
        while self.shown() == before && began.elapsed() < A_WHILE {
            if self.server.ended(Duration::from_millis(50)).is_some() {
                return Err(FaultObserved);
            }
        }
        let longer = json!({ "rotation_period": "1h" });
        self.write("database/static-roles/app", &longer).map(drop)
    }

    /// Writes the connection with its first password, then for another place, then back.
    fn overwrite(&self) -> Result<(), FaultObserved> {
        self.write("database/config/c", &self.first())?;
        let mut away = self.first();
        away["connection_url"] = json!(postgres().url().replace("=disable", "=prefer"));
        self.write("database/config/c", &away)?;
        self.write("database/config/c", &self.first()).map(drop)
    }

    /// The connection with its first password, which the engine does not try before it stores it.
    fn first(&self) -> Value {
        let mut first = self.connection();
        first["verify_connection"] = json!(false);
        first
    }

    /// The displayed password; empty without a role or an answer.
    fn shown(&self) -> String {
        let answer = self.root.attempt("GET", "database/static-creds/app", b"");
        let given = answer.ok().filter(|answer| answer.status == 200);
        given.map(|answer| answer.text("password").to_owned()).unwrap_or_default()
    }

    fn has_role(&self) -> bool {
        self.root.read("database/static-roles/app").status == 200
    }

    /// Restarts the server and checks the passwords and the connection.
    fn check(&mut self) {
        self.server.start_again();
        self.root = self.server.root();
        let app = format!("{}-app", self.name);
        until_true("what is shown logs in", SOON, || {
            !self.has_role() || postgres().login(&app, &self.shown(), "SELECT 1").is_ok()
        });
        if self.root.read("database/config/c").status == 200 {
            // The life may have ended while the connection led elsewhere. 400: the password of the
            // rotation is in use.
            until_true("the connection leads back", SOON, || {
                let written = self.root.write("database/config/c", &self.first());
                [200, 204, 400].contains(&written.status)
            });
            until_ok("the connection's own user logs in", SOON, || {
                done(self.root.write("database/reset/c", &json!({})))
            });
            // An unfinished rotation would refuse another rotation.
            until_ok("no rotation of the connection is unfinished", SOON, || {
                done(self.root.write("database/rotate-root/c", &json!({})))
            });
            let role = json!({ "db_name": "c", "username": app, "rotation_period": "1h" });
            until_ok("no rotation of the role is unfinished", SOON, || {
                done(self.root.write("database/static-roles/app", &role))?;
                done(self.root.write("database/rotate-role/app", &json!({})))
            });
            assert!(postgres().login(&app, &self.shown(), "SELECT 1").is_ok());
        }
    }
}

/// Returns the answer as an error, unless it is 204.
fn done(answer: Answer) -> Result<(), Answer> {
    if answer.status == 204 { Ok(()) } else { Err(answer) }
}

#[test]
fn a_crash_at_any_failpoint_of_a_rotation_loses_no_password() {
    every_point("abort");
}

#[test]
fn an_error_at_any_failpoint_of_a_rotation_loses_no_password() {
    every_point("fail");
}

fn every_point(fault: &str) {
    let first = points::passed_by(fault, |environment| before_rotations(fault, environment));
    points::every_behind("rotations", fault, first, |number| live(fault, number));
}

/// Runs a life up to the configured connection.
fn before_rotations(fault: &str, environment: &[(&str, String)]) -> RotationLife {
    let life = RotationLife::begin(&format!("{fault}0"), environment)
        .expect("the server starts without a fault");
    assert!(life.configure().is_ok(), "{}", life.server.printed());
    life
}

/// Runs a life with a fault. Returns false if the life ended before the fault fired.
fn live(fault: &str, number: u32) -> bool {
    let name = format!("{fault}{number}");
    let fault = InjectedFault::at(fault, number);
    let Some(mut life) = RotationLife::begin(&name, &fault.environment()) else { return true };
    let lived = life.configure().and_then(|()| life.rotate());
    let came = fault.end(&mut life.server, &lived);
    life.check();
    came
}
