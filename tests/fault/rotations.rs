//! The server dies, or meets an error, at each failpoint of a rotation: afterwards the displayed
//! password logs in, the connection works, and no rotation is unfinished.
//!
//! `kill_loop.rs` covers the failpoints up to the first rotation; these faults begin later.

use crate::database_life::{DatabaseLife, done};
use crate::databases::DatabaseKind;
use crate::injected::{FaultObserved, InjectedFault};
use crate::points;
use crate::stage::{LONG_STRIDE, SOON, STRIDE, WAITING_AT_ONCE, mariadb, postgres};
use bulkhead_tests::wait::{until_ok, until_true};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Longest wait for a scheduled rotation before the life looks at the server.
const A_WHILE: Duration = Duration::from_secs(15);

/// Interval between two looks at the database, each of which starts a program.
const LOOK: Duration = Duration::from_millis(250);

impl<D: DatabaseKind> DatabaseLife<'_, D> {
    /// Runs each kind of rotation: at creation, on request, of the connection's own user, on
    /// schedule.
    fn rotate(&mut self) -> Result<(), FaultObserved> {
        self.add_static_role(&json!(5))?;
        self.rotate_now()?;
        self.await_rotation()?;
        self.add_static_role(&json!("1h"))
    }

    /// Waits for a rotation on schedule. Looks at the database first: each answer of the server
    /// passes a failpoint, and a life for each of many equal answers shows nothing more.
    fn await_rotation(&mut self) -> Result<(), FaultObserved> {
        let (before, app, end) = (self.shown(), self.app(), Instant::now() + A_WHILE);
        while self.database.logs_in(&app, &before) && Instant::now() < end {
            self.pause(LOOK)?;
        }
        while self.shown() == before && Instant::now() < end {
            self.pause(Duration::from_millis(50))?;
        }
        Ok(())
    }

    /// Waits for this time. Fails if the server ends.
    fn pause(&mut self, time: Duration) -> Result<(), FaultObserved> {
        self.server.ended(time).map_or(Ok(()), |_| Err(FaultObserved))
    }

    /// Runs each kind of rotation but those on schedule.
    fn rotate_on_request(&mut self) -> Result<(), FaultObserved> {
        self.add_static_role(&json!("1h"))?;
        self.rotate_now()
    }

    fn add_static_role(&self, period: &Value) -> Result<(), FaultObserved> {
        self.write("database/static-roles/app", &self.static_role(period)).map(drop)
    }

    /// Rotates on request the role and the connection's own user. Writes that replace the new
    /// password of the connection's own user, or lead elsewhere, follow the rotation.
    fn rotate_now(&self) -> Result<(), FaultObserved> {
        self.write("database/rotate-role/app", &json!({}))?;
        self.write("database/rotate-root/c", &json!({}))?;
        self.overwrite()
    }

    /// Writes the connection with its first password, then for another place, then back.
    fn overwrite(&self) -> Result<(), FaultObserved> {
        self.write("database/config/c", &self.first())?;
        let mut away = self.first();
        away["connection_url"] = json!(self.database.url_elsewhere());
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
    fn check_rotations(&mut self) {
        self.restart();
        until_true("what is shown logs in", SOON, || !self.has_role() || self.shown_logs_in());
        if self.root.read("database/config/c").status == 200 {
            // The life may have ended while the connection led elsewhere. 400: the password of the
            // rotation is in use.
            until_true("the connection leads back", SOON, || {
                let written = self.root.write("database/config/c", &self.first());
                [200, 204, 400].contains(&written.status)
            });
            self.check_connection();
            let role = self.static_role(&json!("1h"));
            until_ok("no rotation of the role is unfinished", SOON, || {
                done(self.root.write("database/static-roles/app", &role))?;
                done(self.root.write("database/rotate-role/app", &json!({})))
            });
            assert!(self.shown_logs_in());
        }
    }

    fn shown_logs_in(&self) -> bool {
        self.database.logs_in(&self.app(), &self.shown())
    }
}

#[test]
fn crash_at_any_rotation_failpoint_loses_no_password() {
    every_point(postgres(), "abort", STRIDE, |life| life.rotate());
}

#[test]
fn error_at_any_rotation_failpoint_loses_no_password() {
    every_point(postgres(), "fail", STRIDE, |life| life.rotate());
}

#[test]
fn crash_of_mariadb_rotation_loses_no_password() {
    every_point(mariadb(), "abort", LONG_STRIDE, |life| life.rotate_on_request());
}

#[test]
fn error_of_mariadb_rotation_loses_no_password() {
    every_point(mariadb(), "fail", LONG_STRIDE, |life| life.rotate_on_request());
}

/// `rotate` runs the rotations of a life.
fn every_point<D: DatabaseKind>(
    database: &D,
    fault: &str,
    stride: u32,
    rotate: impl Fn(&mut DatabaseLife<'_, D>) -> Result<(), FaultObserved> + Sync,
) {
    let first =
        points::passed_by(fault, |environment| before_rotations(database, fault, environment));
    let what = format!("rotations with {}", D::PLUGIN);
    let live = |number| live(database, fault, number, &rotate);
    points::at_stride_behind((stride, WAITING_AT_ONCE), &what, fault, first, live);
}

/// Runs a life up to the configured connection.
fn before_rotations<'a, D: DatabaseKind>(
    database: &'a D,
    fault: &str,
    environment: &[(&str, String)],
) -> DatabaseLife<'a, D> {
    let life = DatabaseLife::begin(database, &format!("{fault}0"), environment)
        .expect("the server starts without a fault");
    assert!(life.configure().is_ok(), "{}", life.log_text());
    life
}

/// Runs a life with a fault. Returns false if the life ended before the fault fired.
fn live<D: DatabaseKind>(
    database: &D,
    fault: &str,
    number: u32,
    rotate: impl Fn(&mut DatabaseLife<'_, D>) -> Result<(), FaultObserved>,
) -> bool {
    let name = format!("{fault}{number}");
    let fault = InjectedFault::at(fault, number);
    let begun = DatabaseLife::begin(database, &name, &fault.environment());
    let Some(mut life) = begun else { return true };
    let lived = life.configure().and_then(|()| rotate(&mut life));
    let came = fault.end(&mut life.server, &lived);
    life.check_rotations();
    came
}
