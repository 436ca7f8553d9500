//! Others rename, move, delete, hide or lock an account while the account is lent: the engine
//! follows the account by its id, touches no account of others, and ends no loan without a proof.

use super::DirectoryStage;
use super::rights::lent;
use bulkhead_tests::directory_server::KINDS;
use bulkhead_tests::{Answer, DirectoryKind};
use serde_json::json;

/// Password of an account that others make with the name of a lent account.
const OF_OTHERS: &str = "Hs3-Lw8-Pf5-Gd2";

/// New place of an account.
#[derive(Clone, Copy, Debug)]
enum NewPlace {
    SameUnit,
    UnitBelowUserdn,
    UnitOutsideUserdn,
}

const NEW_PLACES: [NewPlace; 3] =
    [NewPlace::SameUnit, NewPlace::UnitBelowUserdn, NewPlace::UnitOutsideUserdn];

impl DirectoryStage {
    /// Renames `svc1`, or moves `svc1` to another organizational unit, and returns the new DN.
    #[track_caller]
    fn displace(&self, place: NewPlace) -> String {
        let branch = &self.branch;
        let unit = match place {
            NewPlace::SameUnit => {
                branch.rename("svc1", "renamed");
                return branch.dn_of("renamed");
            }
            NewPlace::UnitBelowUserdn => {
                let unit = format!("OU=inner,{}", branch.dn);
                branch.server.ldif(&format!(
                    "dn: {unit}\nchangetype: add\nobjectClass: organizationalUnit\nou: inner\n"
                ));
                unit
            }
            NewPlace::UnitOutsideUserdn => branch.server.branch().dn,
        };
        let name = branch.full("svc1");
        branch.server.ldif(&format!(
            "dn: {}\nchangetype: modrdn\nnewrdn: CN={name}\ndeleteoldrdn: 1\nnewsuperior: {unit}\n",
            branch.dn_of("svc1")
        ));
        format!("CN={name},{unit}")
    }

    /// Adds an account of others with the DN of `svc1`. An Active Directory has each short name
    /// once, so the account has another short name.
    #[track_caller]
    fn add_namesake(&self) {
        self.branch.add("namesake", OF_OTHERS);
        self.branch.rename("namesake", "svc1");
    }

    /// Asserts that the lease stays, and that refusal and status show the reason.
    #[track_caller]
    fn assert_stays(&self, lent: &Answer, why: &str) {
        let lease = json!({ "lease_id": lent.lease() });
        let refused = self.root.write("sys/leases/revoke", &lease).expect(400);
        assert!(refused.errors().contains(why), "{}", refused.errors());
        self.root.write("sys/leases/lookup", &lease).expect(200);
        let status = self.status();
        assert_eq!(status["available"], false);
        let shown = status["last_error"].as_str().expect("the status shows the reason");
        assert!(shown.contains(why), "{shown}");
    }
}

#[test]
fn displaced_account_gets_new_password_at_new_place() {
    for kind in KINDS {
        for place in NEW_PLACES {
            let (stage, lent) = lent(kind);
            let moved = stage.displace(place);
            stage.add_namesake();
            let server = stage.branch.server;
            assert!(server.takes(&moved, lent.text("password")), "{kind:?} {place:?}");
            stage.assert_ends(&lent);
            assert!(!server.takes(&moved, lent.text("password")), "{kind:?} {place:?}");
            assert!(stage.takes("svc1", OF_OTHERS), "an account of others was touched");
            assert_eq!(stage.status(), json!({ "available": true }));
            let again = stage.root.write("directory/library/team/check-out", &json!({}));
            let again = again.expect(200);
            assert!(server.takes(&moved, again.text("password")), "{kind:?} {place:?}");
        }
    }
}

#[test]
fn account_recreated_by_others_ends_loan_untouched() {
    for kind in KINDS {
        let (stage, lent) = lent(kind);
        stage.branch.remove("svc1");
        stage.branch.add("svc1", OF_OTHERS);
        stage.assert_ends(&lent);
        if kind == DirectoryKind::OpenLdap {
            let refused = stage.branch.server.refused_logins(&stage.branch.dn_of("svc1"));
            assert_eq!(refused, 0, "the engine tried a password at an account of others");
        }
        assert!(stage.takes("svc1", OF_OTHERS), "{kind:?}");
        assert_eq!(stage.status(), json!({ "available": false }), "{kind:?}");
        let none = stage.root.write("directory/library/team/check-out", &json!({}));
        none.refused(400, "no service account of the set is available");
    }
}

#[test]
fn role_leaves_account_recreated_by_others_untouched() {
    for stage in DirectoryStage::both() {
        stage.role("build", "svc1");
        stage.creds("build");
        stage.branch.remove("svc1");
        stage.branch.add("svc1", OF_OTHERS);
        let refused = stage.root.read("directory/creds/build").expect(400);
        assert!(refused.errors().contains("another account has the DN"), "{}", refused.errors());
        let rotation = stage.root.write("directory/rotate-role/build", &json!({}));
        rotation.refused(400, "another account has the DN");
        assert!(stage.takes("svc1", OF_OTHERS));
    }
}

/// The former DN refuses the lent password, because the borrower has set another one.
#[test]
fn invisible_account_with_new_password_counts_as_existing() {
    let (stage, lent) = lent(DirectoryKind::OpenLdap);
    stage.branch.take_sight("engine", "shortsighted");
    stage.branch.set_password("svc1", OF_OTHERS);
    stage.assert_stays(&lent, "no other account");
    assert!(stage.takes("svc1", OF_OTHERS));
    stage.branch.give_sight("engine", "shortsighted");
    stage.assert_ends(&lent);
    assert!(!stage.takes("svc1", OF_OTHERS), "the borrower's password is over");
    assert_eq!(stage.status(), json!({ "available": true }));
}

/// A locked account of OpenLDAP refuses each password like a wrong one.
#[test]
fn invisible_locked_account_counts_as_existing() {
    let (stage, lent) = lent(DirectoryKind::OpenLdap);
    stage.branch.take_sight("engine", "shortsighted");
    lock(&stage);
    stage.assert_stays(&lent, "no other account");
    stage.branch.give_sight("engine", "shortsighted");
    stage.assert_ends(&lent);
    assert!(!stage.takes("svc1", lent.text("password")));
}

#[test]
fn moved_account_is_found_once_place_is_visible() {
    let (stage, lent) = lent(DirectoryKind::OpenLdap);
    let moved = stage.displace(NewPlace::UnitOutsideUserdn);
    stage.branch.take_sight("engine", "blind");
    stage.assert_stays(&lent, "userdn");
    let server = stage.branch.server;
    assert!(server.takes(&moved, lent.text("password")), "the lent password logs in");
    stage.branch.give_sight("engine", "blind");
    stage.assert_ends(&lent);
    assert!(!server.takes(&moved, lent.text("password")));
}

#[test]
fn locked_account_ends_loan_with_new_password() {
    for kind in KINDS {
        let (stage, lent) = lent(kind);
        lock(&stage);
        assert!(!stage.takes("svc1", lent.text("password")), "the account is locked");
        stage.assert_ends(&lent);
        if kind == DirectoryKind::Samba {
            stage.branch.modify("svc1", "replace: lockoutTime\nlockoutTime: 0");
        }
        assert!(!stage.takes("svc1", lent.text("password")), "{kind:?}");
        let again = stage.root.write("directory/library/team/check-out", &json!({})).expect(200);
        assert!(stage.takes("svc1", again.text("password")), "{kind:?}");
    }
}

/// Locks `svc1` by wrong logins. Active Directory does not count a former password.
#[track_caller]
fn lock(stage: &DirectoryStage) {
    for _ in 0..5 {
        assert!(!stage.takes("svc1", OF_OTHERS));
    }
}
