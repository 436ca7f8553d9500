//! `rotate-root`: a new password of the engine's own account that only the engine knows.

use super::{DirectoryStage, FIRST};
use bulkhead_tests::DirectoryKind;
use serde_json::json;

fn bindpass(stage: &DirectoryStage) -> String {
    stage.branch.config()["bindpass"].as_str().expect("a text").to_owned()
}

#[test]
fn rotate_root_sets_working_password_without_showing_it() {
    for stage in DirectoryStage::both() {
        let before = bindpass(&stage);
        stage.role("build", "svc1");
        stage.root.write("directory/rotate-root", &json!({})).expect(204);
        assert!(!stage.takes("engine", &before), "the one that was typed is in force no more");
        let password = stage.creds("build").text("current_password").to_owned();
        assert!(stage.takes("svc1", &password), "the engine logs in by the new one");
        stage.root.read("directory/rotate-root").expect(204);
        stage.root.write("directory/rotate-role/build", &json!({})).expect(204);
        let config = stage.root.read("directory/config").expect(200);
        assert!(config.text("last_bind_password_rotation").ends_with('Z'), "{config:?}");
        assert!(config.body["data"].get("bindpass").is_none());
        stage.assert_silent(&before);
    }
}

#[test]
fn engine_without_reset_right_changes_own_password() {
    for stage in DirectoryStage::both() {
        let before = bindpass(&stage);
        stage.branch.take_rights("engine");
        stage.root.write("directory/rotate-root", &json!({})).expect(204);
        assert!(!stage.takes("engine", &before));
        stage.role("build", "svc1");
        let refused = stage.root.read("directory/creds/build").expect(400);
        assert!(refused.errors().contains("insufficient"), "{}", refused.errors());
        assert!(stage.takes("svc1", FIRST), "an account of others it may not change");
    }
}

/// Each kind of name that Active Directory accepts for a login.
#[test]
fn engine_account_is_found_under_each_login_name() {
    let stage = DirectoryStage::empty(DirectoryKind::Samba);
    let (full, domain) = (stage.branch.full("engine"), "corp.example.net");
    for (binddn, upndomain) in [
        (full.clone(), domain),
        (stage.branch.upn_of("engine"), ""),
        (format!("CORP\\{full}"), ""),
        (stage.branch.dn_of("engine"), ""),
    ] {
        let password = "Tn4-Rb9-Kc2-Zf7";
        stage.branch.set_password("engine", password);
        let login = json!({ "binddn": binddn, "upndomain": upndomain, "bindpass": password });
        // The password of the login before is kept, with a warning.
        stage.configure(login).expect_success();
        stage.root.write("directory/rotate-root", &json!({})).expect(204);
        assert!(!stage.takes("engine", password), "{binddn}");
        stage.role("build", "svc1");
        stage.creds("build");
    }
}

#[test]
fn read_and_list_capabilities_allow_no_rotation() {
    let stage = DirectoryStage::new(DirectoryKind::OpenLdap);
    stage.role("build", "svc1");
    let client = |name: &str, rules: &str| {
        let policy = json!({ "policy": rules });
        stage.root.write(&format!("sys/policies/acl/{name}"), &policy).expect(204);
        let body = json!({ "policies": [name], "no_default_policy": true });
        let answer = stage.root.write("auth/token/create", &body).expect(200);
        stage.bulkhead.client(answer.body["auth"]["client_token"].as_str())
    };
    let reader = client("reader", r#"path "directory/*" { capabilities = ["read"] }"#);
    reader.read("directory/rotate-root").refused(403, "may not update directory/rotate-root");
    assert!(stage.takes("engine", &bindpass(&stage)), "GET needs the same rights as POST");
    reader.read("directory/roles").refused(403, "may not list directory/roles");
    reader.read("directory/roles/build").expect(200);
    let lister = client("lister", r#"path "directory/roles" { capabilities = ["list"] }"#);
    for answer in [lister.read("directory/roles"), lister.list("directory/roles")] {
        assert_eq!(answer.expect(200).body["data"]["keys"], json!(["build"]));
    }
    let keeper = client("keeper", r#"path "directory/rotate-root" { capabilities = ["update"] }"#);
    keeper.read("directory/rotate-root").expect(204);
    assert!(!stage.takes("engine", &bindpass(&stage)));
}

#[test]
fn self_rotation_needs_no_bind_account() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::empty(kind);
        let alone = json!({ "binddn": "", "bindpass": "", "self_rotation": true });
        stage.configure(alone).expect(204);
        let dn = stage.branch.dn_of("svc1");
        let role = |password: &str| {
            let role = json!({ "service_account_name": dn, "password": password });
            stage.root.write("directory/roles/build", &role)
        };
        role("").refused(400, "password is required");
        role("Jm6-Yt2-Hd8-Vc5").refused(400, "refused the login");
        assert!(stage.takes("svc1", FIRST));
        role(FIRST).expect(204);
        let first = stage.creds("build").text("current_password").to_owned();
        assert!(stage.takes("svc1", &first) && !stage.takes("svc1", FIRST));
        stage.root.write("directory/rotate-role/build", &json!({})).expect(204);
        let second = stage.creds("build");
        assert_eq!(second.text("last_password"), first);
        assert!(stage.takes("svc1", second.text("current_password")));
        let refused = stage.root.write("directory/rotate-root", &json!({}));
        refused.refused(400, "there is no bindpass to rotate");
    }
}

/// A controller without the change still accepts the previous password. The engine tries both, and
/// the account is not locked.
#[test]
fn engine_uses_previous_password_at_outdated_controller() {
    for stage in DirectoryStage::both() {
        let before = bindpass(&stage);
        stage.root.write("directory/rotate-root", &json!({})).expect(204);
        stage.branch.set_password("engine", &before);
        for _ in 0..8 {
            stage.role("build", "svc1");
        }
        stage.creds("build");
        assert!(stage.takes("engine", &before), "the engine's account is not locked");
    }
}

/// After an operator has set a password, the engine tries no other password.
#[test]
fn a_wrong_bindpass_is_tried_once_per_request() {
    for stage in DirectoryStage::both() {
        let before = bindpass(&stage);
        stage.root.write("directory/rotate-root", &json!({})).expect(204);
        stage.branch.set_password("engine", &before);
        let written = stage.configure(json!({ "bindpass": "Jm6-Yt2-Hd8-Vc5" })).expect(200);
        assert!(written.warnings().contains("refuses both"), "{written:?}");
        let role = json!({ "service_account_name": stage.name("svc1") });
        let refused = stage.root.write("directory/roles/build", &role).expect(400);
        assert!(refused.errors().contains("refused the login"), "{}", refused.errors());
        assert!(stage.takes("engine", &before), "one wrong login locks no account");
        stage.assert_silent(&before);
    }
}

#[test]
fn concurrent_root_rotations_leave_a_working_password() {
    for stage in DirectoryStage::both() {
        let answers: Vec<_> = std::thread::scope(|scope| {
            let rotate = || stage.root.write("directory/rotate-root", &json!({}));
            let callers: Vec<_> = (0..8).map(|_| scope.spawn(rotate)).collect();
            callers.into_iter().map(|caller| caller.join().expect("no caller panics")).collect()
        });
        for answer in &answers {
            match answer.status {
                204 => {}
                200 => assert!(answer.warnings().contains("in progress"), "{answer:?}"),
                status => panic!("{status}: {}", answer.errors()),
            }
        }
        assert!(
            answers.iter().any(|answer| answer.status == 204),
            "one of the requests rotated the password"
        );
        stage.role("build", "svc1");
        let password = stage.creds("build").text("current_password").to_owned();
        assert!(stage.takes("svc1", &password));
        stage.root.write("directory/rotate-root", &json!({})).expect(204);
        stage.creds("build");
    }
}
