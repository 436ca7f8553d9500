//! The library: an account has a single borrower and gets a new password at check-in.

use super::DirectoryStage;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Client, DirectoryKind};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Longest wait for due work.
const SOON: Duration = Duration::from_secs(15);

/// Refusal of a check-out from a set without a free account.
const NONE_AVAILABLE: &str = "no service account of the set is available";
/// Refusal of a check-in by a caller without the loan.
const NOT_CHECKED_OUT: &str = "is not checked out by this caller";

struct LentAccount {
    account: String,
    password: String,
    lease: String,
    answer: Answer,
}

impl DirectoryStage {
    /// A quay with a set `team` whose loans last an hour.
    fn library(kind: DirectoryKind, accounts: &[&str], fields: Value) -> Self {
        let stage = Self::new(kind);
        let hour = json!({ "ttl": "1h", "max_ttl": "2h" });
        stage.set("team", accounts, crate::world::with(hour, fields));
        stage
    }

    /// A client with the right to check out and check in.
    fn borrower(&self, name: &str) -> Client {
        let rules = r#"path "directory/library/team/*" { capabilities = ["update", "read"] }"#;
        let policy = json!({ "policy": rules });
        self.root.write(&format!("sys/policies/acl/{name}"), &policy).expect(204);
        let body = json!({ "policies": [name], "no_default_policy": true });
        let answer = self.root.write("auth/token/create", &body).expect(200);
        self.bulkhead.client(answer.body["auth"]["client_token"].as_str())
    }

    #[track_caller]
    fn lend(&self, client: &Client) -> LentAccount {
        lent(client.write("directory/library/team/check-out", &json!({})).expect(200))
    }

    #[track_caller]
    fn check_in(&self, client: &Client, body: Value) -> Answer {
        client.write("directory/library/team/check-in", &body)
    }

    fn is_available(&self, account: &str) -> bool {
        let status = self.root.read("directory/library/team/status").expect(200);
        status.body["data"][self.name(account)]["available"] == true
    }

    #[track_caller]
    fn assert_at_home(&self, account: &str, password: &str) {
        until_true("the account is at home", SOON, || self.is_available(account));
        assert!(!self.takes(account, password), "the borrower's password still logs in");
    }
}

fn lent(answer: Answer) -> LentAccount {
    LentAccount {
        account: answer.text("service_account_name").to_owned(),
        password: answer.text("password").to_owned(),
        lease: answer.lease().to_owned(),
        answer,
    }
}

#[test]
fn account_has_one_borrower_and_checkin_rotates_password() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::library(kind, &["svc1"], json!({}));
        assert!(!stage.takes("svc1", super::FIRST), "the earlier password no longer logs in");
        let [alice, bob] = ["alice", "bob"].map(|name| stage.borrower(name));
        let loan = stage.lend(&alice);
        assert_eq!(loan.account, stage.name("svc1"));
        assert!(stage.takes("svc1", &loan.password));
        let lease = &loan.answer.body;
        assert_eq!((&lease["renewable"], &lease["lease_duration"]), (&json!(true), &json!(3600)));
        bob.write("directory/library/team/check-out", &json!({})).refused(400, NONE_AVAILABLE);
        let status = stage.root.read("directory/library/team/status").expect(200);
        let of_loan = &status.body["data"][&loan.account];
        assert_eq!(of_loan["available"], false);
        assert!(of_loan["borrower_client_token"].is_string(), "{of_loan}");
        let named = json!({ "service_account_names": [loan.account] });
        stage.check_in(&bob, named.clone()).refused(400, NOT_CHECKED_OUT);
        assert_eq!(
            stage.check_in(&bob, json!({})).expect(200).body["data"]["check_ins"],
            json!([])
        );
        assert!(stage.takes("svc1", &loan.password), "a refusal changes nothing");
        let home = stage.check_in(&alice, json!({})).expect(200);
        assert_eq!(home.body["data"]["check_ins"], json!([loan.account]));
        stage.assert_at_home("svc1", &loan.password);
        let again = stage.check_in(&alice, named).expect(200);
        assert_eq!(again.body["data"]["check_ins"], json!([]), "a second check-in returns nothing");
        stage.assert_silent(&loan.password);
    }
}

#[test]
fn expiry_revocation_or_forced_check_in_ends_loan() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::library(kind, &["svc1"], json!({ "ttl": "1s" }));
        let expired = stage.lend(&stage.root);
        stage.assert_at_home("svc1", &expired.password);
        stage.set("team", &["svc1"], json!({ "ttl": "1h" }));
        let revoked = stage.lend(&stage.root);
        let lease = json!({ "lease_id": revoked.lease });
        stage.root.write("sys/leases/revoke", &lease).expect(204);
        stage.assert_at_home("svc1", &revoked.password);
        let forced = stage.lend(&stage.borrower("alice"));
        let done = stage.root.write("directory/library/manage/team/check-in", &json!({}));
        assert_eq!(done.expect(200).body["data"]["check_ins"], json!([forced.account]));
        stage.assert_at_home("svc1", &forced.password);
    }
}

#[test]
fn ended_loan_lease_does_not_touch_later_loan() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::library(kind, &["svc1"], json!({}));
        let [alice, bob] = ["alice", "bob"].map(|name| stage.borrower(name));
        let first = stage.lend(&alice);
        stage.check_in(&alice, json!({})).expect(200);
        let second = stage.lend(&bob);
        let stale = json!({ "lease_id": first.lease });
        stage.root.write("sys/leases/renew", &stale).refused(400, "there is no lease with this id");
        stage.root.write("sys/leases/revoke", &stale).expect(204);
        let named = json!({ "service_account_names": [second.account] });
        stage.check_in(&alice, named).refused(400, NOT_CHECKED_OUT);
        assert!(stage.takes("svc1", &second.password) && !stage.is_available("svc1"));
        let renewed = stage.root.write("sys/leases/renew", &json!({ "lease_id": second.lease }));
        assert_eq!(renewed.expect(200).body["lease_duration"], 3600);
    }
}

#[test]
fn loan_is_renewed_up_to_set_maximum() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::library(kind, &["svc1"], json!({}));
        let loan = stage.lend(&stage.root);
        let renew = |increment: &str| {
            let body = json!({ "lease_id": loan.lease, "increment": increment });
            stage.root.write("sys/leases/renew", &body).expect(200)
        };
        assert_eq!(renew("90m").body["lease_duration"], 5400);
        let most = renew("100h").body["lease_duration"].as_u64().expect("seconds");
        assert!((7100..=7200).contains(&most), "{most}");
        let shorter = stage.root.write("directory/library/team", &json!({ "ttl": "10m" }));
        shorter.expect(204);
        let body = json!({ "lease_id": loan.lease });
        let renewed = stage.root.write("sys/leases/renew", &body).expect(200);
        assert_eq!(renewed.body["lease_duration"], 600, "the renewal follows the present set");
    }
}

#[test]
fn loan_without_ttl_outlives_lease_until_revocation() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::library(kind, &["svc1"], json!({ "ttl": 0, "max_ttl": 0 }));
        let tune = json!({ "default_lease_ttl": "1s", "max_lease_ttl": "2s" });
        stage.root.write("sys/mounts/directory/tune", &tune).expect(204);
        let loan = stage.lend(&stage.root);
        assert_eq!(loan.answer.body["lease_duration"], 2, "the mount's maximum");
        let lookup = json!({ "lease_id": loan.lease });
        until_true("the lease is over", SOON, || {
            stage.root.write("sys/leases/lookup", &lookup).status == 400
        });
        assert!(stage.takes("svc1", &loan.password) && !stage.is_available("svc1"));
        stage.check_in(&stage.root, json!({})).expect(200);
        stage.assert_at_home("svc1", &loan.password);
        let tune = json!({ "default_lease_ttl": "1h", "max_lease_ttl": "2h" });
        stage.root.write("sys/mounts/directory/tune", &tune).expect(204);
        let loan = stage.lend(&stage.root);
        stage.root.write("sys/leases/revoke", &json!({ "lease_id": loan.lease })).expect(204);
        stage.assert_at_home("svc1", &loan.password);
    }
}

#[test]
fn a_requested_ttl_is_capped_by_the_set() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::library(kind, &["svc1", "svc2", "svc3"], json!({}));
        for (ttl, seconds) in [("10m", 600), ("5h", 3600), ("0", 3600)] {
            let body = json!({ "ttl": ttl });
            let given = stage.root.write("directory/library/team/check-out", &body).expect(200);
            assert_eq!(given.body["lease_duration"], seconds, "{ttl}");
        }
    }
}

#[test]
fn account_names_belong_to_one_set_or_roles() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::library(kind, &["svc1"], json!({}));
        let loan = stage.lend(&stage.root);
        let dn = stage.branch.dn_of("svc1");
        let names =
            [stage.name("svc1"), stage.name("svc1").to_uppercase(), dn.clone(), dn.to_lowercase()];
        for name in names {
            let set = json!({ "service_account_names": [stage.name("svc2"), name] });
            let refused = stage.root.write("directory/library/other", &set).expect(400);
            assert!(refused.errors().contains("already managed"), "{name}: {}", refused.errors());
            let role = json!({ "service_account_name": name });
            let refused = stage.root.write("directory/roles/other", &role).expect(400);
            assert!(refused.errors().contains("already managed"), "{name}: {}", refused.errors());
        }
        assert!(stage.takes("svc1", &loan.password), "the borrower keeps the account");
        assert!(stage.takes("svc2", super::FIRST), "nothing was changed for a set that is refused");
        stage.root.read("directory/library/other").expect(404);
        stage.role("build", "svc3");
        let set = json!({ "service_account_names": [stage.branch.dn_of("svc3")] });
        stage.root.write("directory/library/other", &set).refused(400, "already managed by role");
        let twice =
            json!({ "service_account_names": [stage.name("svc2"), stage.branch.dn_of("svc2")] });
        let refused = stage.root.write("directory/library/other", &twice).expect(400);
        assert!(refused.errors().contains("the same account"), "{}", refused.errors());
    }
}

#[test]
fn writing_a_set_ends_no_loan() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::library(kind, &["svc1", "svc2"], json!({}));
        let loan = stage.lend(&stage.root);
        assert_eq!(loan.account, stage.name("svc1"), "the set lends its accounts in order");
        let without = json!({ "service_account_names": [stage.name("svc2")] });
        let refused = stage.root.write("directory/library/team", &without).expect(400);
        assert!(refused.errors().contains("checked out"), "{}", refused.errors());
        stage.root.delete("directory/library/team").refused(400, "the account is checked out");
        let others = [stage.name("svc3"), stage.name("svc1")];
        let others = json!({ "service_account_names": others });
        let answer = stage.root.write("directory/library/team", &others).expect(200);
        assert!(answer.warnings().contains("not stored any more"), "{}", answer.warnings());
        assert!(stage.takes("svc1", &loan.password) && !stage.takes("svc3", super::FIRST));
        let set = stage.root.read("directory/library/team").expect(200);
        let names = [stage.name("svc3"), stage.name("svc1")];
        assert_eq!(set.body["data"]["service_account_names"], json!(names));
        stage.check_in(&stage.root, json!({})).expect(200);
        stage.root.delete("directory/library/team").expect(200);
        stage.role("build", "svc1");
        let password = stage.creds("build").text("current_password").to_owned();
        assert!(stage.takes("svc1", &password), "an account without a set may have a role");
    }
}

#[test]
fn unenforced_check_in_allows_any_caller_through_set() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::library(
            kind,
            &["svc1"],
            json!({ "disable_check_in_enforcement": true }),
        );
        let [alice, bob] = ["alice", "bob"].map(|name| stage.borrower(name));
        let loan = stage.lend(&alice);
        stage.set("other", &["svc2"], json!({ "disable_check_in_enforcement": true }));
        let named = json!({ "service_account_names": [loan.account] });
        for path in ["directory/library/other/check-in", "directory/library/manage/other/check-in"]
        {
            stage.root.write(path, &named).refused(400, "is not an account of this set");
        }
        assert!(stage.takes("svc1", &loan.password));
        stage.check_in(&bob, json!({})).expect(200);
        stage.assert_at_home("svc1", &loan.password);
    }
}

#[test]
fn ten_of_hundred_concurrent_callers_get_ten_accounts() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::new(kind);
        let accounts: Vec<String> = (0..10).map(|number| format!("lent{number}")).collect();
        let added: Vec<(String, &str)> =
            accounts.iter().map(|name| (name.clone(), super::FIRST)).collect();
        stage.branch.add_all(&added);
        let names: Vec<&str> = accounts.iter().map(String::as_str).collect();
        stage.set("team", &names, json!({}));
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let ask = || stage.root.write("directory/library/team/check-out", &json!({}));
            let callers: Vec<_> = (0..100).map(|_| scope.spawn(ask)).collect();
            callers.into_iter().map(|caller| caller.join().expect("no caller panics")).collect()
        });
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|one| one.status == 200);
        assert_eq!((won.len(), lost.len()), (10, 90));
        lost.into_iter().for_each(|one| drop(one.refused(400, NONE_AVAILABLE)));
        let won: Vec<LentAccount> = won.into_iter().map(lent).collect();
        let lent: BTreeSet<&str> = won.iter().map(|one| one.account.as_str()).collect();
        assert_eq!(lent.len(), 10, "each has its own account");
        for one in &won {
            let name = names.iter().find(|name| stage.name(name) == one.account);
            assert!(stage.takes(name.expect("an account of the set"), &one.password));
        }
    }
}

#[test]
fn one_of_two_concurrent_sets_gets_an_account() {
    for stage in DirectoryStage::both() {
        let set = json!({ "service_account_names": [stage.name("svc1")] });
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let (stage, set) = (&stage, &set);
            let write = move |number: usize| {
                stage.root.write(&format!("directory/library/set{number}"), set).status
            };
            let writers: Vec<_> = (0..6).map(|number| scope.spawn(move || write(number))).collect();
            writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
        });
        assert_eq!(statuses.iter().filter(|status| **status == 204).count(), 1, "{statuses:?}");
        let sets = stage.root.list("directory/library").expect(200).body["data"]["keys"].clone();
        assert_eq!(sets.as_array().map(Vec::len), Some(1), "{sets}");
        let set = sets[0].as_str().expect("a name");
        let path = format!("directory/library/{set}/check-out");
        let lent = stage.root.write(&path, &json!({})).expect(200);
        assert!(stage.takes("svc1", lent.text("password")));
    }
}
