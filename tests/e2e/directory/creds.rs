//! Roles: an overdue password is rotated when it is read, and the working password is shown.

use super::{DirectoryStage, FIRST};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{DirectoryKind, DirectoryServer};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Longest wait for due work.
const SOON: Duration = Duration::from_secs(15);

#[test]
fn role_shows_working_and_previous_password() {
    for stage in DirectoryStage::both() {
        stage.role("build", "svc1");
        assert!(stage.takes("svc1", FIRST), "a role that is written changes nothing");
        let first = stage.creds("build");
        let password = first.text("current_password");
        assert!(stage.takes("svc1", password) && !stage.takes("svc1", FIRST));
        assert_eq!(first.text("username"), stage.branch.full("svc1"));
        assert!(
            first.body["data"].get("last_password").is_none(),
            "the password before the role is not shown"
        );
        assert!(password.starts_with("?@09AZ") && password.len() == 64, "{}", password.len());
        let again = stage.creds("build");
        assert_eq!(
            again.text("current_password"),
            password,
            "the password is unchanged before its time"
        );
        stage.root.write("directory/rotate-role/build", &json!({})).expect(204);
        let rotated = stage.creds("build");
        assert_eq!(rotated.text("last_password"), password);
        let now = rotated.text("current_password");
        assert!(stage.takes("svc1", now) && !stage.takes("svc1", password));
        let role = stage.root.read("directory/roles/build").expect(200);
        for time in ["last_service_rotation", "last_vault_rotation", "password_last_set"] {
            assert!(role.text(time).ends_with('Z'), "{time}: {role:?}");
        }
        for secret in [password, now, FIRST] {
            stage.assert_silent(secret);
        }
    }
}

#[test]
fn password_is_rotated_at_due_time_not_before() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::new(kind);
        stage.role("build", "svc1");
        stage.root.write("directory/roles/build", &json!({ "ttl": "2s" })).expect(204);
        let first = stage.creds("build").text("current_password").to_owned();
        let mut later = None;
        until_true("its time is over", SOON, || {
            let shown = stage.creds("build");
            let is_another = shown.text("current_password") != first;
            later = is_another.then_some(shown);
            is_another
        });
        let later = later.expect("another password is shown after the rotation");
        assert_eq!(later.text("last_password"), first);
        assert!(stage.takes("svc1", later.text("current_password")));
    }
}

#[test]
fn password_changed_elsewhere_is_rotated_before_being_shown() {
    for stage in DirectoryStage::both() {
        stage.root.write("directory/config", &json!({ "last_rotation_tolerance": 0 })).expect(204);
        stage.role("build", "svc1");
        let ours = stage.creds("build").text("current_password").to_owned();
        let theirs = "Of-Others-9-Zm4";
        let mut shown = None;
        // The directory's timestamps have whole seconds.
        until_true("the directory tells another time", SOON, || {
            stage.branch.set_password("svc1", theirs);
            let answer = stage.creds("build");
            let is_another = answer.text("current_password") != ours;
            shown = Some(answer);
            is_another
        });
        let shown = shown.expect("something was shown");
        assert!(
            shown.body["data"].get("last_password").is_none(),
            "a password set by others is not shown"
        );
        assert!(
            stage.takes("svc1", shown.text("current_password")) && !stage.takes("svc1", theirs)
        );
        let again = stage.creds("build");
        assert_eq!(again.text("current_password"), shown.text("current_password"), "no loop");
    }
}

#[test]
fn renamed_account_is_found_and_deleted_is_400() {
    for stage in DirectoryStage::both() {
        stage.role("build", "svc1");
        stage.creds("build");
        stage.branch.rename("svc1", "moved");
        stage.root.write("directory/rotate-role/build", &json!({})).expect(204);
        let password = stage.creds("build").text("current_password").to_owned();
        assert!(stage.takes("moved", &password));
        stage.branch.remove("moved");
        let gone = stage.root.read("directory/creds/build").expect(400);
        assert!(gone.errors().contains("not in the directory any more"), "{}", gone.errors());
        stage.root.read("directory/roles/build").expect(200);
        let other = json!({ "service_account_name": stage.name("svc2") });
        let answer = stage.root.write("directory/roles/build", &other).expect(200);
        assert!(answer.warnings().contains("not stored any more"), "{}", answer.warnings());
        stage.creds("build");
    }
}

#[test]
fn concurrent_readers_of_due_role_get_one_password() {
    for stage in DirectoryStage::both() {
        stage.role("build", "svc1");
        let shown: BTreeSet<String> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..32).map(|_| scope.spawn(|| stage.creds("build"))).collect();
            let shown = readers.into_iter().map(|reader| reader.join().expect("no panic"));
            shown.map(|answer| answer.text("current_password").to_owned()).collect()
        });
        assert_eq!(shown.len(), 1, "the account was rotated once");
        assert!(stage.takes("svc1", shown.first().expect("one")));
    }
}

#[test]
fn two_roles_of_one_account_show_one_password() {
    for stage in DirectoryStage::both() {
        stage.role("build", "svc1");
        let dn = json!({ "service_account_name": stage.branch.dn_of("svc1") });
        stage.root.write("directory/roles/deploy", &dn).expect(204);
        let [one, other] = ["build", "deploy"].map(|role| stage.creds(role));
        assert_eq!(one.text("current_password"), other.text("current_password"));
        stage.root.delete("directory/roles/build").expect(204);
        assert!(stage.takes("svc1", stage.creds("deploy").text("current_password")));
        stage.root.read("directory/creds/build").expect(404);
    }
}

#[test]
fn an_account_name_is_escaped_in_search_filters() {
    for stage in DirectoryStage::both() {
        for name in [
            "*",
            "*)(objectClass=*",
            "a)(|(cn=*",
            "\\2a",
            "(",
            ")",
            "\u{0}",
            "svc1)(cn=*",
            "t*",
            "nothing-of-the-kind",
            "CN=*,OU=people",
            "CN=a)(b,DC=corp",
            "CN=a#b,DC=corp,DC=example",
        ] {
            for (path, field) in
                [("roles/odd", "service_account_name"), ("library/odd", "service_account_names")]
            {
                let value = if path == "roles/odd" { json!(name) } else { json!([name]) };
                let body = json!({ field: value });
                let refused = stage.root.write(&format!("directory/{path}"), &body).expect(400);
                // Active Directory refuses the search of a DN outside of its domain.
                let reasons = ["there is no account", "refused the search"];
                let is_expected = reasons.iter().any(|words| refused.errors().contains(words));
                assert!(is_expected, "{name}: {}", refused.errors());
                assert!(!refused.errors().contains("svc1@"), "{name}: {}", refused.errors());
                stage.root.read(&format!("directory/{path}")).expect(404);
            }
        }
        for account in ["svc1", "svc2", "svc3"] {
            assert!(stage.takes(account, FIRST), "{account}");
        }
    }
}

/// An account elsewhere belongs to somebody else. A role for the engine's own account would show
/// the account's password to readers of the role.
#[test]
fn roles_and_sets_refuse_foreign_and_engine_accounts() {
    for stage in DirectoryStage::both() {
        let elsewhere = stage.branch.server.branch();
        elsewhere.add("other", FIRST);
        let engine = stage.branch.config()["bindpass"].as_str().expect("a text").to_owned();
        for (name, why) in [
            (elsewhere.dn_of("other"), "no account"),
            (stage.branch.dn_of("engine"), "the engine's own login"),
            (stage.branch.dn_of("engine").to_lowercase(), "the engine's own login"),
            (stage.name("engine"), "the engine's own login"),
        ] {
            let role = json!({ "service_account_name": name });
            let refused = stage.root.write("directory/roles/odd", &role).expect(400);
            assert!(refused.errors().contains(why), "{name}: {}", refused.errors());
            let set = json!({ "service_account_names": [name] });
            let refused = stage.root.write("directory/library/odd", &set).expect(400);
            assert!(refused.errors().contains(why), "{name}: {}", refused.errors());
        }
        assert!(elsewhere.takes("other", FIRST) && stage.takes("engine", &engine));
    }
}

#[test]
fn directory_refusal_is_400_and_not_retried() {
    let stage = DirectoryStage::new(DirectoryKind::OpenLdap);
    let policy = format!("CN=strict,{}", stage.branch.dn);
    stage.branch.server.ldif(&format!(
        "dn: {policy}\nchangetype: add\nobjectClass: device\nobjectClass: pwdPolicy\ncn: strict\n\
         pwdAttribute: userPassword\npwdCheckQuality: 2\npwdMinLength: 200\n"
    ));
    stage.branch.modify("svc1", &format!("add: pwdPolicySubentry\npwdPolicySubentry: {policy}"));
    stage.role("build", "svc1");
    for _ in 0..2 {
        let refused = stage.root.read("directory/creds/build").expect(400);
        assert!(refused.errors().contains("quality"), "{}", refused.errors());
    }
    assert!(stage.takes("svc1", FIRST), "nothing has changed");
    stage.root.write("directory/config", &json!({ "length": 220 })).expect(204);
    let password = stage.creds("build").text("current_password").to_owned();
    assert!(password.len() == 220 && stage.takes("svc1", &password));
}

#[test]
fn a_locked_account_gets_a_password_too() {
    for stage in DirectoryStage::both() {
        stage.role("build", "svc1");
        for _ in 0..5 {
            assert!(!stage.takes("svc1", "Jm6-Yt2-Hd8-Vc5"));
        }
        assert!(!stage.takes("svc1", FIRST), "the account is locked");
        let password = stage.creds("build").text("current_password").to_owned();
        if stage.branch.server.kind == DirectoryKind::Samba {
            stage.branch.modify("svc1", "replace: lockoutTime\nlockoutTime: 0");
        }
        assert!(stage.takes("svc1", &password));
    }
}

/// The password operation stores a hash; writing the attribute would not change the password.
#[test]
fn active_directory_never_gets_password_as_attribute() {
    let stage = DirectoryStage::empty(DirectoryKind::Samba);
    stage.configure(json!({ "schema": "openldap" })).expect(204);
    stage
        .root
        .write(
            "directory/roles/build",
            &json!({ "service_account_name": stage.branch.dn_of("svc1") }),
        )
        .expect(204);
    let refused = stage.root.read("directory/creds/build").expect(400);
    assert!(refused.errors().contains("use schema ad"), "{}", refused.errors());
    let attribute = stage.branch.server.attribute(&stage.branch.dn_of("svc1"), "userPassword");
    assert!(attribute.is_none() && stage.takes("svc1", FIRST));
    let stage = DirectoryStage::new(DirectoryKind::OpenLdap);
    stage.role("build", "svc1");
    stage.creds("build");
    let attribute = stage.branch.server.attribute(&stage.branch.dn_of("svc1"), "userPassword");
    let attribute = attribute.expect("OpenLDAP shows it to its administrator, in base64");
    assert!(attribute.starts_with("e1NTSEF9"), "the stored password is not an SSHA hash");
}

#[test]
fn unreachable_directory_is_502_and_loses_no_password() {
    let server = DirectoryServer::own(DirectoryKind::OpenLdap);
    let stage = DirectoryStage::of(server.branch());
    stage.configure(json!({})).expect(204);
    stage.role("build", "svc1");
    stage.creds("build");
    let other = server.branch();
    other.add("svc9", FIRST);
    server.stop();
    let gone = server.url();
    stage.root.read("directory/creds/build").refused(502, &gone);
    let role = json!({ "service_account_name": other.dn_of("svc9") });
    stage.root.write("directory/roles/other", &role).refused(502, &gone);
    stage.root.read("directory/roles/other").expect(404);
    stage.root.read("directory/roles/build").expect(200);
    stage.root.write("directory/rotate-root", &json!({})).refused(502, &gone);
}

/// Asserts that a write is refused for the reason `words`.
#[track_caller]
fn refused(stage: &DirectoryStage, path: &str, body: Value, words: &str) {
    let refused = stage.root.write(path, &body).expect(400);
    assert!(refused.errors().contains(words), "{path} {body}: {refused:?}");
}

/// Writes bad roles, each with another mistake, with the account `one`.
fn refuse_roles(stage: &DirectoryStage, one: &str) {
    let path = "directory/roles/build";
    for (role, words) in [
        (json!({}), "service_account_name is required"),
        (json!({ "service_account_name": "" }), "service_account_name is required"),
        (
            json!({ "service_account_name": "nothing-of-the-kind" }),
            "there is no account \"nothing-of-the-kind\"",
        ),
        (json!({ "service_account_name": one, "ttl": "3h" }), "ttl 3h is longer than"),
        (json!({ "service_account_name": one, "ttl": -1 }), "ttl: -1 is not a duration"),
        (json!({ "service_account_name": one, "ttl": "soon" }), "ttl: \"soon\" is not a duration"),
        (
            json!({ "service_account_name": one, "password": FIRST }),
            "password is for configurations with self_rotation",
        ),
    ] {
        refused(stage, path, role, words);
        stage.root.read(path).expect(404);
    }
}

/// Writes bad sets, each with another mistake, with the accounts `one` and `other`.
fn refuse_sets(stage: &DirectoryStage, one: &str, other: &str) {
    let path = "directory/library/team";
    let both = json!([one, other]);
    for (set, words) in [
        (json!({}), "service_account_names is required"),
        (json!({ "service_account_names": [] }), "service_account_names is required"),
        (json!({ "service_account_names": [""] }), "service_account_names is required"),
        (
            json!({ "service_account_names": [one, "nothing-of-the-kind"] }),
            "there is no account \"nothing-of-the-kind\"",
        ),
        (json!({ "service_account_names": [one, one.to_uppercase()] }), "are the same account"),
        (
            json!({ "service_account_names": both, "ttl": "2h", "max_ttl": "1h" }),
            "max_ttl 1h is less than ttl 2h",
        ),
        (json!({ "service_account_names": both, "ttl": -1 }), "ttl: -1 is not a duration"),
        (
            json!({ "service_account_names": [one], "disable_check_in_enforcement": "perhaps" }),
            "disable_check_in_enforcement: \"perhaps\" is not a boolean",
        ),
    ] {
        refused(stage, path, set, words);
        stage.root.read(path).expect(404);
        refused(stage, &format!("{path}/check-out"), json!({}), "there is no set \"team\"");
    }
}

#[test]
fn bad_roles_and_sets_are_400_without_change() {
    for stage in DirectoryStage::both() {
        stage.root.write("directory/config", &json!({ "max_ttl": "2h" })).expect(204);
        let (one, other) = (stage.name("svc1"), stage.name("svc2"));
        refuse_roles(&stage, &one);
        refuse_sets(&stage, &one, &other);
        assert!(stage.takes("svc1", FIRST) && stage.takes("svc2", FIRST));
        stage.set("team", &["svc1"], json!({}));
        let path = "directory/library/team/check-out";
        refused(&stage, path, json!({ "ttl": -1 }), "ttl: -1 is not a duration");
        refused(&stage, path, json!({ "ttl": "soon" }), "ttl: \"soon\" is not a duration");
        let stranger = json!({ "service_account_names": [other] });
        let path = "directory/library/team/check-in";
        refused(&stage, path, stranger, "is not an account of this set");
        let status = stage.root.read("directory/library/team/status").expect(200);
        assert_eq!(status.body["data"][&one]["available"], true);
        assert!(stage.takes("svc2", FIRST));
        stage.assert_silent(FIRST);
    }
}
