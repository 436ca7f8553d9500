//! Revocation with exactly the documented rights, and without each of them: the account is gone, or
//! the refusal says why and the lease stays.

use super::MysqlStage;
use bulkhead_tests::Answer;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::time::Duration;

const PASSWORD: &str = "Kp4-Zt8-Vn2-Qs6";

/// Accounts at two hosts, neither of which is `%`.
const AT_TWO_HOSTS: &str = "CREATE USER '{{name}}'@'127.0.0.1' IDENTIFIED BY '{{password}}'; \
                            GRANT SELECT ON demo.orders TO '{{name}}'@'127.0.0.1'; \
                            CREATE USER '{{name}}'@'10.%' IDENTIFIED BY '{{password}}'";

/// The right to end other users' sessions; MySQL spells it with an underscore.
fn connection_admin() -> &'static str {
    match std::env::var_os("BULKHEAD_TEST_MYSQL") {
        Some(_) => "CONNECTION_ADMIN ON *.*",
        None => "CONNECTION ADMIN ON *.*",
    }
}

fn rights() -> [&'static str; 4] {
    ["CREATE USER ON *.*", "SELECT ON mysql.user", "PROCESS ON *.*", connection_admin()]
}

impl MysqlStage {
    /// A server whose connection `sea` logs in as `keeper`, with these rights and the rights that
    /// it grants to others.
    fn kept_by(rights: &[&str]) -> Self {
        let sea = Self::new(&[]);
        sea.mariadb.query(&format!(
            "CREATE USER 'keeper'@'%' IDENTIFIED BY '{PASSWORD}'; \
             GRANT SELECT ON demo.orders TO 'keeper'@'%' WITH GRANT OPTION"
        ));
        rights.iter().for_each(|right| sea.grant(right));
        sea.reconnect();
        sea.role("apart", json!({ "creation_statements": [AT_TWO_HOSTS] }));
        sea
    }

    fn grant(&self, right: &str) {
        self.mariadb.query(&format!("GRANT {right} TO 'keeper'@'%'"));
    }

    /// Writes the connection: a session's global rights are those at its login.
    fn reconnect(&self) -> Answer {
        let keeper = json!({ "username": "keeper", "password": PASSWORD });
        self.connect(keeper).expect_success()
    }

    fn try_revoke(&self, lease: &str) -> Answer {
        self.root.write("sys/leases/revoke", &json!({ "lease_id": lease }))
    }

    #[track_caller]
    fn keeps(&self, lease: &str) {
        self.root.write("sys/leases/lookup", &json!({ "lease_id": lease })).expect(200);
    }
}

#[test]
fn documented_rights_cover_any_host_accounts_and_sessions() {
    let sea = MysqlStage::kept_by(&rights());
    let warnings = sea.reconnect().warnings();
    assert!(!warnings.contains("user of connection"), "{warnings}");
    let credential = sea.credential("apart");
    let mut session = sea.mariadb.sleeper(&credential.username, &credential.password);
    sea.revoke(&credential);
    assert_eq!(sea.mariadb.users(), Vec::<String>::new());
    until_true("the open session is ended", Duration::from_secs(5), || {
        session.try_wait().expect("the client is ours").is_some()
    });
}

#[test]
fn revocation_missing_right_fails_visibly_and_keeps_lease() {
    for (right, says) in rights().into_iter().zip([
        "CREATE USER",
        "SELECT on mysql.user",
        "PROCESS",
        "CONNECTION ADMIN",
    ]) {
        // The accounts of this creation are recorded.
        if says == "SELECT on mysql.user" {
            continue;
        }
        let sea = MysqlStage::kept_by(&rights());
        let credential = sea.credential("apart");
        let (name, password) = (&credential.username, &credential.password);
        let mut session = sea.mariadb.sleeper(name, password);
        sea.mariadb.query(&format!("REVOKE {right} FROM 'keeper'@'%'"));
        let warnings = sea.reconnect().warnings();
        assert!(
            warnings.contains("connection \"sea\"") && warnings.contains(says),
            "{right}: {warnings}"
        );
        let refused = sea.try_revoke(&credential.lease).expect(400).errors();
        assert!(refused.contains(says) && refused.contains("again"), "{right}: {refused}");
        sea.keeps(&credential.lease);
        let is_gone = sea.mariadb.users().is_empty();
        assert_eq!(is_gone, sea.mariadb.login(name, password, "SELECT 1").is_err(), "{right}");

        sea.grant(right);
        sea.reconnect();
        sea.revoke(&credential);
        assert_eq!(sea.mariadb.users(), Vec::<String>::new(), "{right}");
        until_true("the open session is ended", Duration::from_secs(5), || {
            session.try_wait().expect("the client is ours").is_some()
        });
    }
}

#[test]
fn invisible_accounts_are_removed_as_recorded_at_creation() {
    for revocation in [&[][..], &["DROP USER '{{name}}'@'127.0.0.1'"]] {
        let sea = MysqlStage::kept_by(&rights());
        sea.role("apart", json!({ "revocation_statements": revocation }));
        let credential = sea.credential("apart");
        sea.mariadb.query("REVOKE SELECT ON mysql.user FROM 'keeper'@'%'");
        let warnings = sea.reconnect().warnings();
        assert!(warnings.contains("SELECT on mysql.user"), "{warnings}");
        sea.revoke(&credential);
        let left = sea.mariadb.users();
        if revocation.is_empty() {
            assert_eq!(left, Vec::<String>::new());
            continue;
        }
        let at = format!("'{}'@'10.%'", credential.username);
        let shown = sea.mariadb.query(&format!("SHOW CREATE USER {at}"));
        assert!(shown.contains("ACCOUNT LOCK"), "{left:?}: {shown}");
    }
}

#[test]
fn creation_with_unknown_accounts_is_refused() {
    let sea = MysqlStage::kept_by(&["CREATE USER ON *.*", "PROCESS ON *.*", connection_admin()]);
    for creation in [
        "CREATE USER IF NOT EXISTS '{{name}}'@'%' IDENTIFIED BY '{{password}}'",
        "EXECUTE IMMEDIATE 'CREATE USER ''{{name}}''@''%'' IDENTIFIED BY ''{{password}}'''",
    ] {
        sea.role("odd", json!({ "creation_statements": [creation] }));
        let refused = sea.root.read("database/creds/odd").expect(400).errors();
        assert!(refused.contains("may not read mysql.user"), "{refused}");
        assert_eq!(sea.mariadb.users(), Vec::<String>::new());
    }
}

#[test]
fn invisible_accounts_are_removed_by_custom_statements() {
    let sea = MysqlStage::kept_by(&["CREATE USER ON *.*", "PROCESS ON *.*", connection_admin()]);
    let dropping = "DROP USER '{{name}}'@'127.0.0.1', '{{name}}'@'10.%'";
    sea.role(
        "apart",
        json!({ "creation_statements": [AT_TWO_HOSTS], "revocation_statements": [dropping] }),
    );
    let credential = sea.credential("apart");
    sea.revoke(&credential);
    assert_eq!(sea.mariadb.users(), Vec::<String>::new());
    // A missing account is not left behind.
    let credential = sea.credential("apart");
    sea.mariadb.query(&format!("DROP USER '{}'@'10.%'", credential.username));
    sea.revoke(&credential);
    assert_eq!(sea.mariadb.users(), Vec::<String>::new());
}

#[test]
fn failed_creation_leaves_no_other_host_account() {
    let sea = MysqlStage::kept_by(&["CREATE USER ON *.*", "PROCESS ON *.*", connection_admin()]);
    let failing = format!("{AT_TWO_HOSTS}; GRANT DELETE ON demo.orders TO '{{{{name}}}}'@'10.%'");
    sea.role("failing", json!({ "creation_statements": [failing] }));
    sea.root.read("database/creds/failing").expect(400);
    assert_eq!(sea.mariadb.users(), Vec::<String>::new());
}

#[test]
fn unpreparable_statements_lock_user_out() {
    let sea = MysqlStage::new(&[]);
    // Without a connection no plugin can check the statements.
    let role = json!({
        "creation_statements": [AT_TWO_HOSTS], "revocation_statements": ["SELECT '{{password}}'"],
    });
    sea.role("apart", role);
    sea.connect(json!({})).expect_success();
    let credential = sea.credential("apart");
    let login = || sea.mariadb.login(&credential.username, &credential.password, "SELECT 1");
    assert!(login().is_ok());
    let refused = sea.try_revoke(&credential.lease).expect(400).errors();
    for said in ["{{password}}", "{{name}} and {{username}}", "write role", "revoke again"] {
        assert!(refused.contains(said), "{refused}");
    }
    sea.keeps(&credential.lease);
    assert!(login().is_err(), "the accounts are locked");
    sea.role("apart", json!({ "revocation_statements": [] }));
    sea.revoke(&credential);
    assert_eq!(sea.mariadb.users(), Vec::<String>::new());
}

#[test]
fn placeholders_without_value_are_refused_when_writing_role() {
    let sea = MysqlStage::connected();
    for (field, text, exist) in [
        ("renew_statements", "SELECT '{{password}}'", "{{name}}, {{username}} and {{expiration}}"),
        ("revocation_statements", "DROP USER '{{expiration}}'", "{{name}} and {{username}}"),
        ("rollback_statements", "DROP USER '{{subject}}'", "{{name}} and {{username}}"),
        ("creation_statements", "CREATE USER '{{nmae}}'", "{{password}} and {{expiration}}"),
    ] {
        let role =
            json!({ "db_name": "sea", "creation_statements": [super::CREATION], field: text });
        let refused = sea.root.write("database/roles/other", &role).expect(400).errors();
        let placeholder =
            &text[text.find("{{").expect("the text has a placeholder")..text.len() - 1];
        for said in [field, placeholder, exist] {
            assert!(refused.contains(said), "{field}: {refused}");
        }
        sea.root.read("database/roles/other").expect(404);
    }
}

#[test]
fn quoted_code_has_safe_password_or_is_refused() {
    let sea = MysqlStage::connected();
    let policy = |name: &str, charset: &str| {
        let text = format!("length = 8 rule \"charset\" {{ charset = \"{charset}\" }}");
        sea.root
            .write(&format!("sys/policies/password/{name}"), &json!({ "policy": text }))
            .expect_success();
    };
    policy("some", "abc'!");
    policy("none", "'!");
    let in_code = "EXECUTE IMMEDIATE 'CREATE USER ''{{name}}''@''%'' IDENTIFIED BY \
                   ''{{password}}'''";
    let role = |policy: &str| {
        json!({
            "db_name": "sea", "creation_statements": [in_code],
            "credential_config": { "password_policy": policy },
        })
    };
    sea.root.write("database/roles/some", &role("some")).expect_success();
    for _ in 0..12 {
        let credential = sea.credential("some");
        let login = sea.mariadb.login(&credential.username, &credential.password, "SELECT 1");
        assert!(
            login.is_err_and(|refused| refused.contains("1044")),
            "the user has no right in the database demo"
        );
        sea.revoke(&credential);
    }
    let refused = sea.root.write("database/roles/none", &role("none")).expect(400).errors();
    for said in ["creation_statements", "policy \"none\"", "{{password}}"] {
        assert!(refused.contains(said), "{refused}");
    }
    sea.root.read("database/roles/none").expect(404);
}
