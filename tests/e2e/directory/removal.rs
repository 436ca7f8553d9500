//! Removal of configurations, roles and sets, and warnings of lost passwords or accounts.

use super::DirectoryStage;
use bulkhead_tests::DirectoryKind;
use serde_json::json;

#[test]
fn configuration_is_not_removed_while_accounts_are_lent() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::new(kind);
        stage.set("team", &["svc1"], json!({ "ttl": "1h" }));
        let lent = stage.root.write("directory/library/team/check-out", &json!({})).expect(200);
        let refused = stage.root.delete("directory/config").expect(400);
        for word in ["lent", "1", "check the accounts in", "force=true"] {
            assert!(refused.errors().contains(word), "{}", refused.errors());
        }
        let lease = json!({ "lease_id": lent.lease() });
        stage.root.write("sys/leases/revoke", &lease).expect(204);
        assert!(!stage.takes("svc1", lent.text("password")));
        stage.root.delete("directory/config").expect(204);
        stage.root.delete("directory/config").expect(204);
    }
}

#[test]
fn only_copy_of_password_is_not_removed() {
    let stage = DirectoryStage::new(DirectoryKind::OpenLdap);
    stage.root.write("directory/rotate-root", &json!({})).expect(204);
    let refused = stage.root.delete("directory/config").expect(400);
    assert!(refused.errors().contains("only the engine knows bindpass"), "{}", refused.errors());
    stage.role("build", "svc1");
    stage.creds("build");
    // Follows the advice of the refusal.
    stage.branch.set_password("engine", "Tn4-Rb9-Kc2-Zf7");
    stage.configure(json!({ "bindpass": "Tn4-Rb9-Kc2-Zf7" })).expect(204);
    stage.root.delete("directory/config").expect(204);
    stage.configure(json!({ "bindpass": "Tn4-Rb9-Kc2-Zf7" })).expect(204);
    stage.root.write("directory/rotate-root", &json!({})).expect(204);
    let forced = stage.root.delete("directory/config?force=true").expect(200);
    assert!(forced.warnings().contains("only the engine knows"), "{}", forced.warnings());
    stage.root.read("directory/config").expect(404);
}

#[test]
fn removing_role_or_set_warns_of_lost_passwords() {
    let stage = DirectoryStage::new(DirectoryKind::OpenLdap);
    stage.role("build", "svc1");
    stage.role("test", "svc1");
    stage.creds("build");
    stage.root.delete("directory/roles/test").expect(204);
    let answer = stage.root.delete("directory/roles/build").expect(200);
    assert!(answer.warnings().contains(&stage.name("svc1")), "{}", answer.warnings());
    stage.set("team", &["svc2"], json!({}));
    let answer = stage.root.delete("directory/library/team").expect(200);
    assert!(answer.warnings().contains(&stage.name("svc2")), "{}", answer.warnings());
    stage.root.delete("directory/library/team").expect(204);
}
