//! The server dies, or meets an error, in each write of an initialisation with an automatic seal,
//! of a migration between seals, and of a change of the seal's key: afterwards the data open with
//! the old or the new seal, and nothing is lost.

use crate::configured_seal::ConfiguredSeal;
use crate::injected::{FaultObserved, InjectedFault, write};
use crate::points;
use crate::sealed_life::{SealedLife, StoppedData, THRESHOLD};
use crate::stage::{AT_ONCE, LONG_STRIDE, STRIDE};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::operators::{give, seal_status};
use bulkhead_tests::paths::Folder;
use serde_json::json;

/// A migration of copied data to another seal, which a fault may hit.
struct Migration {
    template: StoppedData,
    target: ConfiguredSeal,
}

impl Migration {
    fn between(from: ConfiguredSeal, target: ConfiguredSeal) -> Self {
        Self { template: StoppedData::of(from), target }
    }

    /// Starts a server with the other seal. Returns whether the start was complete.
    fn start(&self, environment: &[(&str, String)]) -> (SealedLife, bool) {
        let mut life = self.template.life();
        life.change_seal(self.target.copied());
        let has_started = life.server.start_with(environment).is_ok();
        (life, has_started)
    }

    /// Gives enough shares for the migration.
    fn migrate(&self, server: &Bulkhead) -> Result<(), FaultObserved> {
        for (count, key) in (1..).zip(&self.template.operators.keys[..THRESHOLD]) {
            let share = json!({ "key": key, "migrate": true });
            let answer = write(&server.client(None), "sys/unseal", &share)?;
            let is_sealed = json!(count < THRESHOLD);
            assert_eq!((answer.status, &answer.body["sealed"]), (200, &is_sealed));
        }
        Ok(())
    }

    /// Migrates under every fault, and starts the server again. `check` gets the life, and whether
    /// the migration was answered.
    fn under_each_fault(&self, fault: &str, check: impl Fn(&mut SealedLife, bool) + Sync) {
        let name = format!("migration to {}", self.target.name());
        let first = points::passed_by(fault, |environment| self.start(environment).0);
        points::each_behind(&name, fault, first, |number| {
            let injected = InjectedFault::at(fault, number);
            let (mut life, has_started) = self.start(&injected.environment());
            let migrated = match has_started {
                true => self.migrate(&life.server),
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

fn fault_in_migration_from_shamir(target: ConfiguredSeal, fault: &str) {
    let migration = Migration::between(ConfiguredSeal::shamir(), target);
    migration.under_each_fault(fault, |life, is_answered| {
        if seal_status(&life.server)["migration"] == true {
            assert!(!is_answered, "the migration was answered");
            assert!(migration.migrate(&life.server).is_ok());
        }
        life.await_open();
        migration.template.assert_policy_readable(&life.server);
        life.server.kill();
        life.open_by_seal();
    });
}

fn fault_in_migration_to_shamir(from: ConfiguredSeal, fault: &str) {
    let migration = Migration::between(from, ConfiguredSeal::shamir());
    migration.under_each_fault(fault, |life, is_answered| {
        if seal_status(&life.server)["migration"] == true {
            assert!(!is_answered, "the migration was answered");
            life.server.kill();
            life.change_seal(migration.template.seal());
            life.open_by_seal();
        } else {
            for key in &migration.template.operators.keys[..THRESHOLD] {
                give(&life.server, key).expect(200);
            }
        }
    });
}

/// The keeper has a new key, and the start seals the data with the new key.
fn fault_in_key_rotation(seal: ConfiguredSeal, fault: &str) {
    let name = format!("rotation of the key of {}", seal.name());
    let template = StoppedData::of(seal);
    points::each_behind(&name, fault, 0, |number| {
        let injected = InjectedFault::at(fault, number);
        let mut life = template.life();
        life.rotate_key();
        let started = match injected.start(&mut life.server) {
            true => Ok(()),
            false => Err(FaultObserved),
        };
        let came = match &started {
            Ok(()) => injected.end(&mut life.server, &started),
            Err(FaultObserved) => true,
        };
        println!("{name}: {fault}@{number}");
        life.open_by_seal();
        template.assert_policy_readable(&life.server);
        life.server.kill();
        life.open_without_previous_key();
        template.assert_policy_readable(&life.server);
        came
    });
}

fn fault_in_initialisation(seal: &ConfiguredSeal, stride: u32, fault: &str) {
    let fields = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
    let name = format!("initialisation with {}", seal.name());
    points::at_stride_behind((stride, AT_ONCE), &name, fault, 0, |number| {
        let injected = InjectedFault::at(fault, number);
        let mut life = SealedLife::on(Folder::new("seal-data"), seal.copied());
        let has_started = life.server.start_with(&injected.environment()).is_ok();
        let answer = match has_started {
            true => write(&life.server.client(None), "sys/init", &fields),
            false => Err(FaultObserved),
        };
        let came = !has_started || injected.end(&mut life.server, &answer);
        life.server.start_again();
        println!("{name}: {fault}@{number}");
        let is_initialised = seal_status(&life.server)["initialized"] == true;
        match answer {
            Ok(answer) => {
                life.await_open();
                let token = answer.expect(200).body["root_token"].clone();
                let root = life.server.client(token.as_str());
                root.read("sys/policies/acl/default").expect(200);
            }
            Err(FaultObserved) if is_initialised => {
                life.await_open();
                life.server.kill();
                life.open_by_seal();
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
    fault_in_migration_from_shamir(ConfiguredSeal::static_key(), "abort");
}

#[test]
fn error_in_migration_to_static_keeps_data() {
    fault_in_migration_from_shamir(ConfiguredSeal::static_key(), "fail");
}

#[test]
fn crash_in_migration_to_transit_keeps_data() {
    fault_in_migration_from_shamir(ConfiguredSeal::transit(), "abort");
}

#[test]
fn error_in_migration_to_transit_keeps_data() {
    fault_in_migration_from_shamir(ConfiguredSeal::transit(), "fail");
}

#[test]
fn crash_in_migration_from_static_keeps_data() {
    fault_in_migration_to_shamir(ConfiguredSeal::static_key(), "abort");
}

#[test]
fn error_in_migration_from_static_keeps_data() {
    fault_in_migration_to_shamir(ConfiguredSeal::static_key(), "fail");
}

#[test]
fn crash_in_migration_from_transit_keeps_data() {
    fault_in_migration_to_shamir(ConfiguredSeal::transit(), "abort");
}

#[test]
fn error_in_migration_from_transit_keeps_data() {
    fault_in_migration_to_shamir(ConfiguredSeal::transit(), "fail");
}

#[test]
fn crash_in_static_key_replacement_keeps_data() {
    fault_in_key_rotation(ConfiguredSeal::static_key(), "abort");
}

#[test]
fn error_in_static_key_replacement_keeps_data() {
    fault_in_key_rotation(ConfiguredSeal::static_key(), "fail");
}

#[test]
fn crash_in_transit_key_rotation_keeps_data() {
    fault_in_key_rotation(ConfiguredSeal::transit(), "abort");
}

#[test]
fn error_in_transit_key_rotation_keeps_data() {
    fault_in_key_rotation(ConfiguredSeal::transit(), "fail");
}

#[test]
fn crash_in_static_initialisation_keeps_data() {
    fault_in_initialisation(&ConfiguredSeal::static_key(), STRIDE, "abort");
}

#[test]
fn error_in_static_initialisation_keeps_data() {
    fault_in_initialisation(&ConfiguredSeal::static_key(), STRIDE, "fail");
}

#[test]
fn crash_in_transit_initialisation_keeps_data() {
    fault_in_initialisation(&ConfiguredSeal::transit(), LONG_STRIDE, "abort");
}

#[test]
fn error_in_transit_initialisation_keeps_data() {
    fault_in_initialisation(&ConfiguredSeal::transit(), LONG_STRIDE, "fail");
}
