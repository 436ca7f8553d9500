//! The server dies, or meets an error, at each failpoint of a restore: afterwards the server has
//! all data from before the restore, or all data of the snapshot, and restored data wait for their
//! release. The snapshot is of the server itself, or of another cluster.

use crate::injected::{FaultObserved, InjectedFault, answered, write};
use crate::points;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::operators::{Operators, give, seal_status};
use bulkhead_tests::paths::{Folder, fault_binary};
use serde_json::json;
use std::fs;
use std::process::Command;

/// A stopped server with a policy that is in the snapshot and a policy that is not.
struct StoppedServer {
    server: Bulkhead,
    operators: Operators,
    snapshot: Vec<u8>,
    /// Operators of the cluster of the snapshot. `None`: the snapshot is of the server.
    others: Option<Operators>,
}

impl StoppedServer {
    fn prepared() -> Self {
        let mut server = Bulkhead::prepared(fault_binary(), Folder::new("restore")).in_production();
        server.start_again();
        let operators = Operators::initialise(&server, 3, 2);
        operators.unseal(&server);
        let root = operators.root(&server);
        let policy = json!({ "policy": "path \"a\" {}" });
        root.write("sys/policies/acl/kept", &policy).expect(204);
        let folder = Folder::new("snapshot");
        let file = folder.path().join("a.snap");
        let path = file.display().to_string();
        let mut command = server.command(&["operator", "snapshot", "save", &path]);
        let saved = command.env("BULKHEAD_TOKEN", &operators.token).output();
        let saved = saved.expect("the command can be started");
        assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
        let snapshot = fs::read(&file).expect("the snapshot is there");
        root.write("sys/policies/acl/later", &policy).expect(204);
        assert!(server.stop(), "{}", server.printed());
        Self { server, operators, snapshot, others: None }
    }

    /// As [`StoppedServer::prepared`], with the snapshot of another cluster.
    fn with_snapshot_of_other_cluster() -> Self {
        let Self { operators: others, snapshot, .. } = Self::prepared();
        Self { snapshot, others: Some(others), ..Self::prepared() }
    }

    /// Returns a server with a copy of the data, not started yet.
    fn copied(&self) -> Bulkhead {
        let data = Folder::new("restore");
        let from = self.server.data().join(".");
        let copied = Command::new("cp").arg("-a").arg(&from).arg(data.path()).status();
        assert!(copied.expect("cp can be started").success(), "{} is copied", from.display());
        Bulkhead::prepared(fault_binary(), data).in_production()
    }

    fn unseal(&self, server: &Bulkhead) -> Result<(), FaultObserved> {
        for key in &self.operators.keys[..2] {
            let answer = write(&server.client(None), "sys/unseal", &json!({ "key": key }))?;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        Ok(())
    }

    /// Restores the snapshot. A restored server that a fault keeps sealed answers 200.
    fn restore(&self, server: &Bulkhead) -> Result<(), FaultObserved> {
        let root = self.operators.root(server);
        let path = match self.others {
            None => "sys/storage/snapshot",
            Some(_) => "sys/storage/snapshot-force",
        };
        let answer = answered(root.attempt("POST", path, &self.snapshot))?;
        assert!([200, 204].contains(&answer.status), "{answer:?}");
        Ok(())
    }

    /// Unseals the restarted server with the keys of either cluster. Returns the operators of the
    /// data.
    #[track_caller]
    fn unseal_either(&self, server: &Bulkhead) -> &Operators {
        if let Some(others) = &self.others {
            for key in &others.keys[..2] {
                // The keys of the snapshot are wrong if the old data remained.
                let answer = give(server, key);
                assert!([200, 400].contains(&answer.status), "{answer:?}");
            }
            if seal_status(server)["sealed"] == false {
                return others;
            }
        }
        self.operators.unseal(server);
        &self.operators
    }

    /// Asserts that the restarted server has the old data or the restored data, and nothing of
    /// both.
    #[track_caller]
    fn assert_complete(&self, server: &Bulkhead, is_answered: bool) {
        let root = self.unseal_either(server).root(server);
        root.read("sys/policies/acl/kept").expect(200);
        let has_later = root.read("sys/policies/acl/later").status == 200;
        let is_restored = seal_status(server)["due_work_suspended"].is_string();
        assert_eq!(is_restored, !has_later, "restored data have the note of the restore");
        assert!(is_restored || !is_answered, "the restore was answered");
        let left = server.data().join("bulkhead.db.restored");
        assert!(!left.exists(), "{} is left", left.display());
        if is_restored {
            assert!(server.data().join("bulkhead.db.undone").exists(), "the old data stay");
            root.write("sys/release", &json!({})).expect(204);
            assert!(seal_status(server)["due_work_suspended"].is_null());
        }
        let policy = json!({ "policy": "path \"a\" {}" });
        root.write("sys/policies/acl/new", &policy).expect(204);
    }
}

fn old_or_new_data_remain(fault: &str, template: &StoppedServer) {
    let first = points::passed_by(fault, |environment| {
        let mut server = template.copied();
        server.start_with(environment).expect("the server starts without a fault");
        assert!(template.unseal(&server).is_ok(), "no fault was asked for");
        server
    });
    points::each_behind("restore", fault, first, |number| {
        let injected = InjectedFault::at(fault, number);
        let mut server = template.copied();
        if server.start_with(&injected.environment()).is_err() {
            return true;
        }
        let lived = template.unseal(&server).and_then(|()| template.restore(&server));
        let came = injected.end(&mut server, &lived);
        server.start_again();
        println!("restore: {fault}@{number}");
        template.assert_complete(&server, lived.is_ok());
        came
    });
}

#[test]
fn crash_during_restore_leaves_old_or_new_data() {
    old_or_new_data_remain("abort", &StoppedServer::prepared());
}

#[test]
fn error_during_restore_leaves_old_or_new_data() {
    old_or_new_data_remain("fail", &StoppedServer::prepared());
}

#[test]
fn crash_during_forced_restore_leaves_one_cluster() {
    old_or_new_data_remain("abort", &StoppedServer::with_snapshot_of_other_cluster());
}

#[test]
fn error_during_forced_restore_leaves_one_cluster() {
    old_or_new_data_remain("fail", &StoppedServer::with_snapshot_of_other_cluster());
}

#[test]
fn restore_passes_each_of_its_failpoints() {
    let template = StoppedServer::prepared();
    let notes = Folder::new("trace");
    let trace = notes.path().join("trace");
    let mut server = template.copied();
    let environment = [("BULKHEAD_FAULT_TRACE", trace.display().to_string())];
    server.start_with(&environment).expect("the server starts without a fault");
    assert!(template.unseal(&server).is_ok() && template.restore(&server).is_ok());
    let passed = fs::read_to_string(&trace).expect("the trace is there");
    let of_restore = points::all().into_iter().filter(points::Point::is_of_restore);
    let missed: Vec<String> = of_restore
        .map(|point| point.name)
        .filter(|name| !passed.lines().any(|line| line == name))
        .collect();
    assert!(missed.is_empty(), "the restore does not pass {missed:?}");
}
