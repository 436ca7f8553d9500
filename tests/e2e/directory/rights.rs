//! The engine loses a right of `docs/directory.md` before a loan ends: either the account returns
//! with a new password, or the failure is reported and the lease stays.

use super::DirectoryStage;
use bulkhead_tests::{Answer, DirectoryKind};
use serde_json::{Value, json};

/// A quay with a loan of `svc1`.
pub(super) fn lent(kind: DirectoryKind) -> (DirectoryStage, Answer) {
    let stage = DirectoryStage::new(kind);
    stage.set("team", &["svc1"], json!({ "ttl": "1h" }));
    let lent = stage.root.write("directory/library/team/check-out", &json!({})).expect(200);
    (stage, lent)
}

impl DirectoryStage {
    /// Asserts that the loan does not end: its lease exists and its password works.
    #[track_caller]
    fn assert_kept(&self, lent: &Answer, why: &str) {
        let lease = json!({ "lease_id": lent.lease() });
        let refused = self.root.write("sys/leases/revoke", &lease).expect(400);
        assert!(refused.errors().contains(why), "{}", refused.errors());
        let check_in = self.root.write("directory/library/manage/team/check-in", &json!({}));
        check_in.refused(400, why);
        self.root.write("sys/leases/lookup", &lease).expect(200);
        assert!(self.takes("svc1", lent.text("password")), "the lent password logs in");
        assert_eq!(self.status()["available"], false);
    }

    #[track_caller]
    pub(super) fn assert_ends(&self, lent: &Answer) {
        let lease = json!({ "lease_id": lent.lease() });
        self.root.write("sys/leases/revoke", &lease).expect(204);
        let ended = self.root.write("sys/leases/lookup", &lease);
        ended.refused(400, "there is no lease with this id");
    }

    #[track_caller]
    pub(super) fn status(&self) -> Value {
        let status = self.root.read("directory/library/team/status").expect(200);
        status.body["data"][self.name("svc1")].clone()
    }
}

#[test]
fn an_invisible_account_is_not_taken_for_deleted() {
    for (group, why) in [("blind", "userdn"), ("shortsighted", "no other account")] {
        let (stage, lent) = lent(DirectoryKind::OpenLdap);
        stage.branch.take_sight("engine", group);
        stage.assert_kept(&lent, why);
        stage.branch.give_sight("engine", group);
        stage.assert_ends(&lent);
        assert!(!stage.takes("svc1", lent.text("password")), "{group}");
        assert_eq!(stage.status()["available"], true);
    }
}

#[test]
fn lease_is_kept_without_password_reset_right() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let (stage, lent) = lent(kind);
        stage.branch.take_rights("engine");
        // Active Directory evaluates groups when a session begins.
        stage.configure(json!({})).expect(204);
        stage.assert_kept(&lent, "insufficient access rights");
        let status = stage.status();
        let shown = status["last_error"].as_str().expect("the status shows the reason");
        assert!(shown.contains("insufficient access rights"), "{shown}");
        assert!(status["failing_since"].as_str().is_some_and(|time| time.ends_with('Z')));
        stage.branch.give_rights("engine");
        stage.configure(json!({})).expect(204);
        stage.assert_ends(&lent);
        assert!(!stage.takes("svc1", lent.text("password")), "{kind:?}");
        assert_eq!(stage.status(), json!({ "available": true }), "no error is left");
    }
}

#[test]
fn deleted_account_ends_loan_and_is_unavailable() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let (stage, lent) = lent(kind);
        stage.branch.remove("svc1");
        stage.assert_ends(&lent);
        assert_eq!(stage.status(), json!({ "available": false }), "{kind:?}");
        let none = stage.root.write("directory/library/team/check-out", &json!({}));
        none.refused(400, "no service account of the set is available");
    }
}

/// An account is not deleted because another directory does not have it.
#[test]
fn a_configuration_for_another_directory_ends_no_loan() {
    let (stage, lent) = lent(DirectoryKind::OpenLdap);
    let other = bulkhead_tests::DirectoryServer::own(DirectoryKind::OpenLdap).branch();
    stage.root.write("directory/config", &other.config()).expect(204);
    let lease = json!({ "lease_id": lent.lease() });
    let refused = stage.root.write("sys/leases/revoke", &lease).expect(502);
    assert!(refused.errors().contains("write the configuration back"), "{}", refused.errors());
    stage.root.write("sys/leases/lookup", &lease).expect(200);
    stage.configure(json!({})).expect(204);
    stage.assert_ends(&lent);
    assert!(!stage.takes("svc1", lent.text("password")));
}
