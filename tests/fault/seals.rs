//! The server dies, or meets an error, in each write of an initialisation with a static seal, of a
//! migration between seals, and of a change of the seal's key: afterwards the data open with the
//! old or the new seal, and nothing is lost.

use crate::injected::{FaultObserved, InjectedFault, write};
use crate::points;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::operators::{Operators, give, seal_status};
use bulkhead_tests::paths::{Folder, fault_binary};
use bulkhead_tests::static_seal;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

const SHAMIR: &str = "seal \"shamir\" {}";

/// A life: a server of its own, with its configuration and keys.
struct SealLife {
    server: Bulkhead,
    keys: Folder,
}

impl SealLife {
    fn on(data: Folder) -> Self {
        let keys = Folder::new("seal-keys");
        let file = keys.path().join("bulkhead.hcl");
        Self { server: Bulkhead::prepared(fault_binary(), data).configured(file), keys }
    }

    fn with_seal(self, seal: &str) -> Self {
        self.configure(seal);
        self
    }

    fn configure(&self, seal: &str) {
        let text = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
             storage \"sqlite\" {{ path = {:?} }}\n{seal}\n",
            self.server.data()
        );
        fs::write(self.keys.path().join("bulkhead.hcl"), text).expect("a file can be written");
    }

    fn seal(&self, names: &[&str]) -> String {
        static_seal::block(self.keys.path(), names)
    }

    /// Starts the server, which opens the data by itself.
    #[track_caller]
    fn opens_by(&mut self, seal: &str) {
        self.configure(seal);
        self.server.start_again();
        let status = seal_status(&self.server);
        assert_eq!(status["sealed"], false, "{status}\n{}", self.server.printed());
    }
}

/// Data of a stopped server, to be copied for each life.
struct StoppedData {
    data: Folder,
    operators: Operators,
}

impl StoppedData {
    fn of(mut life: SealLife, init: &Value, list: &str) -> Self {
        life.server.start_again();
        let mut answer = life.server.client(None).write("sys/init", init).expect(200).body;
        answer["keys"] = answer[list].clone();
        let operators = Operators::of(&answer, 2);
        if list == "keys" {
            operators.unseal(&life.server);
        }
        let policy = json!({ "policy": "path \"a\" {}" });
        operators.root(&life.server).write("sys/policies/acl/kept", &policy).expect(204);
        assert!(life.server.stop(), "{}", life.server.printed());
        let data = copied(life.server.data());
        Self { data, operators }
    }

    fn of_shamir() -> Self {
        let life = SealLife::on(Folder::new("seal-data")).with_seal(SHAMIR);
        Self::of(life, &json!({ "secret_shares": 3, "secret_threshold": 2 }), "keys")
    }

    fn of_static() -> Self {
        let life = SealLife::on(Folder::new("seal-data"));
        let seal = life.seal(&["one"]);
        let init = json!({ "recovery_shares": 3, "recovery_threshold": 2 });
        Self::of(life.with_seal(&seal), &init, "recovery_keys")
    }

    fn life(&self) -> SealLife {
        SealLife::on(copied(self.data.path()))
    }

    #[track_caller]
    fn assert_policy_readable(&self, server: &Bulkhead) {
        self.operators.root(server).read("sys/policies/acl/kept").expect(200);
    }

    /// Gives enough shares for a migration.
    fn migrate(&self, server: &Bulkhead) -> Result<(), FaultObserved> {
        for (count, key) in (1..).zip(&self.operators.keys[..2]) {
            let given = json!({ "key": key, "migrate": true });
            let answer = write(&server.client(None), "sys/unseal", &given)?;
            assert_eq!((answer.status, &answer.body["sealed"]), (200, &json!(count < 2)));
        }
        Ok(())
    }
}

fn copied(from: &Path) -> Folder {
    let data = Folder::new("seal-data");
    let copy = Command::new("cp").arg("-a").arg(from.join(".")).arg(data.path()).status();
    assert!(copy.expect("cp can be started").success(), "{} is copied", from.display());
    data
}

/// A migration of copied data to a seal, which a fault may hit.
struct Migration<'a> {
    template: &'a StoppedData,
    seal: fn(&SealLife) -> String,
}

impl Migration<'_> {
    /// Starts a server with the other seal. Returns whether the start was complete.
    fn start(&self, environment: &[(&str, String)]) -> (SealLife, bool) {
        let mut life = self.template.life();
        life.configure(&(self.seal)(&life));
        let has_started = life.server.start_with(environment).is_ok();
        (life, has_started)
    }

    /// Migrates under every fault, and starts the server again. `check` gets the life, and whether
    /// the migration was answered.
    fn under_each_fault(
        &self,
        (name, fault): (&str, &str),
        check: impl Fn(&mut SealLife, bool) + Sync,
    ) {
        let first = points::passed_by(fault, |environment| self.start(environment).0);
        points::each_behind(name, fault, first, |number| {
            let injected = InjectedFault::at(fault, number);
            let (mut life, has_started) = self.start(&injected.environment());
            let migrated = match has_started {
                true => self.template.migrate(&life.server),
                false => Err(FaultObserved),
            };
            let came = !has_started || injected.end(&mut life.server, &migrated);
            life.server.start_again();
            println!("{name}: {fault}@{number}");
            check(&mut life, migrated.is_ok());
            self.template.assert_policy_readable(&life.server);
            came
        });
    }
}

fn fault_in_migration_to_static(fault: &str) {
    let template = StoppedData::of_shamir();
    let migration = Migration { template: &template, seal: |life| life.seal(&["one"]) };
    migration.under_each_fault(("migration to a static seal", fault), |life, is_answered| {
        if seal_status(&life.server)["migration"] == true {
            assert!(!is_answered, "the migration was answered");
            assert!(template.migrate(&life.server).is_ok());
        }
        template.assert_policy_readable(&life.server);
        life.server.kill();
        life.opens_by(&life.seal(&["one"]));
    });
}

fn fault_in_migration_to_shamir(fault: &str) {
    let template = StoppedData::of_static();
    let migration = Migration { template: &template, seal: |_| SHAMIR.to_owned() };
    migration.under_each_fault(("migration to Shamir's shares", fault), |life, is_answered| {
        if seal_status(&life.server)["migration"] == true {
            assert!(!is_answered, "the migration was answered");
            life.server.kill();
            life.opens_by(&life.seal(&["one"]));
        } else {
            for key in &template.operators.keys[..2] {
                give(&life.server, key).expect(200);
            }
        }
    });
}

fn fault_in_key_replacement(fault: &str) {
    let template = StoppedData::of_static();
    points::each_behind("replacement of a static key", fault, 0, |number| {
        let injected = InjectedFault::at(fault, number);
        let mut life = template.life();
        let both = life.seal(&["two", "one"]);
        life.configure(&both);
        let started = match injected.start(&mut life.server) {
            true => Ok(()),
            false => Err(FaultObserved),
        };
        let came = match &started {
            Ok(()) => injected.end(&mut life.server, &started),
            Err(FaultObserved) => true,
        };
        life.opens_by(&both);
        template.assert_policy_readable(&life.server);
        life.server.kill();
        life.opens_by(&life.seal(&["two"]));
        template.assert_policy_readable(&life.server);
        came
    });
}

fn fault_in_initialisation(fault: &str) {
    let fields = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
    points::every_behind("initialisation with a static seal", fault, 0, |number| {
        let injected = InjectedFault::at(fault, number);
        let mut life = SealLife::on(Folder::new("seal-data"));
        let seal = life.seal(&["one"]);
        life.configure(&seal);
        let has_started = life.server.start_with(&injected.environment()).is_ok();
        let answer = match has_started {
            true => write(&life.server.client(None), "sys/init", &fields),
            false => Err(FaultObserved),
        };
        let came = !has_started || injected.end(&mut life.server, &answer);
        life.server.start_again();
        let is_initialised = seal_status(&life.server)["initialized"] == true;
        match answer {
            Ok(answer) => {
                let token = answer.expect(200).body["root_token"].clone();
                let root = life.server.client(token.as_str());
                root.read("sys/policies/acl/default").expect(200);
            }
            Err(FaultObserved) if is_initialised => {
                assert_eq!(seal_status(&life.server)["sealed"], false);
                life.server.kill();
                life.opens_by(&seal);
            }
            Err(FaultObserved) => {
                life.server.client(None).write("sys/init", &fields).expect(200);
            }
        }
        came
    });
}

#[test]
fn crash_in_migration_to_static_keeps_data() {
    fault_in_migration_to_static("abort");
}

#[test]
fn error_in_migration_to_static_keeps_data() {
    fault_in_migration_to_static("fail");
}

#[test]
fn crash_in_migration_to_shamir_keeps_data() {
    fault_in_migration_to_shamir("abort");
}

#[test]
fn error_in_migration_to_shamir_keeps_data() {
    fault_in_migration_to_shamir("fail");
}

#[test]
fn crash_in_static_key_replacement_keeps_data() {
    fault_in_key_replacement("abort");
}

#[test]
fn error_in_static_key_replacement_keeps_data() {
    fault_in_key_replacement("fail");
}

#[test]
fn crash_in_static_initialisation_keeps_data() {
    fault_in_initialisation("abort");
}

#[test]
fn error_in_static_initialisation_keeps_data() {
    fault_in_initialisation("fail");
}
