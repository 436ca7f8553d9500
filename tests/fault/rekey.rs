//! The server dies, or meets an error, in each write of a rekey: afterwards exactly one set of
//! shares unseals the server. If the rekey was answered, that set is the new one.

use crate::injected::{FaultObserved, InjectedFault, write};
use crate::points;
use bulkhead_tests::operators::{Operators, give, seal_status};
use bulkhead_tests::paths::{Folder, fault_binary};
use bulkhead_tests::{Bulkhead, storage};
use serde_json::{Value, json};

struct StoppedServer {
    server: Bulkhead,
    operators: Operators,
}

/// A rekey whose new shares await verification.
struct BegunRekey {
    new: Operators,
    verification: Value,
}

impl StoppedServer {
    fn prepared() -> Self {
        let mut server = Bulkhead::prepared(fault_binary(), Folder::new("rekey")).in_production();
        server.start_again();
        let operators = Operators::initialise(&server, 3, 2);
        assert!(server.stop(), "{}", server.printed());
        Self { server, operators }
    }

    /// Returns a server with a copy of the data, not started yet.
    fn copied(&self) -> Bulkhead {
        Bulkhead::prepared(fault_binary(), storage::copied(self.server.data())).in_production()
    }

    /// Unseals the server and creates new shares.
    fn begin(&self, server: &Bulkhead) -> Result<BegunRekey, FaultObserved> {
        let nobody = server.client(None);
        for key in &self.operators.keys[..2] {
            assert_eq!(write(&nobody, "sys/unseal", &json!({ "key": key }))?.status, 200);
        }
        let root = self.operators.root(server);
        let fields =
            json!({ "secret_shares": 4, "secret_threshold": 3, "require_verification": true });
        let begun = write(&root, "sys/rotate/root/init", &fields)?.expect(200).body["data"].clone();
        let mut shares = Value::Null;
        for key in &self.operators.keys[..2] {
            let given = json!({ "key": key, "nonce": begun["nonce"] });
            let answer = write(&root, "sys/rotate/root/update", &given)?;
            shares = answer.expect(200).body["data"].clone();
        }
        shares["root_token"] = json!(self.operators.token);
        let verification = shares["verification_nonce"].clone();
        Ok(BegunRekey { new: Operators::of(&shares, 3), verification })
    }

    /// Verifies the new shares; the last share completes the rekey.
    fn verify(&self, server: &Bulkhead, begun: &BegunRekey) -> Result<(), FaultObserved> {
        let root = self.operators.root(server);
        for key in &begun.new.keys[1..] {
            let given = json!({ "key": key, "nonce": begun.verification });
            let answer = write(&root, "sys/rotate/root/verify", &given)?;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        // The server still accepts writes.
        let policy = json!({ "policy": "path \"a\" {}" });
        assert_eq!(write(&root, "sys/policies/acl/after", &policy)?.status, 204);
        Ok(())
    }
}

/// Returns true if these shares unseal the sealed server. Seals the server again.
fn opens(server: &Bulkhead, operators: &Operators) -> bool {
    for key in &operators.keys[..operators.threshold] {
        let answer = give(server, key);
        assert!([200, 400].contains(&answer.status), "{answer:?}");
    }
    let is_open = seal_status(server)["sealed"] == false;
    if is_open {
        operators.root(server).write("sys/seal", &json!({})).expect(204);
    } else {
        server.client(None).write("sys/unseal", &json!({ "reset": true })).expect(200);
    }
    is_open
}

fn one_set_of_shares_opens(fault: &str) {
    let template = StoppedServer::prepared();
    let first = points::passed_by(fault, |environment| {
        let mut server = template.copied();
        server.start_with(environment).expect("the server starts without a fault");
        assert!(template.begin(&server).is_ok(), "no fault was asked for");
        server
    });
    points::each_behind("rekey", fault, first, |number| live(&template, fault, number));
}

/// Runs a life with a fault. Returns false if the life ended before the fault fired.
fn live(template: &StoppedServer, fault: &str, number: u32) -> bool {
    let injected = InjectedFault::at(fault, number);
    let mut server = template.copied();
    if server.start_with(&injected.environment()).is_err() {
        return true;
    }
    let begun = template.begin(&server);
    let lived =
        begun.as_ref().map_err(|_| FaultObserved).and_then(|it| template.verify(&server, it));
    let came = injected.end(&mut server, &lived);
    server.start_again();
    let old = opens(&server, &template.operators);
    let new = begun.is_ok_and(|begun| opens(&server, &begun.new));
    assert!(old != new, "{fault}@{number}: old shares open: {old}, new shares open: {new}");
    assert!(new || lived.is_err(), "{fault}@{number}: the rekey was answered");
    came
}

#[test]
fn crash_during_rekey_leaves_one_valid_share_set() {
    one_set_of_shares_opens("abort");
}

#[test]
fn error_during_rekey_leaves_one_valid_share_set() {
    one_set_of_shares_opens("fail");
}
