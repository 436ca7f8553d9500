//! Removal of configurations, roles and sets, and warnings of lost passwords or accounts.

use super::Quay;
use bulkhead_tests::Kind;
use serde_json::json;

#[test]
fn a_configuration_is_not_removed_while_accounts_are_lent() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let quay = Quay::new(kind);
        quay.set("team", &["svc1"], json!({ "ttl": "1h" }));
        let lent = quay.root.write("directory/library/team/check-out", &json!({})).expect(200);
        let refused = quay.root.delete("directory/config").expect(400);
        for word in ["lent", "1", "check them in", "force=true"] {
            assert!(refused.errors().contains(word), "{}", refused.errors());
        }
        let lease = json!({ "lease_id": lent.lease() });
        quay.root.write("sys/leases/revoke", &lease).expect(204);
        assert!(!quay.takes("svc1", lent.text("password")));
        quay.root.delete("directory/config").expect(204);
        quay.root.delete("directory/config").expect(204);
    }
}

#[test]
fn the_only_copy_of_a_password_is_not_removed() {
    let quay = Quay::new(Kind::OpenLdap);
    quay.root.write("directory/rotate-root", &json!({})).expect(204);
    let refused = quay.root.delete("directory/config").expect(400);
    assert!(refused.errors().contains("only the engine knows bindpass"), "{}", refused.errors());
    quay.role("build", "svc1");
    quay.creds("build");
    // Follows the advice of the refusal.
    quay.branch.set_password("engine", "Tn4-Rb9-Kc2-Zf7");
    quay.configure(json!({ "bindpass": "Tn4-Rb9-Kc2-Zf7" })).expect(204);
    quay.root.delete("directory/config").expect(204);
    quay.configure(json!({ "bindpass": "Tn4-Rb9-Kc2-Zf7" })).expect(204);
    quay.root.write("directory/rotate-root", &json!({})).expect(204);
    let forced = quay.root.delete("directory/config?force=true").expect(200);
    assert!(forced.warnings().contains("only the engine knows"), "{}", forced.warnings());
    quay.root.read("directory/config").expect(404);
}

#[test]
fn removing_a_role_or_set_warns_of_lost_passwords() {
    let quay = Quay::new(Kind::OpenLdap);
    quay.role("build", "svc1");
    quay.role("test", "svc1");
    quay.creds("build");
    quay.root.delete("directory/roles/test").expect(204);
    let told = quay.root.delete("directory/roles/build").expect(200);
    assert!(told.warnings().contains(&quay.name("svc1")), "{}", told.warnings());
    quay.set("team", &["svc2"], json!({}));
    let told = quay.root.delete("directory/library/team").expect(200);
    assert!(told.warnings().contains(&quay.name("svc2")), "{}", told.warnings());
    quay.root.delete("directory/library/team").expect(204);
}
