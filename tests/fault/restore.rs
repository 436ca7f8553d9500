//! The server dies, or meets an error, at each failpoint of a restore: afterwards the server has
//! all data from before the restore, or all data of the snapshot, and restored data wait for their
//! release. The snapshot is of the server itself, or of another cluster. People open the data, or
//! an automatic seal does, with a key that is newer than the key of the snapshot.

use crate::configured_seal::ConfiguredSeal;
use crate::injected::{FaultObserved, InjectedFault, answered, write};
use crate::points;
use crate::sealed_life::{SealedLife, StoppedData, THRESHOLD};
use bulkhead_tests::operators::{Operators, give, seal_status};
use bulkhead_tests::paths::Folder;
use bulkhead_tests::{Bulkhead, storage};
use serde_json::json;
use std::fs;

/// A restore into copies of stopped data. The data have a policy that is not in the snapshot. With
/// an automatic seal, the key of the seal was rotated after the snapshot.
struct Restore {
    template: StoppedData,
    snapshot: Vec<u8>,
    /// Operators of the cluster of the snapshot. `None`: the snapshot is of the server.
    others: Option<Operators>,
}

impl Restore {
    fn of_own_snapshot(seal: ConfiguredSeal) -> Self {
        let (template, snapshot) = StoppedData::with(seal, |server, operators| {
            let snapshot = snapshot_of(server, operators);
            let policy = json!({ "policy": "path \"a\" {}" });
            operators.root(server).write("sys/policies/acl/later", &policy).expect(204);
            snapshot
        });
        let template = match template.seal().is_automatic() {
            true => template.with_rotated_key(),
            false => template,
        };
        Self { template, snapshot, others: None }
    }

    /// As [`Restore::of_own_snapshot`], with the snapshot of another cluster. The keeper of the
    /// seal's key is the same.
    fn of_other_snapshot(seal: ConfiguredSeal) -> Self {
        let (others, snapshot) = StoppedData::with(seal.copied(), snapshot_of);
        Self { snapshot, others: Some(others.operators), ..Self::of_own_snapshot(seal) }
    }

    /// Starts the server with a fault. Returns false if the server died during the start.
    fn start(&self, life: &mut SealedLife, injected: &InjectedFault) -> bool {
        match life.seal.is_automatic() {
            true => injected.start(&mut life.server),
            false => life.server.start_with(&injected.environment()).is_ok(),
        }
    }

    /// Returns the number of failpoints before the restore.
    fn points_before(&self, fault: &str) -> u32 {
        let mut life = self.template.life();
        if life.seal.is_automatic() {
            return points::passed_by_start(fault, life.server);
        }
        points::passed_by(fault, |environment| {
            life.server.start_with(environment).expect("the server starts without a fault");
            assert!(self.unseal(&life).is_ok(), "no fault was asked for");
            life
        })
    }

    /// Unseals a started server that people open.
    fn unseal(&self, life: &SealedLife) -> Result<(), FaultObserved> {
        if life.seal.is_automatic() {
            return Ok(());
        }
        for key in &self.template.operators.keys[..THRESHOLD] {
            let answer = write(&life.server.client(None), "sys/unseal", &json!({ "key": key }))?;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        Ok(())
    }

    /// Restores the snapshot. A restored server that a fault keeps sealed answers 200.
    fn restore(&self, server: &Bulkhead) -> Result<(), FaultObserved> {
        let root = self.template.operators.root(server);
        let path = match self.others {
            None => "sys/storage/snapshot",
            Some(_) => "sys/storage/snapshot-force",
        };
        let answer = answered(root.attempt("POST", path, &self.snapshot))?;
        assert!([200, 204].contains(&answer.status), "{answer:?}");
        Ok(())
    }

    /// Opens the restarted server with the keys of either cluster, or awaits its seal. Returns the
    /// operators of the data.
    #[track_caller]
    fn open_either(&self, life: &SealedLife) -> &Operators {
        let (server, own) = (&life.server, &self.template.operators);
        if life.seal.is_automatic() {
            life.await_open();
            return self.others.as_ref().filter(|others| is_root(server, others)).unwrap_or(own);
        }
        if let Some(others) = &self.others {
            for key in &others.keys[..THRESHOLD] {
                // The keys of the snapshot are wrong if the old data remained.
                let answer = give(server, key);
                assert!([200, 400].contains(&answer.status), "{answer:?}");
            }
            if seal_status(server)["sealed"] == false {
                return others;
            }
        }
        own.unseal(server);
        own
    }

    /// Asserts that the restarted server has the old data or the restored data, and nothing of
    /// both, and that an automatic seal needs its newest key alone.
    #[track_caller]
    fn assert_complete(&self, life: &mut SealedLife, is_answered: bool) {
        let operators = self.open_either(life);
        let (server, root) = (&life.server, operators.root(&life.server));
        root.read("sys/policies/acl/kept").expect(200);
        let has_later = root.read("sys/policies/acl/later").status == 200;
        let is_restored = seal_status(server)["due_work_suspended"].is_string();
        assert_eq!(is_restored, !has_later, "restored data have the note of the restore");
        assert!(is_restored || !is_answered, "the restore was answered");
        let left = storage::unfinished_data(server.data());
        assert!(left.is_empty(), "{left:?} are left");
        if is_restored {
            assert!(storage::has_replaced_data(server.data()), "the old data stay");
            root.write("sys/release", &json!({})).expect(204);
            assert!(seal_status(server)["due_work_suspended"].is_null());
        }
        let policy = json!({ "policy": "path \"a\" {}" });
        root.write("sys/policies/acl/new", &policy).expect(204);
        if life.seal.is_automatic() {
            life.server.kill();
            life.open_without_previous_key();
            operators.root(&life.server).read("sys/policies/acl/new").expect(200);
        }
    }
}

/// Returns a snapshot of an open server.
fn snapshot_of(server: &Bulkhead, operators: &Operators) -> Vec<u8> {
    let folder = Folder::new("snapshot");
    let file = folder.path().join("a.snap");
    let path = file.display().to_string();
    let mut command = server.command(&["operator", "snapshot", "save", &path]);
    let saved = command.env("BULKHEAD_TOKEN", &operators.token).output();
    let saved = saved.expect("the command can be started");
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    fs::read(&file).expect("the snapshot is there")
}

/// Returns whether the open server has the data of these operators.
fn is_root(server: &Bulkhead, operators: &Operators) -> bool {
    let answer = operators.root(server).read("sys/policies/acl/kept");
    assert!([200, 403].contains(&answer.status), "{answer:?}");
    answer.status == 200
}

fn old_or_new_data_remain(fault: &str, restore: &Restore) {
    let first = restore.points_before(fault);
    let seal = restore.template.seal().name();
    let of_others = restore.others.as_ref().map_or("", |_| " of another cluster");
    let name = format!("restore{of_others} under {seal}");
    points::each_behind(&name, fault, first, |number| {
        let injected = InjectedFault::at(fault, number);
        let mut life = restore.template.life();
        if !restore.start(&mut life, &injected) {
            return true;
        }
        let lived = restore.unseal(&life).and_then(|()| restore.restore(&life.server));
        let came = injected.end(&mut life.server, &lived);
        life.server.start_again();
        println!("{name}: {fault}@{number}");
        restore.assert_complete(&mut life, lived.is_ok());
        came
    });
}

#[test]
fn crash_during_restore_leaves_old_or_new_data() {
    old_or_new_data_remain("abort", &Restore::of_own_snapshot(ConfiguredSeal::shamir()));
}

#[test]
fn error_during_restore_leaves_old_or_new_data() {
    old_or_new_data_remain("fail", &Restore::of_own_snapshot(ConfiguredSeal::shamir()));
}

#[test]
fn crash_during_forced_restore_leaves_one_cluster() {
    old_or_new_data_remain("abort", &Restore::of_other_snapshot(ConfiguredSeal::shamir()));
}

#[test]
fn error_during_forced_restore_leaves_one_cluster() {
    old_or_new_data_remain("fail", &Restore::of_other_snapshot(ConfiguredSeal::shamir()));
}

#[test]
fn crash_during_restore_under_static_seal_keeps_data() {
    let restore = Restore::of_own_snapshot(ConfiguredSeal::static_key());
    old_or_new_data_remain("abort", &restore);
}

#[test]
fn error_during_restore_under_static_seal_keeps_data() {
    let restore = Restore::of_own_snapshot(ConfiguredSeal::static_key());
    old_or_new_data_remain("fail", &restore);
}

#[test]
fn crash_during_forced_restore_under_static_seal() {
    let restore = Restore::of_other_snapshot(ConfiguredSeal::static_key());
    old_or_new_data_remain("abort", &restore);
}

#[test]
fn error_during_forced_restore_under_static_seal() {
    let restore = Restore::of_other_snapshot(ConfiguredSeal::static_key());
    old_or_new_data_remain("fail", &restore);
}

#[test]
fn restore_passes_each_of_its_failpoints() {
    // The failpoints are between acts on files.
    let _files = storage::on_files();
    let restore = Restore::of_own_snapshot(ConfiguredSeal::shamir());
    let notes = Folder::new("trace");
    let trace = notes.path().join("trace");
    let mut life = restore.template.life();
    let environment = [("BULKHEAD_FAULT_TRACE", trace.display().to_string())];
    life.server.start_with(&environment).expect("the server starts without a fault");
    assert!(restore.unseal(&life).is_ok() && restore.restore(&life.server).is_ok());
    let passed = fs::read_to_string(&trace).expect("the trace is there");
    let of_restore = points::all().into_iter().filter(points::Point::is_of_restore);
    let missed: Vec<String> = of_restore
        .map(|point| point.name)
        .filter(|name| !passed.lines().any(|line| line == name))
        .collect();
    assert!(missed.is_empty(), "the restore does not pass {missed:?}");
}
